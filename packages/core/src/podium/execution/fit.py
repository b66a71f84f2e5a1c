"""Divides what the limits of a run leave among the calls that are still to be made.

A call reserves its prompt and its cap, the longest answer that the request allows. The cap is the call's
share of what is left. Estimates only divide what is left. A call is refused only if it, and the least that
the steps after it need, exceed a limit.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import mul
from typing import Final

import anyio

from podium.budget.ledger import TOGETHER, Kept, Reservation
from podium.budget.limits import Remaining, Spend
from podium.errors import LimitExceeded, PlanInvalid
from podium.execution.context import RunContext
from podium.execution.graph import DependencyGraph, StepState
from podium.planners.planner import Planner, PlanRequest, asked_steps
from podium.types.plan import Step
from podium.workers.worker import Card, Request, VisibleStep

LEAST: Final = 64
"""Tokens of the shortest cap."""
_BOUND: Final = 4
"""The tokens that are reserved for a prompt are at most about this many times its tokens."""
_USUAL: Final = 300
"""Tokens of the answer of a worker without history, if no worker of the plan has one."""
_OF_ROW: Final = 60
"""Tokens of a row of a plan, with a margin, because a plan that is cut must be written again."""
_UNSEEN: Final = 3
"""Fewest steps that may follow a step of an incomplete plan."""
_UNEVEN: Final = 3
"""A step of an incomplete plan waits if another step has more than this many times its cap, as there are more
steps than expected, unless its cap is `_AMPLE`."""
_AMPLE: Final = 1_000
_QUANTILE: Final = 0.95
"""The tokens that a worker's answers needed so far are this quantile of their lengths."""


@dataclass(frozen=True, slots=True)
class Need:
    """What a call needs of the limits."""

    least: Spend
    """The call with the shortest cap."""
    most: int = 0
    """Tokens of its longest answer; 0 if it writes none, or reserves its own calls."""
    price: float | None = None
    """USD for one more token of its answer; `None` if it is unknown."""
    card: Card | None = None
    usual: int | None = None
    """Tokens that the worker's answers needed so far; `None` without history."""

    def with_inputs(self, more: int, part: int = 1) -> Spend:
        """Return the call with the shortest cap and a prompt of `more` tokens more, divided by `part`."""
        least, read = self.least, (self.least.input_tokens + more) // part
        cost = least.cost
        if cost is not None and self.card is not None and self.card.price is not None and self.most:
            cost = self.card.price.most(read, least.output_tokens)
        return Spend(least.calls, read, least.output_tokens, cost)

    @classmethod
    def of(
        cls, worst: Callable[[int | None], Spend | None], card: Card | None, usual: int | None = None
    ) -> "Need":
        """Return what a call needs, from the maximum that it may spend with a cap, and without."""
        most = worst(None)
        if most is None:
            return cls(Spend(1))
        least = (worst(min(LEAST, most.output_tokens)) if most.output_tokens else None) or most
        tokens, price = most.output_tokens - least.output_tokens, 0.0
        if tokens and most.cost is not None and least.cost is not None:
            price = (most.cost - least.cost) / tokens
        return cls(least, most.output_tokens, price, card, usual)


def cap_of(spare: Remaining, own: Need, others: Iterable[Need]) -> int | None:
    """Return the cap of a call; `None` if no limit of tokens or cost bounds its answer."""
    needs = [own, *others]
    known = [need.usual for need in needs if need.usual is not None]
    priced = [need.price for need in needs if need.price is not None]
    usual = sum(known) / len(known) if known else _USUAL
    price = sum(priced) / len(priced) if priced else 0.0
    sizes = [usual if need.usual is None else max(need.usual, 1) for need in needs]
    shares = []
    if spare.output_tokens is not None:
        shares.append(spare.output_tokens / sum(sizes))
    if spare.cost is not None and own.price:
        costs = (price if need.price is None else need.price for need in needs)
        shares.append(spare.cost / sum(map(mul, sizes, costs)))
    if not shares or not own.most:
        return None
    return min(own.most, own.least.output_tokens + int(sizes[0] * min(shares)))


def is_metered(context: RunContext) -> bool:
    """Return whether tokens or cost are limited."""
    return context.ledger.limits_any("input_tokens", "output_tokens", "cost")


def planner_call(
    context: RunContext, planner: Planner, request: PlanRequest, order: Sequence[int]
) -> tuple[PlanRequest, Spend]:
    """Return a request for a planner with its cap, and the maximum that its call may spend."""

    def worst(cap: int | None) -> Spend:
        asked = request if cap is None else replace(request, max_tokens=cap)
        spend = planner.worst_case(asked, context.settings.limits.answer_tokens)
        return context.overlong.worst_case(planner.card, spend)

    own = Need.of(worst, planner.card, _OF_ROW * request.asked_steps)
    if not own.least.calls:  # a cached plan, or no model
        return request, own.least
    earlier, what = context.earlier, "a plan and one step need at least"
    if earlier.amounts:
        what = "a plan, one step and the rest of the earlier plan need at least"
    if not is_metered(context):
        context.ledger.spare(own.least, Spend(1), *earlier.amounts, steps=1 + earlier.steps, what=what)
        return request, worst(None)
    needs = [need_of_step(context, Step(number, "Answer."), number) for number in order]
    steps = [needs[index % len(needs)] for index in range(request.asked_steps)]
    try:
        floors = [step.with_inputs(0, _BOUND) for step in steps]
        spare = context.ledger.spare(own.least, *floors, *earlier.amounts)
    except LimitExceeded:
        steps = [min(steps, key=lambda step: (step.least.cost or 0.0, step.least.input_tokens))]
        floors = [steps[0].with_inputs(0, _BOUND), *earlier.amounts]
        spare = context.ledger.spare(own.least, *floors, steps=1 + earlier.steps, what=what)
    cap = cap_of(spare, own, [replace(step, usual=step.usual or _USUAL) for step in steps])
    return request if cap is None else replace(request, max_tokens=cap), worst(cap)


def need_of_step(context: RunContext, step: Step, number: int) -> Need:
    """Return what a call for a step needs, without the outputs of other steps."""
    worker = context.settings.pool.workers[number]
    before = context.previous.visible if step.previous else ()
    visible = [*before, *(VisibleStep(seen, "", "") for seen in step.access)]
    try:
        shown = context.input_of(worker, step, visible)
    except PlanInvalid:  # the step fails when it starts
        return Need(Spend(1))
    return need_of(
        context, number, Request(messages=context.messages(step, shown, worker.card), step_input=shown)
    )


def need_of(context: RunContext, number: int, request: Request) -> Need:
    """Return what a call of a worker needs."""
    pool = context.settings.pool
    usual = pool.states[number].history.output_tokens(_QUANTILE)
    return Need.of(lambda cap: worst_case(context, number, request, cap), pool.cards[number], usual)


def worst_case(context: RunContext, number: int, request: Request, cap: int | None = None) -> Spend | None:
    """Return the maximum that a call of a worker may spend; `None` if the worker reserves its own calls."""
    worker, request = context.settings.pool.workers[number], with_cap(request, cap)
    worst = worker.worst_case(request, context.settings.limits.answer_tokens)
    return None if worst is None else context.overlong.worst_case(worker.card, worst)


def with_cap(request: Request, cap: int | None) -> Request:
    """Return a request with a cap."""
    return request if cap is None else replace(request, sampling=replace(request.sampling, max_tokens=cap))


class Fit:
    """Divides what is left among the steps of one round."""

    def __init__(self, context: RunContext, graph: DependencyGraph | None = None) -> None:
        self._context = context
        self._all: list[StepState] = [] if graph is None else graph.states
        self._is_metered = is_metered(context)
        self._is_planned = graph is None
        self._planned = anyio.Event()
        self._needs: dict[tuple[int, int], Need] = {}
        self._longest = 0
        """The longest cap of a step that started before the plan is complete."""
        self.refusal: LimitExceeded | None = None
        """Why the limits allow no answer, so that no step may start; `None` if they may allow one."""

    def plan(self) -> None:
        """Divide from now on among the steps of the complete plan, whose paid results are known."""
        self._is_planned = True
        self._planned.set()
        if not self._calling():
            return
        context, kept, whole = self._context, self.kept(), list[Spend]()
        context.ledger.keep(self.kept)
        amounts = [] if context.cache is not None else list(kept.amounts)  # cached answers need no calls
        if amounts and self._is_metered:
            whole = [need.with_inputs(more) for need, more in self._open()]
            largest = max(range(len(whole)), key=lambda at: (whole[at].cost or 0.0, whole[at].input_tokens))
            amounts[largest] = whole[largest]  # it must fit alone
        try:
            context.ledger.spare(*amounts, steps=kept.steps, what="the plan needs at least")
        except LimitExceeded as error:
            if error.limit in ("steps", "calls") or not context.ledger.is_calling:
                self.refusal = error

    def end(self) -> None:
        """Divide nothing more."""
        self._planned.set()
        self._context.ledger.keep(None)

    async def freed(self) -> bool:
        """Wait until a call that does not fit may fit; return whether the method waited."""
        if self._is_planned:
            return await self._context.ledger.freed()
        await self._planned.wait()
        return True

    def reserve(
        self, index: int, number: int, request: Request, *, is_repeated: bool = False
    ) -> tuple[Request, Reservation]:
        """Reserve a call, and return its request, with its cap, and its reservation."""
        if self.refusal is not None:
            raise self.refusal
        request = self.capped(index, number, request, is_repeated=is_repeated)
        worst = worst_case(self._context, number, request)
        if self._is_metered or not self._is_planned or self._context.cache is not None:
            return request, self._context.ledger.reserve(worst)
        besides = [Spend(others)] if (others := len(self._calling(index))) else []
        return request, self._context.ledger.reserve(worst, *besides, *self._context.earlier.amounts)

    def capped(self, index: int, number: int, request: Request, *, is_repeated: bool = False) -> Request:
        """Return the request of a call with its cap; `reserve` describes the arguments and the error."""
        if not self._is_metered:
            return request
        context = self._context
        others = self._open(index) + ([] if self._is_planned else self._unseen())
        floors = [need.with_inputs(more, _BOUND) for need, more in others if context.cache is None]
        floors += context.earlier.amounts
        own = need_of(context, number, request)
        spare = context.ledger.spare(own.least, *floors, what=TOGETHER if floors else "a call may need")
        cap = cap_of(spare, own, () if is_repeated else (need for need, _ in others))
        if cap is not None and not self._is_planned:
            if _UNEVEN * cap < self._longest and cap < _AMPLE:
                raise LimitExceeded("output_tokens", "the step waits until the plan is complete")
            self._longest = max(self._longest, cap)
        given = request.sampling.max_tokens or context.settings.pool.workers[number].max_tokens
        return with_cap(request, cap) if cap is not None and (given is None or cap < given) else request

    def kept(self) -> Kept:
        """Return the least that the steps without a call need, which nested runs leave to them."""
        earlier, starts = self._context.earlier, sum([not each.has_started for each in self._calling()])
        own = [need.with_inputs(more, _BOUND) for need, more in self._open()]
        return Kept([*own, *earlier.amounts], starts + earlier.steps)

    def _calling(self, but: int | None = None) -> list[StepState]:
        """Return the steps that must still call a worker, without the step `but`."""
        return [each for each in self._all if each.index != but and each.needs_call]

    def _open(self, but: int | None = None) -> list[tuple[Need, int]]:
        """Return what the steps without a call need, and the tokens of the outputs that they see."""
        if not self._is_metered:
            return [(_CALL, 0)] * len(self._calling(but))
        outputs = {each.index: 0 if each.outcome is None else len(each.outcome.text) for each in self._all}
        found = []
        for state in self._calling(but):
            key = state.index, state.order[0]
            if key not in self._needs:
                self._needs[key] = need_of_step(self._context, state.step, state.order[0])
            found.append((self._needs[key], sum(4 * outputs[seen] // 5 for seen in state.step.access)))
        return found

    def _unseen(self) -> list[tuple[Need, int]]:
        """Return what the steps may need that are not written yet: they call all workers in turn."""
        size, rows = len(self._context.settings.pool), len(self._all)
        steps = max(asked_steps(self._context.most_steps, size) - rows, _UNSEEN)
        return [
            (need_of_step(self._context, Step(each % size, "Answer."), each % size), 0)
            for each in range(steps)
        ]


_CALL: Final = Need(Spend(1))
