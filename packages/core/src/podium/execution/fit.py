"""Divides what the limits of a run leave among the calls that are still to be made.

A call reserves its prompt, and its cap: the longest answer that the request allows. The cap is the call's
share of what is left. Each token of an answer costs its own price, and the price of reading it in the steps
that see it. A call is refused only if the limits do not allow it together with the shortest answers of the
later steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import anyio

from podium.budget.ledger import NO_NEEDS, TOGETHER, Kept, Reservation
from podium.budget.limits import NOTHING, Remaining, Spend
from podium.errors import LimitExceeded
from podium.execution.context import RunContext
from podium.execution.graph import UNSEEN, DependencyGraph
from podium.execution.need import (
    BOUND,
    LEAST,
    USUAL,
    Need,
    cap_of,
    floors_of,
    need_of,
    need_of_step,
    with_cap,
    worst_case,
)
from podium.execution.node import StepNode
from podium.planners.planner import Planner, PlanRequest, asked_steps
from podium.types.messages import Message
from podium.types.outcome import Outcome
from podium.types.plan import Plan
from podium.types.steps import Step, calls_in, static_place
from podium.usage import Usage, estimate_tokens
from podium.workers.worker import Request, VisibleStep, most_tokens

_OF_ROW: Final = 60
"""Tokens of a row of a plan, with a margin, because a plan that is cut must be written again."""
_UNSEEN: Final = 5
"""Fewest steps that may follow a step of an incomplete plan, in this plan or in its repair."""
_UNEVEN: Final = 3
"""A step of an incomplete plan waits if another step has more than this many times its cap, as there are more
steps than expected, unless its cap is `_AMPLE`."""
_AMPLE: Final = 1_000


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


@dataclass(frozen=True, slots=True)
class Asking:
    """A call of a planner that fits what is left."""

    request: PlanRequest
    """The request, with its cap."""
    worst: Spend
    """The maximum that the call may spend."""
    kept: Kept = NO_NEEDS
    """What its step must leave for the planner's next message."""
    refused: LimitExceeded | None = None
    """Why the limits allow the planner that speaks turn by turn no further message."""


def planner_call(context: RunContext, planner: Planner, request: PlanRequest, order: Sequence[int]) -> Asking:
    """Return a call of a planner with its cap; raise `LimitExceeded` if it does not fit."""
    own = _need_of(context, planner, request)
    if not own.least.calls:  # a cached plan, or no model
        return Asking(request, own.least)
    if planner.rounds is not None:
        return _turn(context, planner, request, order)
    earlier, what = context.earlier, "a plan and one step need at least"
    if earlier.amounts:
        what = "a plan, one step and the rest of the earlier plan need at least"
    if not is_metered(context):
        context.ledger.spare(own.least, Spend(1), *earlier.amounts, steps=earlier.steps + 1, what=what)
        return _capped(context, planner, request, None)
    needs = [need_of_step(context, Step(number, "Answer.")) for number in order]
    steps = [needs[index % len(needs)] for index in range(request.asked_steps)]
    try:
        spare = context.ledger.spare(own.least, *(step.floor for step in steps), *earlier.amounts)
    except LimitExceeded:
        steps = [_cheapest(steps)]
        floors = [steps[0].floor, *earlier.amounts]
        spare = context.ledger.spare(own.least, *floors, steps=1 + earlier.steps, what=what)
    return _capped(context, planner, request, cap_of(spare, own, list(map(_with_usual, steps))))


def _turn(context: RunContext, planner: Planner, request: PlanRequest, order: Sequence[int]) -> Asking:
    """Return a message of a planner that speaks turn by turn: the last, if no step and answer fit besides."""
    own, step = _need_of(context, planner, request), _CALL
    if is_metered(context):
        step = _cheapest([need_of_step(context, Step(number, "Answer.")) for number in order])
    read = own.least.input_tokens + BOUND * (USUAL + LEAST)
    cost = own.least.cost if planner.card is None else planner.card.most(read, LEAST)
    answer = Spend(1, read, LEAST, cost)
    kept, refused, others = Kept([answer]), None, [_with_usual(step), own]
    try:
        what = "a message, a step and the answer need at least"
        spare = context.ledger.spare(own.least, step.floor, answer, steps=1, what=what)
    except LimitExceeded as error:
        kept, refused, others = NO_NEEDS, error, []
        request = replace(request, is_last=True)
        own = _need_of(context, planner, request)
        spare = context.ledger.spare(own.least, what="the next message needs at least")
    cap = cap_of(spare, own, others) if is_metered(context) else None
    return replace(_capped(context, planner, request, cap), kept=kept, refused=refused)


def _need_of(context: RunContext, planner: Planner, request: PlanRequest) -> Need:
    usual = None if planner.rounds is not None else _OF_ROW * request.asked_steps
    return Need.of(lambda cap: _capped(context, planner, request, cap).worst, planner.card, usual)


def _capped(context: RunContext, planner: Planner, request: PlanRequest, cap: int | None) -> Asking:
    request = request if cap is None else replace(request, max_tokens=cap)
    spend = planner.worst_case(request, context.settings.limits.answer_tokens)
    return Asking(request, context.overlong.worst_case(planner.card, spend))


def _cheapest(needs: Sequence[Need]) -> Need:
    return min(needs, key=lambda each: (each.least.cost or 0.0, each.least.input_tokens))


def _with_usual(need: Need) -> Need:
    return replace(need, usual=need.usual or USUAL)


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
        self._earlier = context.earlier
        """What must be left besides."""
        self._told_back = 0.0
        """USD for the planner to read a token of an answer."""
        self._longest = 0
        """The longest cap of a step that started before the plan is complete."""
        self.refusal: LimitExceeded | None = None
        """Why the limits allow no answer, so that no step may start; `None` if they may allow one."""

    def leave(self, kept: Kept) -> None:
        """Leave this for the next message of the planner, which reads the answers of the steps."""
        if kept.amounts:
            self._earlier = kept
            self._told_back = BOUND * Need(NOTHING, card=self._context.settings.planner.card).reads

    def plan(self) -> None:
        """Divide from now on among the steps of the complete plan, whose paid results are known."""
        self._is_planned = True
        self._planned.set()
        if not self._calling():
            return
        context, earlier = self._context, self._earlier
        context.ledger.keep(self.kept)
        kept, is_cached = self.kept(), context.cache is not None  # cached answers need no calls
        least = earlier.amounts if is_cached else kept.amounts

        def enough() -> list[Spend]:
            later = [] if is_cached else [need.later for need in self._open()]
            return [*floors_of(later), *earlier.amounts]

        try:
            self._fitting(least, enough, what="the plan needs at least", steps=kept.steps)
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
        besides = [*([Spend(calls)] if calls else []), *self._earlier.amounts]
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
        earlier, what = self._earlier.amounts, TOGETHER if others else "a call may need"
        later = [*floors_of([need.later for need in others]), *earlier]
        floors = [own.least, *(need.floors for need in others), *earlier]
        now = self._fitting(floors, lambda: [own.least, *later], what=what)
        try:
            then = self._context.ledger.spare(own.floor, *later)
        except LimitExceeded:  # the shortest cap
            return Remaining(output_tokens=now.output_tokens and 0, cost=now.cost and 0.0)
        return min(now, then, key=lambda left: left.cost or 0.0)

    def _fitting(
        self, least: Sequence[Spend], enough: Callable[[], Sequence[Spend]], *, what: str, steps: int = 0
    ) -> Remaining:
        """Return what is left beside the least amounts; the error names what is enough for certain."""
        try:
            return self._context.ledger.spare(*least, steps=steps, what=what)
        except LimitExceeded:
            self._context.ledger.spare(*enough(), steps=steps, what=what)
            raise

    def floor(self, state: StepNode) -> Spend:
        """Return the least that a call of a step needs."""
        return self._need(state).floor

    def kept(self) -> Kept:
        """Return the least that the steps without a call need, which nested runs leave to them."""
        earlier, graph = self._earlier, self._graph
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
                seen, most = seen + cap, most + BOUND * cap
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
        price = self._told_back + sum(
            [self._need(each).reads for each in state.dependents if each.needs_call]
        )
        readers = [] if but is None else [each for each in but.dependents if each.needs_call]
        dearest = max(readers, key=lambda each: self._need(each).reads, default=None)
        if but is not None and dearest is not None and state in dearest.inputs:
            cut, bound = but.calls[-1].completion if but.calls else None, float(BOUND)
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
