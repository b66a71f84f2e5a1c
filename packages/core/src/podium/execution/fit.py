"""Divides what the limits of a run leave among the calls that are still to be made.

A call reserves its prompt, and its cap: the longest answer that the request allows. The cap is the call's
share of what is left. Each token of an answer costs its own price, and the price of reading it in the steps
that see it. A call is refused only if the limits do not allow it together with the shortest answers of the
later steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import mul
from typing import Final

import anyio

from podium.budget.ledger import TOGETHER, Kept, Reservation
from podium.budget.limits import Remaining, Spend
from podium.errors import LimitExceeded, PlanInvalid
from podium.execution.context import RunContext
from podium.execution.graph import UNSEEN, DependencyGraph
from podium.execution.node import StepNode
from podium.planners.planner import Planner, PlanRequest, asked_steps
from podium.types.messages import Message, estimate_usage
from podium.types.outcome import Outcome
from podium.types.plan import Plan
from podium.types.references import Reference, filled, parts_of
from podium.types.steps import Step, calls_in, static_place
from podium.usage import Usage, estimate_tokens
from podium.workers.worker import Card, Request, VisibleStep, most_tokens

LEAST: Final = 64
"""Tokens of the shortest cap."""
_BOUND: Final = 4
"""The tokens that are reserved to read a text are about this many times its tokens."""
_BOUND_OF_LEAST: Final = 6
"""The same for the shortest answers: at most."""
_USUAL: Final = 300
"""Tokens of the answer of a worker without history, if no worker of the plan has one."""
_OF_ROW: Final = 60
"""Tokens of a row of a plan, with a margin, because a plan that is cut must be written again."""
_UNSEEN: Final = 5
"""Fewest steps that may follow a step of an incomplete plan, in this plan or in its repair."""
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
        expected = max(estimate_usage(messages, "").input_tokens, least.input_tokens // _BOUND)
        return cls(least, min(expected, least.input_tokens), most.output_tokens, price, card, usual)


def cap_of(spare: Remaining, own: Need, others: Sequence[Need]) -> int | None:
    """Return the cap of a call; `None` if no limit of tokens or cost bounds its answer."""
    needs = [own, *others]
    known = [need.usual for need in needs if need.usual is not None]
    priced = [need.price for need in needs if need.price is not None]
    usual = max(sum(known) / len(known), 1) if known else _USUAL
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


def is_metered(context: RunContext) -> bool:
    """Return whether tokens or cost are limited."""
    return context.ledger.limits_any("input_tokens", "output_tokens", "cost")


def higher_limits(context: RunContext, cap: int) -> str:
    """Return the limits because of which an answer was cut at `cap` tokens, for people."""
    names = ["answer_tokens"]
    if cap < context.settings.limits.answer_tokens:
        limited = context.ledger.limits_any
        names = [name for name in ("cost", "output_tokens", "input_tokens") if limited(name)]
    return " or ".join(f"Limits.{name}" for name in names)


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
    may_answer = planner.rounds is not None and bool(request.turns)  # the text may need no step
    earlier, what = context.earlier, "a plan and one step need at least"
    if may_answer:
        what = "the next message needs at least"
    if earlier.amounts:
        what = "a plan, one step and the rest of the earlier plan need at least"
    if not is_metered(context):
        amounts = [own.least, *([] if may_answer else [Spend(1)]), *earlier.amounts]
        context.ledger.spare(*amounts, steps=earlier.steps + (not may_answer), what=what)
        return request, worst(None)
    needs = [need_of_step(context, Step(number, "Answer.")) for number in order]
    steps = [needs[index % len(needs)] for index in range(request.asked_steps)]
    try:
        spare = context.ledger.spare(own.least, *(step.floor for step in steps), *earlier.amounts)
    except LimitExceeded:
        cheapest = min(steps, key=lambda step: (step.least.cost or 0.0, step.least.input_tokens))
        steps = [] if may_answer else [cheapest]
        floors = [*(step.floor for step in steps), *earlier.amounts]
        spare = context.ledger.spare(own.least, *floors, steps=len(steps) + earlier.steps, what=what)
    cap = cap_of(spare, own, [replace(step, usual=step.usual or _USUAL) for step in steps])
    return request if cap is None else replace(request, max_tokens=cap), worst(cap)


def needs_without_failed(context: RunContext, plan: Plan | None, outcomes: Sequence[Outcome]) -> Kept | None:
    """Return what an answer without a plan's failed steps needs; `None` if there can be none."""
    if plan is None or not plan.steps:
        return None
    graph = DependencyGraph(context, "note")
    graph.take(plan)
    for state, outcome in zip(graph.states, outcomes, strict=False):
        if outcome.status in ("ok", "failed"):
            state.outcome = outcome
            state.is_whole = graph.is_whole(state)
    able, last = graph.able, plan.answers
    for state in graph.states:
        if state.index not in able & plan.reaching(*last):
            state.reason = UNSEEN
    kept = Fit(context, graph).kept()
    try:
        context.ledger.spare(*kept.amounts, steps=kept.steps)
    except LimitExceeded:
        return None
    return kept if able.intersection(last) else None


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


class Fit:
    """Divides what is left among the steps of one round."""

    def __init__(self, context: RunContext, graph: DependencyGraph | None = None) -> None:
        self._context = context
        self._graph = graph
        self._is_metered = is_metered(context)
        self._is_planned = graph is None
        self._planned = anyio.Event()
        self._needs: dict[tuple[int, int], Need] = {}
        self._counted: set[str] = set()
        """The steps inside of maps and blocks of which an execution has started."""
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
        context = self._context
        context.ledger.keep(self.kept)
        needs = [] if context.cache is not None else self._open()  # cached answers need no calls
        least, enough = floors_of(needs), floors_of([need.later for need in needs])
        earlier = context.earlier
        try:
            self._fitting(
                [*least, *earlier.amounts],
                [*enough, *earlier.amounts],
                what="the plan needs at least",
                steps=self.kept().steps,
            )
        except LimitExceeded as error:
            if error.limit in ("steps", "calls") or not context.ledger.is_calling:
                self.refusal = error

    def end(self) -> None:
        """Divide nothing more."""
        self._planned.set()
        self._context.ledger.keep(None)

    async def freed(self, refused: LimitExceeded) -> bool:
        """Wait until a call that does not fit may fit; return whether the method waited."""
        if not self._is_planned:
            await self._planned.wait()
            return True
        return refused.limit not in ("steps", "calls") and await self._context.ledger.freed()

    def reserve(
        self, state: StepNode, number: int, request: Request, *, is_repeated: bool = False
    ) -> tuple[Request, Reservation]:
        """Count the start of a step, reserve its call, and return the request, with its cap."""
        if self.refusal is not None:
            raise self.refusal
        context, others, unstarted = self._context, self._calling(state), 0
        calls = (len(others) + self._parts(state)) if context.cache is None else 0
        if not self._is_planned:
            following = self._following()
            repair = context.settings.planner.card is not None
            calls = len(others) + following + repair
            unstarted = following + sum([not each.has_started for each in others])
        request = self.capped(state, number, request, is_repeated=is_repeated)
        besides = [*([Spend(calls)] if calls else []), *context.earlier.amounts]
        starts = 0 if state.has_started or self._is_counted(state) else 1
        worst = worst_case(context, number, request)
        reservation = context.ledger.reserve(worst, *besides, starts=starts, steps=unstarted)
        state.has_started = True
        if state.path:
            self._counted.add(static_place(state.path))
            if self._graph is not None:
                self._graph.open_parts[static_place(state.path)].pop(state, None)
        return request, reservation

    def _is_counted(self, state: StepNode) -> bool:
        """Return whether another execution of the same step of the plan has started."""
        return bool(state.path) and static_place(state.path) in self._counted

    def capped(self, state: StepNode, number: int, request: Request, *, is_repeated: bool = False) -> Request:
        """Return the request of a call with its cap; raise `LimitExceeded` if it does not fit."""
        if not self._is_metered:
            return request
        context = self._context
        own = replace(need_of(context, number, request), read_again=self._read_again(state, state))
        others = self._open(state) + ([] if self._is_planned else self._unseen())
        spare = self._spare(own, others if context.cache is None else [])
        cap = cap_of(spare, own, () if is_repeated else others)
        if cap is not None and not self._is_planned:
            if _UNEVEN * cap < self._longest and cap < _AMPLE:
                raise LimitExceeded("output_tokens", "the step waits until the plan is complete")
            self._longest = max(self._longest, cap)
        given = request.sampling.max_tokens or context.settings.pool.workers[number].max_tokens
        return with_cap(request, cap) if cap is not None and (given is None or cap < given) else request

    def _spare(self, own: Need, others: Sequence[Need]) -> Remaining:
        """Return what is left beside a call with the shortest cap, and beside the calls after it."""
        earlier, what = self._context.earlier.amounts, TOGETHER if others else "a call may need"
        later = [*floors_of([need.later for need in others]), *earlier]
        floors = [own.least, *(need.floors for need in others), *earlier]
        now = self._fitting(floors, [own.least, *later], what=what)
        try:
            then = self._context.ledger.spare(own.floor, *later)
        except LimitExceeded:  # the shortest cap
            return Remaining(output_tokens=now.output_tokens and 0, cost=now.cost and 0.0)
        return min(now, then, key=lambda left: left.cost or 0.0)

    def _fitting(
        self, least: Sequence[Spend], enough: Sequence[Spend], *, what: str, steps: int = 0
    ) -> Remaining:
        """Return what is left beside the least amounts; the error names what is enough for certain."""
        try:
            return self._context.ledger.spare(*least, steps=steps, what=what)
        except LimitExceeded:
            self._context.ledger.spare(*enough, steps=steps, what=what)
            raise

    def floor(self, state: StepNode) -> Spend:
        """Return the least that a call of a step needs."""
        return self._need(state).floor

    def kept(self) -> Kept:
        """Return the least that the steps without a call need, which nested runs leave to them."""
        earlier, graph = self._context.earlier, self._graph
        starts = sum([not each.has_started for each in self._calling()])
        starts += (
            0
            if graph is None
            else len({name for name, parts in graph.open_parts.items() if parts} - self._counted)
        )
        return Kept([*floors_of(self._open()), *earlier.amounts], starts + earlier.steps)

    def _calling(self, but: StepNode | None = None) -> list[StepNode]:
        """Return the steps of the plan that must still call a worker, without the step `but`."""
        found = [] if self._graph is None else self._graph.states
        return [each for each in found if each is not but and each.needs_call and each.expansion is None]

    def _parts(self, but: StepNode | None = None) -> int:
        """Return the number of steps inside of maps and blocks that have not called a worker."""
        parts = () if self._graph is None else self._graph.open_parts.values()
        return sum([len(each) - (but in each) for each in parts])

    def _open(self, but: StepNode | None = None) -> list[Need]:
        """Return what the steps without a call need, seen from the step `but`."""
        calling = self._calling(but)
        if not self._is_metered:
            return [_CALL] * (len(calling) + self._parts(but))
        needs = [replace(self._seeing(each, but), read_again=self._read_again(each, but)) for each in calling]
        for parts in () if self._graph is None else self._graph.open_parts.values():
            number = len(parts) - (but in parts)
            if number:
                first = next(each for each in parts if each is not but)
                again = self._read_again(first, but)
                needs.append(replace(self._seeing(first, but), read_again=again, number=number))
        return needs

    def _need(self, state: StepNode) -> Need:
        """Return what a step needs, beside the outputs that it sees."""
        call = next(calls_in([state.step]))
        step = call if state.expands else replace(call, worker=state.workers[0])
        key = state.index, step.worker
        if key not in self._needs:
            seen = [VisibleStep(each.number, each.subtask, "") for each in state.inputs]
            self._needs[key] = need_of_step(self._context, step, seen)
        return self._needs[key]

    def _seeing(self, state: StepNode, but: StepNode | None) -> Need:
        """Return what a step needs, with the outputs that it sees, and the caps of those to come."""
        seen = most = coming = 0
        for other in state.inputs:
            if other is but or other.needs_call:
                coming += 1
            elif other.outcome is None:
                cap = other.calls[-1].reservation.amount.output_tokens if other.calls else 0
                cap = max(cap, LEAST) if self._context.ledger.limits_any("cost") else LEAST
                seen, most = seen + cap, most + _BOUND * cap
            elif other.is_good:
                text, told = (
                    other.outcome.text,
                    other.calls[-1].usage if other.calls else Usage(estimated=True),
                )
                tokens = estimate_tokens(text) if told.estimated else told.total_output_tokens
                seen, most = seen + tokens, most + most_tokens([Message("user", text)])
        return replace(self._need(state), seen=seen, seen_most=most, coming=coming)

    def _read_again(self, state: StepNode, but: StepNode | None) -> float:
        """Return the USD to read a token of a step's answer; the dearest reader of `but` reserves it."""
        price = sum([self._need(each).reads for each in state.dependents if each.needs_call])
        readers = [] if but is None else [each for each in but.dependents if each.needs_call]
        dearest = max(readers, key=lambda each: self._need(each).reads, default=None)
        if but is not None and dearest is not None and state in dearest.inputs:
            cut, bound = but.calls[-1].completion if but.calls else None, float(_BOUND)
            if cut is not None and cut.usage.total_output_tokens:
                bound = most_tokens([Message("user", cut.text)]) / cut.usage.total_output_tokens
            price += max(bound - 1, 0.0) * self._need(dearest).reads
        return price

    def _following(self) -> int:
        """Return how many steps of an incomplete plan, or of its repair, may still be read."""
        asked = asked_steps(self._context.most_steps, len(self._context.settings.pool))
        return max(asked - (0 if self._graph is None else len(self._graph.states)), min(asked, _UNSEEN))

    def _unseen(self) -> list[Need]:
        """Return what the steps may need that are not read yet: they call all workers in turn."""
        size = len(self._context.settings.pool)
        return [
            need_of_step(self._context, Step(each % size, "Answer.")) for each in range(self._following())
        ]


_CALL: Final = Need(Spend(1))
