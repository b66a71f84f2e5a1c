"""Computes what the next call of a step may spend, and what it is expected to spend."""

from dataclasses import replace
from typing import NamedTuple

from podium.budget.spend import Spend
from podium.errors import PlanInvalid
from podium.execution.run_context import RunContext
from podium.prompts.render import worker_messages
from podium.prompts.subtask import shown_step, step_input
from podium.types.plan import Plan, Step
from podium.workers.worker import Request, VisibleStep
from podium.workers.worst_case import answer_bound, bounded

FIRST_GUESS = 1_000
"""Expected tokens of an answer of a worker without earlier answers; a token has four characters."""
_SHARE = 0.95
"""The expected length of a worker's next answer is this quantile of the lengths of its latest answers."""
_METERED = ("input_tokens", "output_tokens", "cost")


class Amount(NamedTuple):
    """The amounts of one call."""

    worst: Spend
    """The maximum that the call may spend; one call if its tokens are unknown."""
    expected: Spend


CALL = Amount(Spend(calls=1), Spend(calls=1))
"""The amount of a call if neither tokens nor cost are limited."""


def is_metered(context: RunContext) -> bool:
    """Return whether tokens or cost are limited."""
    return context.ledger.limits_any(*_METERED)


def amount_of(
    context: RunContext,
    step: Step,
    visible: tuple[VisibleStep, ...],
    *,
    worker: int | None = None,
    last: bool = False,
) -> Amount:
    """Return the amounts of a call.

    Args:
        context: the context of the run.
        step: the step of the call.
        visible: the steps that the worker sees, without those of the previous round.
        worker: number of the worker that is called; `None` means the worker of the step.
        last: whether it is the last step of its plan.
    """
    number = step.worker if worker is None else worker
    called, asked, limits = context.settings.pool.workers[number], context.request, context.settings.limits
    visible = context.previous.visible + visible if step.previous else visible
    query = asked.query if context.shows_question else ()
    try:
        shown = step_input(called, step, visible, query, most_chars=limits.output_chars, texts=asked.context)
    except PlanInvalid:  # if the real inputs are also too long, the step fails when it starts
        return CALL
    request = Request(messages=worker_messages(shown, called.card), step_input=shown)
    if last and context.last_step_differs:
        messages = request.messages + asked.tool_messages
        tools = asked.tools if called.takes_tools else None
        request = replace(request, messages=messages, tools=tools, sampling=asked.sampling)
    request = bounded(called, request, context.ledger)
    worst = called.worst_case(request, limits.answer_tokens)
    if worst is None:
        return CALL
    worst = context.overlong.worst_case(called.card, worst)
    written = min(worst.output_tokens, expected_tokens(context, number))
    price, cost = called.card.price, worst.cost
    if cost is not None and price is not None:
        cost = min(cost, price.most(worst.input_tokens, written))
    return Amount(worst, replace(worst, output_tokens=written, cost=cost))


def expected_tokens(context: RunContext, worker: int) -> int:
    """Return the expected number of output tokens of a worker's next answer."""
    pool, called = context.settings.pool, context.settings.pool.workers[worker]
    written = pool.history(worker).output_tokens(_SHARE)
    tokens = FIRST_GUESS if written is None else written
    most = called.max_tokens
    if most is None and called.uses_tokens:
        most = answer_bound(called.card, context.ledger)
    return tokens if most is None else min(tokens, most)


def expected_step(context: RunContext, plan: Plan, index: int) -> VisibleStep:
    """Return a step as other steps see it, with an output of the expected length."""
    tokens = expected_tokens(context, plan.steps[index].worker)
    return shown_step(plan, index, "x" * min(4 * tokens, context.settings.limits.output_chars))
