"""Adds up queries. Memory use grows by one number for each query, its latency."""

import heapq
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

from podium_evals.audit.findings import KINDS, WITHOUT_COST, Finding, findings
from podium_evals.audit.plan_estimate import plan_cost
from podium_evals.audit.query import Call, Query
from podium_evals.audit.report import (
    Amounts,
    Doubts,
    Estimate,
    ExpensiveQuery,
    FindingRow,
    Latency,
    NamedAmounts,
)
from podium_evals.audit.texts import excerpt

MOST_EXPENSIVE = 10
EXAMPLES = 5
MOST_NAMES = 5000
"""Maximum number of models, steps or errors with separate sums. Further ones share one sum."""
_OTHERS = "(others)"


@dataclass(slots=True)
class _Kind:
    """The findings of one kind."""

    count: int = 0
    queries: int = 0
    wasted: float = 0.0
    unpriced: int = 0
    examples: list[str] = field(default_factory=list)


class Tally:
    """The sums over queries.

    Args:
        turns: the limit of turns; an agent with more turns is reported as a loop.
    """

    def __init__(self, turns: int) -> None:
        self._turns = turns
        self.queries = 0
        self.total: Counter[str] = Counter()
        self.models: dict[str, Counter[str]] = {}
        self.steps: dict[str, Counter[str]] = {}
        self.errors: Counter[str] = Counter()
        self.wasted = 0.0
        self._doubts: Counter[str] = Counter()
        self._tiers: Counter[str] = Counter()
        self._latencies = array("d")
        self._expensive: list[tuple[float, int, str, ExpensiveQuery]] = []
        self._kinds = {kind: _Kind() for kind in KINDS}
        self._plans = [0.0, 0.0, 0.0]
        self._planned = self._unplanned = 0

    def add(self, query: Query) -> None:
        """Add a query. Queries without model calls, such as traces of web requests, are ignored."""
        if not query.calls:
            return
        self.queries += 1
        for call in query.calls:
            self._add_call(call)
        self._add_findings(query)
        self._add_expensive(query)
        if query.seconds is not None:
            self._latencies.append(query.seconds)
        if (plan := plan_cost(query)) is None:
            self._unplanned += 1
        else:
            self._planned += 1
            self._plans = [
                a + b for a, b in zip(self._plans, (plan.actual, plan.low, plan.high), strict=True)
            ]
        for name in ("wrappers", "orphans", "backwards", "early"):
            self._doubts[name] += getattr(query, name)

    def _add_call(self, call: Call) -> None:
        span, usage = call.span, call.usage
        sums = {
            "calls": 1,
            "failed": bool(span.error),
            "input_tokens": usage.total_input_tokens,
            "cached_tokens": usage.total_cached_tokens,
            "output_tokens": usage.total_output_tokens,
            "reasoning_tokens": usage.reasoning_tokens,
            "cost": call.cost or 0.0,
            "unpriced": call.cost is None,
            "exported": call.cost_source == "export",
            "unbilled": call.cost_source == "none",
            "uncounted": span.usage is None and not span.error,
        }
        model = excerpt(span.model) or "(unknown)"
        for counter in (self.total, _named(self.models, model), _named(self.steps, excerpt(call.step))):
            counter.update(sums)  # costs are added like counts
        self._doubts["without_prompt"] += not span.prompt
        if span.tier:
            self._tiers[excerpt(span.tier)] += 1

    def _add_findings(self, query: Query) -> None:
        here: Counter[str] = Counter()
        waste: dict[str, float] = {}
        for found in findings(query, self._turns):
            kind = self._kinds[found.kind]
            kind.count += 1
            here[found.kind] += 1
            if len(kind.examples) < EXAMPLES:
                kind.examples.append(excerpt(f"{query.id}/{found.span}", 160))
            if found.kind not in WITHOUT_COST:
                _add_costs(kind, found, waste)
        for name in here:
            self._kinds[name].queries += 1
        self.wasted += sum(waste.values())
        for span in query.spans:
            if span.error and span.kind in ("call", "tool"):
                name = span.error if len(self.errors) < MOST_NAMES or span.error in self.errors else _OTHERS
                self.errors[name] += 1

    def _add_expensive(self, query: Query) -> None:
        told = ExpensiveQuery(
            id=excerpt(query.id, 160),
            question=query.question,
            calls=len(query.calls),
            tokens=query.usage.total_tokens,
            cost=query.cost,
            unpriced=query.unpriced,
            seconds=query.seconds,
        )
        item = (query.cost or 0.0, told.tokens, query.id, told)
        if len(self._expensive) < MOST_EXPENSIVE:
            heapq.heappush(self._expensive, item)
        elif item[:3] > self._expensive[0][:3]:
            heapq.heapreplace(self._expensive, item)

    def latency(self) -> Latency:
        """Return percentiles of latency. The 95th is the shortest time that 95 % of queries do not exceed."""
        times = sorted(self._latencies)
        return Latency(queries=len(times), p50=_percentile(times, 50), p95=_percentile(times, 95))

    def expensive(self) -> tuple[ExpensiveQuery, ...]:
        """Return the most expensive queries. Queries of unknown cost follow, those with most tokens first."""
        return tuple(item[3] for item in sorted(self._expensive, key=lambda item: item[:3], reverse=True))

    def finding_rows(self) -> tuple[FindingRow, ...]:
        """Return a row for each kind of finding that occurred."""
        return tuple(
            FindingRow(
                kind=name,
                title=KINDS[name],
                count=kind.count,
                queries=kind.queries,
                wasted=None if name in WITHOUT_COST else kind.wasted,
                unpriced=kind.unpriced,
                examples=tuple(kind.examples),
            )
            for name, kind in self._kinds.items()
            if kind.count
        )

    def estimate(self) -> Estimate:
        """Return the estimated cost of plans."""
        actual, low, high = self._plans
        return Estimate(queries=self._planned, left_out=self._unplanned, actual=actual, low=low, high=high)

    def doubts(self, duplicates: int) -> Doubts:
        """Return the counts of uncertain records."""
        names = ("wrappers", "orphans", "backwards", "early", "without_prompt")
        counts = {name: self._doubts[name] for name in names}
        return Doubts(duplicates=duplicates, tiers=dict(self._tiers.most_common()), **counts)


def amounts(sums: Mapping[str, float]) -> Amounts:
    """Return sums as amounts."""
    whole = {each.name: int(sums.get(each.name, 0)) for each in fields(Amounts) if each.name != "cost"}
    return Amounts(**whole, cost=float(sums.get("cost", 0.0)))


def by_cost(named: Mapping[str, Mapping[str, float]]) -> tuple[NamedAmounts, ...]:
    """Return the amounts of each name, the most expensive first."""
    rows = (NamedAmounts(name=name, amounts=amounts(sums)) for name, sums in named.items())
    return tuple(sorted(rows, key=lambda row: (-row.amounts.cost, -row.amounts.input_tokens, row.name)))


def _named(of: dict[str, Counter[str]], name: str) -> Counter[str]:
    return of.setdefault(name if name in of or len(of) < MOST_NAMES else _OTHERS, Counter())


def _add_costs(kind: _Kind, found: Finding, waste: dict[str, float]) -> None:
    for span, cost in found.costs:
        if cost is None:
            kind.unpriced += 1
        else:
            kind.wasted += cost
            waste[span] = max(waste.get(span, 0.0), cost)


def _percentile(times: Sequence[float], percent: int) -> float | None:
    return times[max(0, -(-len(times) * percent // 100) - 1)] if times else None
