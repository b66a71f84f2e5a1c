"""Uses the recorded plan of a round in a resumed run.

If the fallback planner wrote the plan with which the run ended, the planner is asked again first.
"""

from contextlib import suppress

import anyio

from podium.errors import PlannerError
from podium.execution.run_context import RunContext
from podium.run.planning import PlanRequester
from podium.types.plan import Plan


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
