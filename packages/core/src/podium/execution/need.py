"""What a call needs of the limits, and the cap that what is left allows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import mul
from typing import Final

from podium.budget.limits import Remaining, Spend
from podium.errors import PlanInvalid
from podium.execution.context import RunContext
from podium.types.messages import Message, estimate_usage
from podium.types.references import Reference, filled, parts_of
from podium.types.steps import Step
from podium.workers.worker import Card, Request, VisibleStep

LEAST: Final = 64
"""Tokens of the shortest cap."""
BOUND: Final = 4
"""The tokens that are reserved to read a text are about this many times its tokens."""
_BOUND_OF_LEAST: Final = 6
"""The same for the shortest answers: at most."""
USUAL: Final = 300
"""Tokens of the answer of a worker without history, if no worker of the plan has one."""
_QUANTILE: Final = 0.95
"""The tokens that a worker's answers needed so far are this quantile of their lengths."""


@dataclass(frozen=True, slots=True)
class Need:
    """What a call needs of the limits."""

    least: Spend
    """The reservation of the call with the shortest cap."""
    expected: int = 0
    """The expected tokens of its prompt."""
    most: int = 0
    """Tokens of its longest answer; 0 if it writes none, or reserves its own calls."""
    price: float | None = None
    """USD for one more token of its answer; `None` if it is unknown."""
    card: Card | None = None
    usual: int | None = None
    """Tokens that the worker's answers needed so far; `None` without history."""
    seen: int = 0
    """The expected tokens of the outputs that it sees, beside its prompt."""
    seen_most: int = 0
    """The tokens that are reserved to read these outputs."""
    coming: int = 0
    """The number of steps that it sees and that have not been called."""
    read_again: float = 0.0
    """USD to read one token of its answer in other steps."""
    number: int = 1
    """The number of such calls: the items of a map count together."""

    @property
    def floor(self) -> Spend:
        """The call as it is expected, with the shortest answer; an agent may cost nearly nothing."""
        floor = self._reading(self.expected, self.seen)
        return floor if self.card is None or self.card.most_cost is None else replace(floor, cost=0.0)

    @property
    def floors(self) -> Spend:
        """All such calls as they are expected, with the shortest answers."""
        return self.floor if self.number == 1 else self.floor.times(self.number)

    @property
    def whole(self) -> Spend:
        """The reservation of the call, with the shortest answer."""
        return self._reading(self.least.input_tokens, self.seen_most)

    @property
    def reads(self) -> float:
        """USD for one more token of its prompt."""
        card = self.card
        if card is None or card.price is None or card.most_cost is not None:
            return 0.0
        return card.price.most(1, 0)

    def _reading(self, read: int, seen: int) -> Spend:
        least, known = self.least, None
        if self.least.cost is not None and self.card is not None and self.most:
            known = self.card.most(read + seen, least.output_tokens)
        return Spend(least.calls, read + seen, least.output_tokens, least.cost if known is None else known)

    @property
    def later(self) -> "Need":
        """What the call needs if the steps that it sees have the shortest caps."""
        seen = LEAST * self.coming
        return replace(
            self, seen=self.seen + seen, seen_most=self.seen_most + _BOUND_OF_LEAST * seen, coming=0
        )

    @classmethod
    def of(
        cls,
        worst: Callable[[int | None], Spend | None],
        card: Card | None,
        usual: int | None = None,
        messages: Sequence[Message] = (),
    ) -> "Need":
        """Return what a call needs, from the maximum that it may spend with a cap, and without."""
        most = worst(None)
        if most is None:
            return cls(Spend(1))
        least = (worst(min(LEAST, most.output_tokens)) if most.output_tokens else None) or most
        tokens, price = most.output_tokens - least.output_tokens, 0.0
        if tokens and most.cost is not None and least.cost is not None:
            price = (most.cost - least.cost) / tokens
        expected = max(estimate_usage(messages, "").input_tokens, least.input_tokens // BOUND)
        return cls(least, min(expected, least.input_tokens), most.output_tokens, price, card, usual)


def cap_of(spare: Remaining, own: Need, others: Sequence[Need]) -> int | None:
    """Return the cap of a call; `None` if no limit of tokens or cost bounds its answer."""
    needs = [own, *others]
    known = [need.usual for need in needs if need.usual is not None]
    priced = [need.price for need in needs if need.price is not None]
    usual = max(sum(known) / len(known), 1) if known else USUAL
    price = sum(priced) / len(priced) if priced else 0.0
    sizes = [usual if need.usual is None else max(need.usual, 1) for need in needs]
    numbers = [need.number for need in needs]
    shares = []
    if spare.output_tokens is not None:
        shares.append(spare.output_tokens / sum(map(mul, sizes, numbers)))
    if spare.cost is not None and (own.price or own.read_again):
        costs = [
            ((price if need.price is None else need.price) + need.read_again) * need.number for need in needs
        ]
        shares.append(spare.cost / sum(map(mul, sizes, costs)))
    if not shares or not own.most:
        return None
    return min(own.most, own.least.output_tokens + int(sizes[0] * min(shares)))


def floors_of(needs: Sequence[Need]) -> list[Spend]:
    """Return the least that calls need one after the other: the largest prompt is reserved in full."""
    floors = [need.floors for need in needs]
    if floors:
        pairs = [(need.floor, need.whole) for need in needs]
        more = [
            ((whole.cost or 0.0) - (floor.cost or 0.0), whole.input_tokens - floor.input_tokens)
            for floor, whole in pairs
        ]
        largest = more.index(max(more))
        others = needs[largest].number - 1
        floors[largest] = pairs[largest][1]
        floors += [pairs[largest][0].times(others)] if others else []
    return floors


def need_of_step(context: RunContext, step: Step, seen: Sequence[VisibleStep] = ()) -> Need:
    """Return what a call for a step needs, beside the outputs of the steps `seen`."""
    worker = context.settings.pool.workers[step.worker]
    before = context.previous.visible if step.previous else ()
    numbers = {each.step for each in seen}
    references = [part for part in parts_of(step.subtask) if isinstance(part, Reference)]
    if unknown := [each for each in references if each.path or each.root not in numbers]:
        step = replace(step, subtask=filled(step.subtask, dict.fromkeys(unknown, "…")))
    try:
        shown = context.input_of(worker, step, [*before, *seen])
    except PlanInvalid:  # the step fails when it starts
        return Need(Spend(1))
    messages = context.messages(step, shown, worker.card)
    return need_of(context, step.worker, Request(messages=messages, step_input=shown))


def need_of(context: RunContext, number: int, request: Request) -> Need:
    """Return what a call of a worker needs."""
    pool = context.settings.pool
    usual = pool.states[number].history.output_tokens(_QUANTILE)
    return Need.of(
        lambda cap: worst_case(context, number, request, cap), pool.cards[number], usual, request.messages
    )


def worst_case(context: RunContext, number: int, request: Request, cap: int | None = None) -> Spend | None:
    """Return the maximum that a call of a worker may spend; `None` if the worker reserves its own calls."""
    worker, request = context.settings.pool.workers[number], with_cap(request, cap)
    worst = worker.worst_case(request, context.settings.limits.answer_tokens)
    return None if worst is None else context.overlong.worst_case(worker.card, worst)


def with_cap(request: Request, cap: int | None) -> Request:
    """Return a request with a cap."""
    return request if cap is None else replace(request, sampling=replace(request.sampling, max_tokens=cap))
