"""Estimates the cost of a plan in place of a query's calls: each call once, and a call of a planner.

The estimate uses the export only. Nothing was run, and the quality of the plan's answers is unknown.
"""

from dataclasses import dataclass

from podium.usage import Usage
from podium_evals.audit.findings import repeats
from podium_evals.audit.loops import growing
from podium_evals.audit.query import Query, by_prompt

PLANNER_INPUT = 900
"""Tokens of a planner's prompt without the question: 843 were measured with five workers (`docs/log.md`)."""
PLANNER_OUTPUT = 60
"""Assumed tokens of a plan for each step."""


@dataclass(frozen=True, slots=True)
class PlanCost:
    """The cost of the calls of a query, and the range for a plan, in USD."""

    actual: float
    low: float
    high: float


def plan_cost(query: Query) -> PlanCost | None:
    """Return the estimated cost of a plan; `None` if the query has no calls, or a cost is unknown.

    The high end leaves out failed calls whose prompt was answered later, and repeats with the same answer.
    Its planner is the most expensive model of the query. The low end leaves out all failed calls, all
    repeats, and the history that loops send again. Its planner is the cheapest model. For a query of one
    call, no planner is added.
    """
    if not query.calls or any(call.cost is None for call in query.calls):
        return None
    actual = sum(call.cost or 0.0 for call in query.calls)
    certain, likely = _left_out(query)
    kept = [call for call in query.calls if call.span.id not in likely]
    high = actual - sum(certain.values())
    low = actual - sum(likely.values()) - _history(query, likely)
    planning = _planning(query, len(kept))
    return None if planning is None else PlanCost(actual, max(0.0, low) + min(planning), high + max(planning))


def _left_out(query: Query) -> tuple[dict[str, float], dict[str, float]]:
    """Return the cost of the calls that a plan certainly leaves out, and of those it perhaps leaves out."""
    failed = {call.span.id: call.cost or 0.0 for call in query.calls if call.span.error}
    again = {call.span.id: (call.cost or 0.0, same) for call, same in repeats(query)}
    answered = {
        call.span.id: call.cost or 0.0
        for calls in by_prompt(query.calls).values()
        for number, call in enumerate(calls)
        if call.span.error and any(not later.span.error for later in calls[number:])
    }
    certain = answered | {span: cost for span, (cost, same) in again.items() if same}
    return certain, failed | {span: cost for span, (cost, _) in again.items()}


def _history(query: Query, left_out: dict[str, float]) -> float:
    """Return the cost of the history that loops send again; calls that are left out do not count."""
    return sum(
        cost or 0.0
        for chain in growing(query)
        for call, cost in zip(chain.calls, chain.resent, strict=True)
        if call.span.id not in left_out
    )


def _planning(query: Query, steps: int) -> list[float] | None:
    """Return the cost of a planner's call with each model of the query; `None` if no price is known."""
    if len(query.calls) < 2:
        return [0.0]
    asked = min(call.usage.input_tokens for call in query.calls)
    planning = Usage(PLANNER_INPUT + asked, PLANNER_OUTPUT * max(1, steps))
    models = {(call.span.model, call.span.provider): call for call in query.calls}
    costs = (query.cost_of(call, planning) for call in models.values())
    return [cost for cost in costs if cost is not None] or None
