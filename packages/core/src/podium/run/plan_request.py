"""Creates the request for a planner, and computes what the first call may cost."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import anyio

from podium.budget.ledger import Ledger
from podium.budget.limits import Limits, Remaining, Spend
from podium.errors import PlanForbidden
from podium.execution.context import ConductorSettings, RunContext, RunRequest
from podium.execution.fit import amount_of
from podium.planners.planner import Planner, PlanRequest, Turn
from podium.types.messages import Message, read_query
from podium.workers.pool import CircuitBreaker, answer_bound
from podium.workers.worker import Request, Worker

_AMPLE = Remaining()


def order_of(context: RunContext, planner: Planner) -> list[int]:
    """Return the workers that may see the run's data, as numbers of the pool, in the planner's order.

    Raises:
        PlanForbidden: no worker may see the data, or the planner may not.
    """
    policy, cards, labels = context.policy, context.settings.pool.cards, context.labels
    order = list(planner.order(len(cards), context.request.run_id))
    if policy.silent:
        return order
    if planner.card is not None:
        policy.everywhere.guard(planner.card, labels)
    admitted = [number for number in order if policy.admits(cards[number], labels)]
    if not admitted:
        raise PlanForbidden("the policy allows no worker of the pool to see the data of this run")
    return admitted if planner.reads_cards else order


def plan_request(
    context: RunContext,
    planner: Planner,
    order: Sequence[int],
    *,
    turns: tuple[Turn, ...],
    may_keep: bool,
    deadline: float,
) -> PlanRequest:
    """Return the request for one planner call.

    Args:
        context: the context of the run.
        planner: the planner.
        order: the workers that the planner sees, as numbers of the pool.
        turns: its earlier texts, with feedback.
        may_keep: whether a plan without steps is valid.
        deadline: time limit for the complete text, on the event loop's clock, in seconds.
    """
    most, workers = context.policy.most_steps, context.settings.pool.workers
    request = PlanRequest(
        query=context.request.query,
        context=tuple((name, len(text)) for name, text in context.request.context.items()),
        cards=tuple(context.settings.pool.cards[number] for number in order),
        max_steps=min(context.settings.limits.plan_steps, most or context.settings.limits.plan_steps),
        turns=turns,
        may_keep=may_keep,
        shows_question=context.shows_question,
        fills=tuple(place for place, number in enumerate(order) if not workers[number].reads_prose),
        acts=tuple(place for place, number in enumerate(order) if context.settings.acts(number)),
        done=tuple(str(each) for each in context.actions.actions if each.run_id == context.request.run_id),
        max_tokens=None if planner.card is None else answer_bound(planner.card, context.ledger),
        deadline=min(deadline, context.ledger.deadline),
        middleware=context.request.middleware,
    )
    return replace(request, left=_scarce(context, request.asked_steps))


def breaker_of(context: RunContext, planner: Planner) -> CircuitBreaker | None:
    """Return the circuit breaker of a planner whose model is also a worker; else `None`."""
    state = None if planner.card is None else context.settings.pool.state_of(planner.card)
    return None if state is None else state.breaker


def slots_of(context: RunContext, planner: Planner) -> list[anyio.Semaphore | None]:
    """Return the slots of a planner whose model is also a worker."""
    state = None if planner.card is None else context.settings.pool.state_of(planner.card)
    return [] if state is None else [state.slot]


def _scarce(context: RunContext, asked_steps: int) -> Remaining | None:
    """Return the remaining limits if a plan could exceed one of them; else `None`."""
    left, ample = context.ledger.left, 2 * asked_steps
    steps = None if left.steps is None or left.steps >= ample else left.steps
    calls = None if left.calls is None or left.calls >= ample else left.calls
    scarce = Remaining(steps, calls, left.input_tokens, left.output_tokens, left.cost)
    return None if scarce == _AMPLE else scarce.rounded


_QUESTION = "What is 2 + 2, and who first wrote it down?"


def tight_cost(planner: Planner, workers: Sequence[Worker], limits: Limits, cost: float) -> str | None:
    """Return a warning if a run with a cost limit can hardly be resumed after a call was lost; else `None`.

    A call whose end is unknown counts with its reservation. So the limit must have room for two of the
    largest reservations: for the lost call, and for the call that repeats it.

    Args:
        planner: the planner.
        workers: the workers of the pool.
        limits: the limits of a run.
        cost: the cost limit of a run, in USD.
    """
    query, most = read_query(_QUESTION), limits.answer_tokens
    cards = tuple(worker.card for worker in workers)
    asked = PlanRequest(query=query, cards=cards, max_steps=limits.plan_steps)
    calls = [("planner", planner.name, planner.worst_case(asked, most))]
    request = Request(messages=(Message("user", _QUESTION),))
    calls += [
        ("worker", worker.card.name, worst)
        for worker in workers
        if (worst := worker.worst_case(request, most)) is not None
    ]
    role, name, worst = max(calls, key=lambda call: call[2].cost or 0.0)
    reserved = worst.cost or 0.0
    if cost >= 2 * reserved:
        return None
    return (
        f"a run may cost ${cost:g}, and one call of the {role} {name!r} reserves ${reserved:.3g} or more: "
        "a call that was lost counts with its reservation, so the run may not be resumed. Raise the limit to "
        f"more than ${2 * reserved:.3g}, or set a lower `sampling = {{ max_tokens = … }}` of the {role}"
    )


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
