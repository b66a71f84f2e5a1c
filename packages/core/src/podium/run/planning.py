"""Gets a valid plan for a query: calls the planner, parses its text, and asks once for a repair."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, nullcontext
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import isinf
from typing import Literal, NamedTuple, get_args

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from podium.aio.calls import foreign_batches
from podium.budget.ledger import NO_NEEDS, Kept
from podium.budget.limits import NOTHING, Remaining
from podium.errors import (
    AnswerRefused,
    LimitExceeded,
    PlanError,
    PlanForbidden,
    PlanInvalid,
    PlanInvalidCode,
    PlannerError,
    PlannerErrorCode,
    PlanSyntaxCode,
    PlanSyntaxError,
    PodiumError,
    WorkerBroken,
    WorkerError,
    WorkerRefused,
    WorkerTimeout,
    WorkerUnavailable,
)
from podium.execution.context import RunContext
from podium.execution.fit import higher_limits, is_metered, planner_call
from podium.execution.node import STOPPED
from podium.plan_text.parser import PlanReader
from podium.plan_text.writer import write_plan
from podium.planners.chat import repair_feedback
from podium.planners.planner import Planner, PlannerCall, PlanRequest, PlanText, Turn, misfit
from podium.prompts.prompt import check_names
from podium.run.request import checked_plan
from podium.secrets import BUGS, Boundary, add_place
from podium.types.events import PlanDelta, PlannerEnded, PlannerStarted
from podium.types.messages import Sampling, storable
from podium.types.outcome import Problem, Proposal, Round, for_people
from podium.types.plan import KEPT, Plan, PlannedBy
from podium.types.steps import AnyStep, Block, Step, is_unconditional, with_workers
from podium.workers.worker import pieces_of


class EarlyStart:
    """Starts the steps of a plan text as they are read, if the policy allows."""

    def __init__(self, context: RunContext, start: Callable[[Step], None]) -> None:
        self._context = context
        self._start = start
        self._read: tuple[AnyStep, ...] = ()
        self._started = 0
        self._stopped = bool(context.policy.approvers_of("plans")) or context.policy.needs_whole_plan

    def add(self, steps: Sequence[AnyStep]) -> None:
        """Add the next steps; a step that the policy forbids stops the early start."""
        context, known = self._context, len(self._read)  # of the first round: there is no previous round
        for step in steps:
            self._stopped = self._stopped or isinstance(step, Block) or not is_unconditional(step)
            self._read += () if self._stopped else (step,)
        if len(self._read) == known:
            return
        try:
            check_names(self._read[known:], context.request.context)
            plan = Plan(self._read)
            plan.check_types(context.settings.pool.forms)
            plan = context.policy.check(plan, context.settings.pool.cards, context.labels)
        except PodiumError:  # the check of the complete plan raises it again, for the repair
            self._stopped = True
            return
        # Settings of the caller are for the last step: with them, a step waits for the next one.
        for ready in plan.calls[self._started : len(plan.steps) - context.last_step_differs]:
            self._start(ready)
            self._started += 1


CODES: tuple[PlannerErrorCode, ...] = get_args(PlannerErrorCode)
_BAD_PLANS = (*get_args(PlanSyntaxCode), *get_args(PlanInvalidCode), PlanForbidden.code)
MAX_QUOTED_CHARS = 16_000
"""Maximum number of characters of an invalid plan in the repair prompt, from its end."""

Role = Literal["plan", "repair", "fallback"]


class _Asked(NamedTuple):
    """The result of a planner call: a plan or an error."""

    plan: Plan | None
    text: str
    error: PodiumError | None
    made: bool
    """Whether the planner was called."""
    wait: float | None = None
    """Seconds until the retry; `None` if the call is not retried."""


@dataclass(slots=True)
class PlanRequester:
    """Requests the plan of one round."""

    context: RunContext
    round: int
    turns: tuple[Turn, ...] = ()
    """The plans of earlier rounds, with feedback."""
    may_keep: bool = False
    """Whether an earlier round has an answer, so that a plan without steps is valid: it keeps this answer."""
    early: EarlyStart | None = None
    """Starts steps before the plan is complete, which may replace them; `None` if no step may start early."""
    proposals: list[Proposal] = field(default_factory=list)
    """Every planner call, in order, including calls that were not made."""
    is_last: bool = False
    """Whether a planner that speaks turn by turn may write no further message."""
    kept: Kept = field(default=NO_NEEDS, init=False)
    """What the step of this round must leave for the planner's next message."""
    refused: LimitExceeded | None = field(default=None, init=False)
    """Why the limits allow no next message."""
    may_fall_back: bool = True
    """Whether the fallback planner is called if there is still no plan."""

    async def make(self) -> Plan:
        """Return the plan; raise `PlannerError` if no planner wrote a usable plan."""
        context, before = self.context, len(self.proposals)
        planner = context.settings.planner
        fallback = context.settings.fallback_planner if self.may_fall_back else None
        asked = self._known() or await self._ask(planner, self.turns, "plan")
        self.early = None
        if asked.made and isinstance(asked.error, PlanError):
            feedback = repair_feedback(asked.error, is_turn=planner.rounds is not None)
            repair = Turn(asked.text[-MAX_QUOTED_CHARS:], feedback)
            asked = await self._ask(planner, (*self.turns, repair), "repair")
        error = asked.error
        if asked.plan is None and fallback is not None and not self.turns:
            asked = await self._ask(fallback, (), "fallback")
        if asked.plan is None:
            calls = self.proposals[before:]
            unplanned = PlannerError(f"there is no plan: {failures(calls)}", code=_cause(error, calls))
            raised = error.__cause__ if isinstance(error, PlannerError) else None
            raise unplanned from (raised or error)
        return asked.plan

    def _known(self) -> _Asked | None:
        """Return the planner's recorded text if it is an invalid plan that still needs a repair."""
        ended = [p for p in self.proposals if p.problem is None or p.problem.code != STOPPED.code]
        last = ended[-1] if ended else None
        if (
            last is None
            or last.problem is None
            or (last.planner, last.role, last.asked) != (self.context.settings.planner.name, "plan", True)
            or last.problem.code not in _BAD_PLANS
        ):
            return None
        return _Asked(None, last.text, PlanError(last.problem.message), made=True)

    async def _ask(self, planner: Planner, turns: tuple[Turn, ...], role: Role) -> _Asked:
        """Call a planner, with retries."""
        failures = 1
        while (asked := await self._call(planner, turns, role, failures)).wait is not None:
            await anyio.sleep(asked.wait)
            failures += 1
        return asked

    async def _call(self, planner: Planner, turns: tuple[Turn, ...], role: Role, failures: int) -> _Asked:
        """Call a planner once; `failures` counts the failed calls, with this one if it fails."""
        await checkpoint_if_cancelled()
        context, began = self.context, self.context.clock()
        limit = context.settings.limits.planner_seconds
        state = None if planner.card is None else context.settings.pool.state_of(planner.card)
        written = PlannerCall(planner, role, breaker=None if state is None else state.breaker)
        plan: Plan | None = None
        error: PodiumError | None = None
        timeout: WorkerTimeout | None = None
        wait, because = None, ""
        try:
            with (
                anyio.CancelScope(deadline=began + limit) as scope,
                Boundary(f"planner {planner.name!r}", PlannerError),
            ):
                order = order_of(context, planner)
                async with (None if state is None else state.slot) or nullcontext():
                    plan = await self._plan(written, order, turns, began + limit)
            if scope.cancelled_caught or context.clock() > began + limit:
                plan, error = None, _late(planner, limit, written)
        except WorkerTimeout as caught:
            # A model's client has the same deadline, and may notice it first.
            timeout, error = caught, self._reached_limit(written, began + limit) or caught
        except PodiumError as caught:
            error = caught
        except BUGS as bug:
            add_place(bug, context.request.run_id, f"planner {planner.name!r} in round {self.round}")
            error = PlannerError(f"planner {planner.name!r} raised {type(bug).__name__}: {bug}")
            raise
        finally:
            self._note(written, error)
            problem = STOPPED if plan is None else None
            if error is not None:
                wait, because = self._wait(written, error, failures)
                problem = Problem.of(error)
                problem = replace(problem, message=f"{problem.message}; {because}") if because else problem
            proposal = written.proposal(problem, timeout or error, context.clock() - began)
            if written.reserved is not None:
                context.ledger.settle(written.reserved, written.spent(proposal))
                context.overlong.note(planner.card, written.reserved.amount, proposal.usage)
            self.proposals.append(proposal)
            context.tell(PlannerEnded, round=self.round, proposal=proposal, wait=wait)
        if error is not None and written.pieces:
            self.early = None  # steps of this text may be running; only a complete plan can replace them
        return _Asked(plan, written.text, error, written.is_sent, wait)

    def _reached_limit(self, written: PlannerCall, deadline: float) -> PodiumError | None:
        """Return the error for the time limit that is reached; `None` if no limit is reached."""
        ledger, now = self.context.ledger, self.context.clock()
        if now >= ledger.deadline:
            told = f"did not finish within the run's {ledger.limits.seconds:g} s (Limits.seconds)"
            return LimitExceeded("seconds", f"planner {written.planner.name!r} {told}")
        limit = self.context.settings.limits.planner_seconds
        return _late(written.planner, limit, written) if now >= deadline else None

    def _rest(self, written: PlannerCall) -> float:
        """Return the seconds until the circuit breaker of a planner's model allows a call."""
        retry, breaker = self.context.settings.retry, written.breaker
        if breaker is None:
            return 0.0
        return breaker.rest(self.context.clock(), retry.break_after, retry.break_seconds)

    async def _check_breaker(self, written: PlannerCall) -> None:
        """Wait while another call tests the model; raise `WorkerUnavailable` if its breaker is open."""
        while written.breaker is not None and (rest := self._rest(written)):
            if not isinf(rest):
                told = f"planner {written.planner.name!r} failed {written.breaker.failures} times in a row"
                told += f" and gets no calls for another {rest:.3g} s (Retry.break_seconds)"
                raise WorkerUnavailable(told, retry_after=rest)
            await written.breaker.tried()

    def _wait(self, written: PlannerCall, error: PodiumError, failures: int) -> tuple[float | None, str]:
        """Return the wait before the retry; `None` if there is no retry, and why."""
        context, retry = self.context, self.context.settings.retry
        rest = self._rest(written)
        stands_in = context.settings.fallback_planner is not None and not self.turns
        if failures >= retry.attempts or (rest and stands_in and written.role != "fallback"):
            return None, ""
        if rest and written.breaker is not None and written.breaker.is_down:
            return None, "the run does not wait, because its server has no connection"
        if isinstance(error, WorkerError) and not isinf(rest):
            error.retry_after = max(error.retry_after or 0.0, rest)
        seed = f"{context.request.run_id}/{self.round}/planner/{len(self.proposals)}"
        wait, because = retry.wait_after(error, failures, seed, context.ledger.deadline - context.clock())
        return None if isinf(wait) else wait, because

    async def _plan(
        self, written: PlannerCall, order: Sequence[int], turns: tuple[Turn, ...], deadline: float
    ) -> Plan:
        """Reserve the call's worst case, make the call, and parse its text."""
        context, planner = self.context, written.planner
        request = self._request(planner, order, turns, deadline)
        if planner.worst_case(request, context.settings.limits.answer_tokens).calls:
            await self._check_breaker(written)  # a cached plan needs no call
        else:
            written.breaker = None
        while written.reserved is None:  # calls that end may free a part
            try:
                await context.ledger.allow()
                asking = planner_call(context, planner, request, order)
                request, self.kept, self.refused = asking.request, asking.kept, asking.refused
                written.reserved = context.ledger.reserve(asking.worst)
            except LimitExceeded as error:
                if error.limit == "calls" or not await context.ledger.freed():
                    raise
        worst = written.reserved.amount
        written.most = worst.output_tokens if is_metered(context) else 0
        cap = request.max_tokens
        written.cap = cap if cap is not None and worst.output_tokens >= cap else None
        context.tell(PlannerStarted, round=self.round, planner=planner.name, reserved=worst)
        if context.recorded is not None and worst != NOTHING:
            await context.recorded()
        written.messages = planner.messages(request)
        if written.breaker is not None:
            written.tries = written.breaker.called(context.settings.retry.break_after)
        hidden = [card for card in context.settings.pool.cards if card not in request.cards]
        reader = PlanReader(
            workers=[card.name for card in request.cards],
            max_steps=request.max_steps,
            previous=bool(context.previous.visible),
            refused={card.name: context.policy.objection(card, context.labels) for card in hidden},
        )
        await self._read(written, request, reader, order)
        return self._judge(written, request, reader, order)

    def _request(
        self, planner: Planner, order: Sequence[int], turns: tuple[Turn, ...], deadline: float
    ) -> PlanRequest:
        """Return the request for one call of a planner, which sees the workers `order` of the pool."""
        context, workers = self.context, self.context.settings.pool.workers
        request = PlanRequest(
            query=context.request.query,
            context=tuple((name, len(text)) for name, text in context.request.context.items()),
            cards=tuple(context.settings.pool.cards[number] for number in order),
            max_steps=context.most_steps,
            map_items=context.settings.limits.items,
            plans=tuple(context.settings.plans.values()),
            loop_turns=context.settings.limits.turns,
            turns=turns,
            may_keep=self.may_keep,
            shows_question=context.shows_question,
            fills=tuple(place for place, number in enumerate(order) if not workers[number].reads_prose),
            acts=tuple(place for place, number in enumerate(order) if context.settings.acts(number)),
            asks=tuple(place for place, number in enumerate(order) if context.settings.asks(number)),
            tools=context.tool_names,
            callers=tuple(place for place, number in enumerate(order) if context.may_call(number)),
            done=tuple(
                str(each) for each in context.actions.actions if each.run_id == context.request.run_id
            ),
            deadline=min(deadline, context.ledger.deadline),
            is_last=self.is_last,
            sampling=context.request.sampling if planner.rounds is not None else Sampling(),
            middleware=context.request.middleware,
        )
        left, ample = context.ledger.left, 2 * request.asked_steps
        steps = None if left.steps is None or left.steps >= ample else left.steps
        calls = left.calls
        if calls is not None:
            calls = max(calls - (planner.worker is not None), 0)  # its own call
            calls = None if calls >= ample and not planner.writes_workflows else calls
        scarce = replace(left, steps=steps, calls=calls)  # what a plan could exceed
        return request if scarce == Remaining() else replace(request, left=scarce.rounded)

    async def _read(
        self, written: PlannerCall, request: PlanRequest, reader: PlanReader, order: Sequence[int]
    ) -> None:
        async def call(emit: Callable[[object], Awaitable[None]]) -> None:
            written.is_sent = True
            with self.context.during(self.round):
                async with aclosing(pieces_of(written.planner.plan(request), "plan")) as pieces:
                    async for piece in pieces:
                        await emit(piece)
                        if isinstance(piece, PlanText):
                            return

        async with aclosing(foreign_batches(call, f"planner {written.planner.name!r}")) as batches:
            async for batch in batches:
                steps = [step for piece in batch for step in self._take(written, piece, reader)]
                if self.early is not None:
                    self.early.add(with_workers(steps, order))

    def _take(self, written: PlannerCall, piece: object, reader: PlanReader) -> Sequence[AnyStep]:
        """Take a piece of the text, or the whole text; return the steps that the piece completes."""
        context, name = self.context, written.planner.name
        if isinstance(piece, PlanText):
            if wrong := misfit(piece, written.pieces):
                raise PlannerError(f"planner {name!r} yielded {wrong}")
            written.whole = piece
            return ()
        if not isinstance(piece, str):
            raise PlannerError(f"planner {name!r} yielded a {type(piece).__name__}, not text")
        written.pieces.append(storable(piece))
        if context.request.stream:
            context.tell(PlanDelta, round=self.round, planner=name, text=written.pieces[-1])
        return reader.feed(piece)

    def _judge(
        self, written: PlannerCall, request: PlanRequest, reader: PlanReader, order: Sequence[int]
    ) -> Plan:
        """Return the plan of a complete text, with the pool's numbers of workers, checked by the policy."""
        if written.whole is None:
            raise PlannerError(f"planner {written.planner.name!r} ended without a PlanText")
        if written.whole.finish_reason == "length":
            told, remedy = "at the planner's token limit", "write a shorter plan"
            if (cap := written.cap) is not None:
                told = f"at {cap} tokens, the plan's share of what the run had left"
                remedy += f", or run it again with a higher {higher_limits(self.context, cap)}"
            message = f"the text was cut {told}: {remedy}"
            raise PlanSyntaxError("truncated", message, position=len(written.text))
        if written.whole.finish_reason != "stop":
            did = "a content filter of its server cut the text"
            if written.whole.finish_reason == "tool_calls":
                did = "its model called tools, and none were offered"
            raise AnswerRefused(f"planner {written.planner.name!r}: {did}", maybe_paid=True)
        rest = "" if written.pieces else written.whole.text
        plan = written.planner.read(request, rest, reader).renumbered(order)
        if plan == KEPT and not self.may_keep:
            message = "there is no previous answer to keep: write at least one step"
            raise PlanInvalid("nothing_to_keep", message)
        context = self.context
        cards, previous = context.settings.pool.cards, context.previous.labels
        if plan.steps:
            has_previous = bool(context.previous.visible)
            plan = checked_plan(plan, context.settings, context.request, previous=has_previous)
        checked = context.policy.check(plan, cards, context.labels, previous)
        if checked is not plan:
            written.changed = checked.why
        return checked

    def _note(self, written: PlannerCall, error: PodiumError | None) -> None:
        """Update the circuit breaker after a call that was sent."""
        if written.breaker is None or not written.is_sent:
            return
        well = True if written.whole is not None else None
        if well is None and error is not None and error.code in self.context.settings.retry.retry_on:
            well = False
        written.breaker.ended(self.context.clock(), well=well, tried=written.tries, error=error)


def _late(planner: Planner, limit: float, written: PlannerCall) -> WorkerTimeout:
    did = "did not finish"
    if written.reserved is None:
        did = "had no free slot"
    elif not written.is_sent:
        did = "was not called: the journal did not record the call"
    message = f"planner {planner.name!r} {did} within {limit:g} s (Limits.planner_seconds)"
    return WorkerTimeout(message, maybe_paid=written.is_sent)


def order_of(context: RunContext, planner: Planner) -> list[int]:
    """Return the workers that the planner sees, as numbers of the pool: those that may see the run's data."""
    policy, cards, labels = context.policy, context.settings.pool.cards, context.labels
    order = list(range(len(cards)))
    if policy.silent:
        return order
    if planner.card is not None:
        policy.everywhere.guard(planner.card, labels)
    admitted = [number for number in order if policy.admits(cards[number], labels)]
    if not admitted:
        raise PlanForbidden("the policy allows no worker of the pool to see the data of this run")
    return admitted if planner.reads_cards else order


def text_before(context: RunContext, before: RunContext, current: Round) -> str:
    """Return the text of a round's plan for the next prompt, in the planner's spelling and numbers.

    Args:
        context: the context of the next round.
        before: the context of the round.
        current: the round, which has a plan.
    """
    first, plan, own = context.settings.planner, current.plan, current.proposals[-1:]
    assert plan is not None
    order = _order(context)
    # New labels can exclude workers from the planner's list, which changes the workers' numbers.
    is_same = first.rounds is not None or order == _order(before)
    if own and own[0].planner == first.name and is_same:
        return own[0].text
    if all(step.worker in order for step in plan.calls):
        size = len(before.settings.pool)
        numbers = [order.index(number) if number in order else 0 for number in range(size)]
        return write_plan(plan.renumbered(numbers), first.spelling)
    return write_plan(plan, first.spelling, workers=before.settings.pool.names)


def _order(context: RunContext) -> Sequence[int]:
    """Return the workers that the planner sees, in order; empty if the policy forbids the planner."""
    try:
        return order_of(context, context.settings.planner)
    except PlanForbidden:
        return ()


def planned_by(calls: Sequence[Proposal]) -> PlannedBy:
    """Return the planner of the plan that these calls gave."""
    last = calls[-1]
    if last.role != "fallback":
        return PlannedBy(last.planner, last.why)
    return PlannedBy(last.planner, failures(calls), is_fallback=True)


def _cause(error: PodiumError | None, calls: Sequence[Proposal]) -> PlannerErrorCode:
    match error:
        case LimitExceeded():
            return "planner_limit"
        case WorkerRefused():
            return "planner_refused"
        case WorkerUnavailable() | WorkerTimeout() | WorkerBroken():
            return "planner_unreachable"
        case PlanForbidden() if not calls or not calls[-1].asked:
            return "planner_refused"
        case PlanError():
            return "planner_unusable"
        case _:
            return "planner_failed"


def failures(calls: Sequence[Proposal]) -> str:
    """Return the failed planner calls as text; equal consecutive failures are listed once."""
    said = []
    for (planner, problem), group in groupby(calls, key=lambda call: (call.planner, call.problem)):
        if problem is not None:
            times = len(list(group))
            often = f", {times} times" if times > 1 else ""
            said.append(f"planner {planner!r}: {problem.code}{often}: {for_people(problem)}")
    return "; ".join(said)
