"""The spans of one run that are open, by where they stand in it.

Parents are found by place, not by what happens to be current, so that it is one tree
however many steps run at the same time. It knows no events.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from opentelemetry import context, trace
from opentelemetry.trace import Span, SpanKind, Tracer

from podium.telemetry.describe import Attributes

Place = tuple[int, ...]
"""`()` the run, `(round,)`, `(round, step)`, `(round, step, attempt)`."""


@dataclass(slots=True)
class Open:
    """A span that is open."""

    span: Span
    began: float
    """In seconds since the run began."""
    labels: Attributes
    """What metrics of it are told apart by."""
    holds_run: bool = False
    """Whether a run stands below it, which measures what it calls."""


class Tree:
    """The open spans of one run, whose own is a child of the span that is current here."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._context = context.get_current()
        self._open: dict[Place, Open] = {}

    def __getitem__(self, place: Place) -> Open:
        return self._open[place]

    def __contains__(self, place: Place) -> bool:
        return place in self._open

    def get(self, place: Place) -> Open | None:
        """Return the span at `place`, if it is open."""
        return self._open.get(place)

    def below(self, place: Place) -> Iterator[Place]:
        """Yield the places of spans that are open below `place`, the newest first."""
        for other in reversed(tuple(self._open)):
            if len(other) > len(place) and other[: len(place)] == place:
                yield other

    def open(
        self,
        place: Place,
        name: str,
        attributes: Attributes,
        *,
        at: float,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> Span:
        """Open a span below the nearest one that is open above it; one that stood there ends."""
        self.end(place)
        above = (self._open.get(place[:length]) for length in range(len(place) - 1, -1, -1))
        parent = next((found.span for found in above if found is not None), None)
        inside = self._context if parent is None else trace.set_span_in_context(parent, self._context)
        span = self._tracer.start_span(name, inside, kind, attributes)
        labels = {name: attributes[name] for name in _LABELS if name in attributes}
        self._open[place] = Open(span, at, labels)
        return span

    def end(self, place: Place) -> None:
        """End the span at `place` and all below it, innermost first; none need be there."""
        if place not in self._open:
            return
        for other in (*self.below(place), place):
            self._open.pop(other).span.end()


_LABELS = (
    "gen_ai.operation.name",
    "gen_ai.provider.name",
    "gen_ai.request.model",
    "server.address",
    "server.port",
    "podium.worker",
)
