"""Computes what the first call of a run may cost, before the run starts."""

from dataclasses import replace
from math import inf

from podium.budget.ledger import Ledger
from podium.budget.spend import Spend
from podium.errors import PlanForbidden
from podium.execution.run_context import ConductorSettings, RunContext, RunRequest
from podium.execution.step_amounts import amount_of
from podium.run.plan_request import order_of, plan_request


def first_cost(settings: ConductorSettings, request: RunRequest) -> float:
    """Return the cost in USD that a new run must reserve for its first call; 0 if it needs none.

    With a plan, it is the cheapest of the calls that may be first. Otherwise it is the call of the planner,
    or of the fallback planner if that may cost less.
    """
    settings = settings if request.limits is None else replace(settings, limits=request.limits)
    context = RunContext(
        settings=settings,
        request=request,
        ledger=Ledger(settings.limits, inf),
        policy=settings.policy if request.policy is None else request.policy & settings.policy,
        labels=request.labels,
        clock=lambda: 0.0,
        began=0.0,
    )
    try:
        calls = _of_planners(context) if request.plan is None else _of_plan(context)
    except PlanForbidden:  # the run makes no call, and records why
        return 0.0
    unknown = settings.limits.unpriced or 0.0
    return min((unknown if call.cost is None else call.cost for call in calls), default=0.0)


def _of_planners(context: RunContext) -> list[Spend]:
    calls = []
    for planner in context.settings.planners:
        order = order_of(context, planner)
        request = plan_request(context, planner, order, turns=(), may_keep=False, deadline=inf)
        calls.append(planner.worst_case(request, context.settings.limits.answer_tokens))
    return calls


def _of_plan(context: RunContext) -> list[Spend]:
    plan = context.request.plan
    assert plan is not None
    last = len(plan.steps) - 1
    needed = plan.reaching(last, *context.settings.actions_of(plan))
    first = [index for index in needed if not plan.steps[index].access]
    return [amount_of(context, plan.steps[index], (), last=index == last).worst for index in first]
