"""Decides between a new plan after a failure, and the answer that an earlier plan can still give.

With `on_failure="replan"`, a step that lacks an output is skipped, and the planner writes another plan. If
the limits have no room for this plan, or the plan gives no answer, an earlier plan continues as with `note`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf

from podium.budget.ledger import Shortfall
from podium.budget.spend import Spend
from podium.errors import LimitExceeded, PlanForbidden
from podium.execution.answer_ways import AnswerWays
from podium.execution.dependencies import DependencyGraph
from podium.execution.run_context import RunContext
from podium.execution.step_amounts import CALL, amount_of, is_metered
from podium.planners.planner import Turn
from podium.resume.paid_results import PaidResults
from podium.run.plan_request import order_of, plan_request
from podium.types.conclusion import conclusion, steps_of
from podium.types.outcome import Outcome, Problem, Round
from podium.types.plan import Step


@dataclass(frozen=True, slots=True)
class EarlierPlan:
    """The plan of a round without an answer, which can still give an answer without the failed steps."""

    context: RunContext
    """The context of the round."""
    round: Round
    failed: tuple[tuple[str, Outcome], ...]
    """The failed steps, each with its exact key."""
    calls: tuple[Spend, ...]
    """The worst cases of the calls that the answer still needs."""
    steps: int
    """Number of steps that the answer still needs."""

    def paid(self, good: Iterable[tuple[str, Outcome]], number: int) -> PaidResults:
        """Return the results that round `number` reuses if the plan continues in it.

        In a resumed run, the failed steps run again.

        Args:
            good: the `ok` outcomes of all rounds, each with its exact key.
            number: number of the round.
        """
        recorded = self.context.paid_results
        is_recorded = recorded is not None and number in recorded.plans
        results = PaidResults()
        for key, outcome in (*good, *(() if is_recorded else self.failed)):
            results.add(key, outcome)
        return results


def earlier_plan(
    context: RunContext, current: Round, failed: tuple[tuple[str, Outcome], ...]
) -> EarlierPlan | None:
    """Return the plan of a round if the limits allow it to continue; `None` if it can give no answer.

    Args:
        context: the context of the round.
        current: the round, without an answer.
        failed: its failed steps, each with its exact key.
    """
    plan = current.plan
    if plan is None or not plan.steps:
        return None
    graph = DependencyGraph(
        "note", acts=context.settings.acts, previous=context.previous, names=context.request.context
    )
    graph.take(plan)
    for state, outcome in zip(graph, steps_of(current), strict=False):
        if outcome.status in ("ok", "failed"):
            state.outcome = outcome
            state.is_whole = graph.is_whole(state)
    ways = AnswerWays(context, graph)
    way = ways.best()
    if way is None or way.lacks is not None:
        return None
    calls = tuple(amount.worst for amount in ways.amounts(way.steps))
    return EarlierPlan(context, current, failed, calls, ways.starts(way.steps))


def no_room(context: RunContext, turns: tuple[Turn, ...], earlier: EarlierPlan | None) -> Shortfall | None:
    """Return the limit without room for a new plan; `None` if there is room.

    A new plan needs a call of the planner and at least one step. The answer that an earlier plan can give
    must still fit after them.

    Args:
        context: the context of the failed round.
        turns: the texts of the planner so far, with feedback.
        earlier: the earlier plan that can give an answer; `None` if there is none.
    """
    planner, limits = context.settings.planner, context.settings.limits
    try:
        order = order_of(context, planner)
    except PlanForbidden:  # the round reports it
        return None
    request = plan_request(context, planner, order, turns=turns, may_keep=False, deadline=inf)
    asked = context.overlong.worst_case(planner.card, planner.worst_case(request, limits.answer_tokens))
    calls, starts = ((), 0) if earlier is None else (earlier.calls, earlier.steps)
    steps = [CALL.worst]
    if is_metered(context):
        steps = [amount_of(context, Step(worker, "Answer."), ()).worst for worker in order]
    lacks = None
    for step in steps:
        amounts = [(each, each) for each in (asked, step, *calls)]
        lacks = context.ledger.shortfall(amounts, starts + 1)
        if lacks is None:
            return None
    return lacks


def not_replanned(number: int, lacks: Shortfall, why: str) -> Problem:
    """Return the problem of a run whose limits have no room for the plan of a round."""
    needs = f"another plan, and the answer of the plan so far, need {lacks.needs}, and {lacks.left}"
    message = f"no new plan was made for round {number}, because the limits have no room for it: {needs}"
    raised = f"raise Limits.{lacks.name} for more"
    return Problem(LimitExceeded.code, f"{message}: {raised}; it was needed because of {why}")


def is_out(current: Round) -> bool:
    """Return whether the run's limits refused a step, so another round would also fail."""
    return any(
        outcome.problem is not None and outcome.problem.code == LimitExceeded.code and not outcome.attempts
        for outcome in steps_of(current)
    )


def no_answer(current: Round) -> Problem | None:
    """Return the problem of a run whose new plan gave no answer."""
    problem = conclusion([current])[2]
    if problem is None:
        return None
    message = f"the new plan of round {current.number} gave no answer: {problem.message}"
    return replace(problem, message=message)
