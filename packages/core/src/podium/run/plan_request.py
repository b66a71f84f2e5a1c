"""Creates the request for a planner."""

from collections.abc import Sequence
from dataclasses import replace

import anyio

from podium.budget.limits import Remaining
from podium.errors import PlanForbidden
from podium.execution.context import RunContext
from podium.planners.planner import Planner, PlanRequest, Turn
from podium.workers.pool import CircuitBreaker

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
    order: Sequence[int],
    *,
    turns: tuple[Turn, ...],
    may_keep: bool,
    deadline: float,
) -> PlanRequest:
    """Return the request for one planner call.

    Args:
        context: the context of the run.
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
