"""Finds the model calls of a query, their costs, and the query's latency."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from podium.usage import Usage
from podium_evals.audit.prices import Prices
from podium_evals.audit.span import Span

CostSource = Literal["prices", "export", "none", "unknown"]
_SKEW = 0.001
"""Seconds by which a span may start before the span around it, because clocks round."""
_WRAPPERS = "Runnable"
"""Beginnings of the names of LangChain classes that only compose steps."""


@dataclass(frozen=True, slots=True)
class Call:
    """A model call with its cost."""

    span: Span
    step: str
    """The name of the call's step: as in the export, else the name of the span around the call, else of its
    own span."""
    agent: str
    """The id of the agent that made the call; empty if there is none."""
    cost: float | None
    """The cost in USD; `None` if it is unknown."""
    cost_source: CostSource
    """Where the cost is from. `prices`: tokens times prices; `export`: the cost in the export, because no
    price is known; `none`: the call failed without tokens, and counts as not billed; `unknown`: the price or
    the tokens are unknown."""

    @property
    def usage(self) -> Usage:
        """The tokens of the call; zero if they are unknown."""
        return self.span.usage or Usage()


class Query:
    """The spans of one query.

    Args:
        spans: the spans, in any order; at least one.
        prices: the prices of the calls.
    """

    def __init__(self, spans: Sequence[Span], prices: Prices) -> None:
        self.id = spans[0].trace
        self.spans = sorted(spans, key=lambda span: (span.started or 0.0, len(span.prompt), span.id))
        self.prices = prices
        self._by_id = {span.id: span for span in spans}
        counted, self.wrappers = self._counted()
        self.calls = tuple(self._call(span) for span in counted)
        """The model calls in order of their start. A call that contains other calls is left out."""

    @cached_property
    def question(self) -> str:
        """An excerpt of the question, from the outermost span, else from the first call."""
        asked = [span for span in self.spans if span.question]
        roots = [span for span in asked if span.parent not in self._by_id]
        return next((span.question for span in (*roots, *asked)), "")

    @cached_property
    def cost(self) -> float | None:
        """The sum of all known costs; `None` if no cost is known."""
        known = [call.cost for call in self.calls if call.cost is not None]
        return sum(known) if known or not self.calls else None

    @cached_property
    def unpriced(self) -> int:
        """Number of calls of unknown cost."""
        return sum(call.cost is None for call in self.calls)

    @cached_property
    def usage(self) -> Usage:
        """All known tokens."""
        return Usage.total(call.usage for call in self.calls)

    @cached_property
    def seconds(self) -> float | None:
        """The duration of the outermost span; without such a span, from the first start to the last end."""
        roots = [span for span in self.spans if span.parent not in self._by_id]
        if len(roots) == 1 and roots[0].seconds is not None:
            return roots[0].seconds
        timed = [span for span in self.spans if span.seconds is not None]
        if not timed:
            return None
        return max(span.ended or 0.0 for span in timed) - min(span.started or 0.0 for span in timed)

    @property
    def orphans(self) -> int:
        """Number of spans whose parent span is not in the export."""
        return sum(bool(span.parent) and span.parent not in self._by_id for span in self.spans)

    @property
    def backwards(self) -> int:
        """Number of spans that end before they start."""
        return sum(
            span.started is not None and span.ended is not None and span.ended < span.started
            for span in self.spans
        )

    @property
    def early(self) -> int:
        """Number of spans that start before the span around them."""
        return sum(
            (outer := self._by_id.get(span.parent)) is not None
            and span.started is not None
            and outer.started is not None
            and span.started < outer.started - _SKEW
            for span in self.spans
        )

    def cost_of(self, call: Call, usage: Usage, cache_writes: int = 0) -> float | None:
        """Return the cost of other tokens at the prices of a call.

        Args:
            call: the call.
            usage: the tokens.
            cache_writes: the part of the input tokens that was written to a cache.
        """
        span = call.span
        return self.prices.cost(
            span.model, usage, provider=span.provider, base_url=span.base_url, cache_writes=cache_writes
        )

    def _counted(self) -> tuple[list[Span], int]:
        """Return the spans that count as calls, and the number of model calls that do not count."""
        billed = [span for span in self.spans if span.kind == "call" or span.usage is not None]
        bearing = {span.id for span in billed if span.usage is not None or span.cost is not None}
        inside = {outer.id for span in billed if span.id in bearing for outer in self._around(span)}
        called = [span for span in billed if span.id not in inside]
        left = [span for span in billed if span.id in inside and span.kind == "call"]
        # A call inside a counted call does not count: the outer call has the tokens.
        counted = {span.id for span in called if span.id in bearing}
        inner = {span.id for span in called if any(outer.id in counted for outer in self._around(span))}
        return [span for span in called if span.id not in inner], len(left) + len(inner)

    def _around(self, span: Span) -> list[Span]:
        """Return the spans around a span, the nearest first; no span if the parents form a cycle."""
        found: dict[str, Span] = {}
        outer = self._by_id.get(span.parent)
        while outer is not None and outer.id not in found:
            if outer.id == span.id:
                return []
            found[outer.id] = outer
            outer = self._by_id.get(outer.parent)
        return list(found.values())

    def _call(self, span: Span) -> Call:
        around = self._around(span)
        agent = next((outer.id for outer in around if outer.kind == "agent"), "")
        named = (outer.name for outer in around if outer.name and not outer.name.startswith(_WRAPPERS))
        cost, source = _cost(span, self.prices)
        return Call(span, span.step or next(named, "") or span.name or "(no name)", agent, cost, source)


def _cost(span: Span, prices: Prices) -> tuple[float | None, CostSource]:
    if span.usage is not None:
        found = prices.cost(
            span.model,
            span.usage,
            provider=span.provider,
            base_url=span.base_url,
            cache_writes=span.cache_writes,
        )
        if found is not None:
            return found, "prices"
    if span.cost is not None:
        return span.cost, "export"
    return (0.0, "none") if span.error and span.usage is None else (None, "unknown")


def by_prompt(calls: Iterable[Call]) -> Mapping[tuple[str, str], list[Call]]:
    """Return the calls, grouped by model and prompt. Calls without a recorded prompt are left out."""
    found: dict[tuple[str, str], list[Call]] = {}
    for call in calls:
        if call.span.prompt:
            found.setdefault((call.span.model, call.span.prompt), []).append(call)
    return found


def without(usage: Usage, read: int, cached: int) -> Usage:
    """Return token counts without a part of the input.

    Args:
        usage: the counts.
        read: the tokens to remove from the input.
        cached: the number of removed tokens that were from a cache.
    """
    return replace(usage, input_tokens=usage.input_tokens - read, cached_tokens=usage.cached_tokens - cached)
