"""Names the executions inside of maps and blocks, and counts the items of maps."""

from dataclasses import dataclass

from podium.types.events import (
    AnswerDelta,
    AttemptFailed,
    Event,
    FanOut,
    StepDelta,
    StepEnded,
    StepStarted,
)
from podium.types.steps import static_place

_PART = 0.1
"""The part of the items of a map after whose ends its counts are told again."""


@dataclass(slots=True)
class _Items:
    """The items of one map."""

    total: int
    ended: int = 0
    failed: int = 0
    told: int = 0
    """How many had ended when the counts were told last."""


class Executions:
    """The executions of one run inside of maps and blocks, from the events of the run.

    The first event is of this run; the events of its nested runs are left out.
    """

    def __init__(self) -> None:
        self._run_id = ""
        self._names: dict[tuple[int, int], str] = {}
        self._maps: dict[tuple[int, str], _Items] = {}

    def take(self, event: Event) -> None:
        """Take the next event of the run."""
        self._run_id = self._run_id or event.run_id
        match event:
            case _ if event.run_id != self._run_id:
                pass
            case StepStarted() | StepEnded():
                path = event.path if isinstance(event, StepStarted) else event.outcome.path
                if path:
                    self._names[event.round, event.step] = path
                    self._count(event, path)
            case FanOut(kind="items") if self._map_of(event.round, event.path) is None:
                place = event.round, event.path or str(event.step)
                self._maps.setdefault(place, _Items(0)).total += event.count

    def path(self, event: StepStarted | StepDelta | StepEnded | AttemptFailed | AnswerDelta) -> str:
        """Return the name of an execution inside of a map or a block; empty for a step of the plan."""
        is_own = event.run_id == self._run_id
        return self._names.get((event.round or 0, event.step or 0), "") if is_own else ""

    def name(self, event: StepStarted | StepDelta | StepEnded | AttemptFailed | AnswerDelta) -> str:
        """Return the name of the step of an event; see `Outcome.name`."""
        return self.path(event) or str(event.step)

    def is_in_map(self, event: Event) -> bool:
        """Return whether an event is of an execution inside of a map."""
        if not isinstance(event, StepStarted | StepDelta | StepEnded | AttemptFailed):
            return False
        return self._map_of(event.round, self.path(event)) is not None

    def counts(self, event: Event) -> str:
        """Return the counts of a map at its start, and after each further tenth of its items; else empty."""
        if isinstance(event, FanOut):
            own = event.path or str(event.step)
            items = self._maps.get((event.round, own))
            is_first = items is not None and items.total == event.count and not items.ended
            return f"step {own}: {event.count} items" if is_first and event.kind == "items" else ""
        if (
            not isinstance(event, StepEnded)
            or (name := self._map_of(event.round, event.outcome.path)) is None
        ):
            return ""
        items = self._maps.get((event.round, name))
        if items is None or items.ended - items.told < max(_PART * items.total, 1):
            return ""
        items.told = items.ended
        failed = f", {items.failed} failed" if items.failed else ""
        return f"step {name}: {items.ended} of {items.total} items{failed}"

    def _count(self, event: StepStarted | StepEnded, path: str) -> None:
        name = self._map_of(event.round, path)
        items = None if name is None else self._maps.get((event.round, name))
        if items is None or name is None or not isinstance(event, StepEnded):
            return
        if not static_place(path[len(name) :]):  # the item itself
            items.ended += 1
            items.failed += event.outcome.status == "failed"
            items.total = max(items.total, items.ended)

    def _map_of(self, number: int, path: str) -> str | None:
        """Return the name of the outermost map around an execution; `None` without one."""
        for at, sign in enumerate(path):
            if sign == "[" or (sign == "(" and (number, path[:at]) in self._maps):
                return path[:at]
        return None
