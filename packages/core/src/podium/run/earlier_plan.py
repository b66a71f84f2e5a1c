"""Plans that exist already: of a recorded round, and of a round before a failure."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import anyio

from podium.errors import LimitExceeded, PlannerError
from podium.execution.context import RunContext
from podium.execution.fit import Fit
from podium.execution.graph import UNSEEN, DependencyGraph
from podium.run.planning import PlanRequester
from podium.run_state.reuse import PaidResults
from podium.types.outcome import Outcome, Problem, Round
from podium.types.plan import Plan
from podium.types.result import conclusion, steps_of


def recorded_plan(context: RunContext, number: int, *, stands_in: bool = False) -> Plan | None:
    """Return the recorded plan of a round; `None` if there is none, or if the planner is asked again first.

    Args:
        context: the context of the run.
        number: the number of the round.
        stands_in: whether the planner was asked again, without success.

    Raises:
        PlanError: the plan does not fit the current policy.
    """
    paid_results = context.paid_results
    if paid_results is None or number not in paid_results.plans:
        return None
    if number in paid_results.stand_ins and not stands_in:
        return None
    # The plan or the policy may have changed since it was recorded.
    plan = paid_results.plans[number].plan
    context.policy.verify(plan, context.settings.pool.cards, context.labels, context.previous.labels)
    return plan


async def new_plan(asking: PlanRequester) -> Plan:
    """Return a new plan; if there is none, the recorded plan of the fallback planner.

    Raises:
        PlanError: the recorded plan does not fit the current policy.
        PlannerError: there is neither.
    """
    context, number = asking.context, asking.round
    paid_results = context.paid_results
    if paid_results is None or number not in paid_results.stand_ins:
        return await asking.make()
    asking.may_fall_back = False
    seconds = (context.ledger.deadline - context.clock()) / 2  # the other half is for the recorded plan
    with suppress(PlannerError), anyio.move_on_after(seconds):
        plan = await asking.make()
        paid_results.forget_plan(number)
        return plan
    recorded = recorded_plan(context, number, stands_in=True)
    assert recorded is not None
    return recorded


class EarlierPlan(NamedTuple):
    """The plan of a round without an answer, which can still give an answer without the failed steps."""

    context: RunContext
    """The context of the round."""
    round: Round
    failed: tuple[tuple[str, Outcome], ...]
    """The failed steps, each with its exact key."""

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
    able, last = graph.able, len(plan.steps) - 1
    for state in graph:
        if state.index not in able & plan.reaching(last):
            state.reason = UNSEEN
    kept = Fit(context, graph).kept()
    try:
        context.ledger.spare(*kept.amounts, steps=kept.steps)
    except LimitExceeded:
        return None
    return EarlierPlan(context, current, failed) if last in able else None


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
