"""One call of a worker: its reservation, its result and its cost."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from typing import get_args

import anyio

from podium.aio.calls import foreign_batches
from podium.budget.ledger import Charged, Ledger, Reservation, beside_nested, charge, charged_by
from podium.budget.limits import MAX_COST, NOTHING, Spend, is_cost
from podium.errors import (
    AnswerEmpty,
    AnswerRefused,
    AnswerToolCalls,
    AnswerTooLong,
    AnswerUnreadable,
    LimitExceeded,
    PlannerError,
    PodiumError,
    WorkerBroken,
    WorkerError,
    WorkerFailed,
    WorkerRefused,
    WorkerTimeout,
    WorkerUnavailable,
)
from podium.execution.context import HostExit, OuterRun, RunContext, answering
from podium.execution.retry import UNUSABLE
from podium.secrets import BUGS, Boundary
from podium.types.events import WorkerRunEnded
from podium.types.messages import Completion, FinishReason, Part, names_of, storable, usage_or_estimate
from podium.types.outcome import ActionEnd, Call, Problem, total_cost
from podium.types.plan import accepts
from podium.usage import Usage, is_well_formed
from podium.workers.pool import CallRecord, CircuitBreaker
from podium.workers.worker import Card, Request, is_free, pieces_of, unreported_usage

_FAILED = partial(WorkerFailed, maybe_paid=True)
_NOTHING = Usage()
_REASONS: tuple[FinishReason, ...] = get_args(FinishReason)


@dataclass(slots=True, eq=False)
class Attempt:
    """A call of a worker; the text so far can be read at any time."""

    context: RunContext
    worker: int
    """The worker's number in the pool."""
    card: Card
    number: int
    """Number of the call among the calls for its step, from 1."""
    outer: OuterRun
    """The call as the runs see it that the worker's code starts."""
    request: Request
    reservation: Reservation
    has_cap: bool
    """Whether the answer is capped by the limits of the run, more than by the worker or the caller."""
    breaker: CircuitBreaker
    """The worker's circuit breaker."""
    tries: bool
    """Whether this is a test call, which finds out if an unavailable worker works again."""
    began: float
    """Start of the call, on the event loop's clock, in seconds."""
    until: float | None
    """Time at which the call times out, on the event loop's clock; `None` if the step times out first."""
    is_sent: bool = False
    """Whether the worker was called. A call that was not sent costs nothing."""
    pieces: list[str] = field(default_factory=list)
    completion: Completion | None = None
    """The complete answer; `None` until it has arrived."""
    error: PodiumError | None = None
    bug: Exception | None = None
    """The exception of a bug in the worker's code, which the run raises."""
    left: HostExit | None = None
    """The exception with which a host has left the call; `None` for every other call."""
    problem: Problem | None = None
    """Why the answer of the call is not used; `None` while the call may still give the answer."""
    usage: Usage = _NOTHING
    cost: float | None = 0.0
    maybe_paid: bool = False
    charged: Charged = "usage"

    @property
    def is_open(self) -> bool:
        """Whether the call has no answer and no error yet: it is running, or was stopped."""
        return self.completion is None and self.error is None

    @property
    def reached_cap(self) -> bool:
        """Whether the answer is as long as its cap, so that the worker may need a higher one."""
        cap = self.request.sampling.max_tokens
        return self.has_cap and cap is not None and self.usage.total_output_tokens >= cap

    @property
    def cut_at(self) -> int | None:
        """The tokens of the cap at which the answer was cut; `None` if it was not cut at its cap."""
        whole = self.completion
        if not self.has_cap or whole is None or whole.finish_reason != "length":
            return None
        return self.request.sampling.max_tokens

    @property
    def nests(self) -> bool:
        """Whether the worker is a conductor, whose actions are in the log one by one."""
        return self.context.settings.pool.workers[self.worker].nests

    @property
    def action_end(self) -> ActionEnd:
        """How the action of this call ended."""
        if self.completion is not None:
            return "done"
        if not self.is_sent or (self.left is not None and self.left.continues):
            return "not_done"
        has_acted = any(log.has_begun for log in self.outer.actions)
        if self.nests:
            return "failed" if has_acted else "not_done"
        if isinstance(self.error, WorkerError) and self.error.acted is False:
            return "not_done"
        end = _end_after(self.error)
        return "unknown" if end == "not_done" and (has_acted or self.pieces) else end

    @property
    def _place(self) -> dict[str, int]:
        caller = self.request.caller
        assert caller is not None
        return {"round": caller.round, "step": caller.step, "attempt": caller.attempt}

    def call(self) -> Call:
        """Return the call with its tokens and cost."""
        return Call(
            attempt=self.number,
            worker=self.card.name,
            problem=self.problem,
            usage=self.usage,
            cost=self.cost,
            maybe_paid=self.maybe_paid,
            charged=self.charged,
        )

    async def run(self, on_text: Callable[[str, int], None], begun: anyio.Event | None = None) -> None:
        """Call the worker and wait for its end. A failure is stored in `error`; a cancellation is raised.

        `begun` is set when the worker begins to answer.
        """
        try:
            if self.context.recorded is not None:  # the call is sent after all earlier events are recorded
                await self.context.recorded()
                self._postpone(self.context.clock() - self.began)
            await self._read(on_text, begun)
        except HostExit as left:
            self.left = left
            raise
        except PodiumError as error:
            self._fail(error)
        except BUGS as bug:
            self.bug = bug
            told = f"worker {self.card.name!r} raised {type(bug).__name__}: {bug}"
            self._fail(WorkerFailed(told, maybe_paid=True))
        except TimeoutError:
            seconds = self.context.settings.limits.attempt_seconds
            told = f"worker {self.card.name!r} did not answer within {seconds:g} s (Limits.attempt_seconds)"
            self._fail(WorkerTimeout(told, maybe_paid=True))
        finally:
            self.outer.is_stopped = self.is_open or isinstance(self.error, WorkerTimeout)
            try:
                await self.outer.runs.close()
            finally:
                self._settle()

    def _postpone(self, seconds: float) -> None:
        """Move the call's start and time limit, because the wait for the journal does not count."""
        self.began += seconds
        if self.until is not None:
            self.until += seconds
            self.request = replace(self.request, deadline=self.until)

    def _fail(self, error: PodiumError) -> None:
        self.error = error
        if self.completion is None:
            self.problem = Problem.of(error)

    async def _read(self, on_text: Callable[[str, int], None], begun: anyio.Event | None) -> None:
        who, is_own = f"worker {self.card.name!r}", self.reservation.books_itself
        left = self.context.settings.limits.output_chars
        async with aclosing(foreign_batches(self._call, who, self.until, is_own=is_own)) as batches:
            async for batch in batches:
                for piece in batch:
                    if isinstance(piece, Completion):
                        self.completion = self._in_time(self._checked(piece))
                        continue
                    if not isinstance(piece, str):
                        raise self._broken(f"yielded a {type(piece).__name__}, not text")
                    self.pieces.append(storable(piece))
                    on_text(self.pieces[-1], self.number)
                    left -= len(piece)
                    if left < 0:
                        raise self._too_long()
                if begun is not None:
                    begun.set()
        if self.completion is None:
            raise self._broken("ended without a completion")

    async def _call(self, emit: Callable[[object], Awaitable[None]]) -> None:
        """Emit the pieces of the worker until its completion."""
        self.is_sent = True
        worker, middleware = self.context.settings.pool.workers[self.worker], self.context.request.middleware
        place, caller = self._place.values(), self.request.caller
        boundary = Boundary(f"worker {self.card.name!r}", _FAILED)
        try:
            with self.context.during(*place), boundary, answering(caller):
                called = worker.call(self.request) if middleware is None else middleware(worker, self.request)
                call: AsyncGenerator[object, None] = pieces_of(called, "call")
                async with aclosing(call):
                    async for piece in call:
                        await emit(piece)
                        if isinstance(piece, Completion):
                            return
        except asyncio.CancelledError as cancelled:
            self.is_sent = getattr(cancelled, "unsent", None) is not self.request
            raise

    def _in_time(self, completion: Completion) -> Completion:
        """Return a complete answer; raise `WorkerTimeout` if it arrived after its time limit."""
        now, ledger, limits = self.context.clock(), self.context.ledger, self.context.settings.limits
        if self.request.deadline is None or now <= self.request.deadline:
            return completion
        limit = f"{limits.step_seconds:g} s (Limits.step_seconds)"
        if self.until is not None:
            limit = f"{limits.attempt_seconds:g} s (Limits.attempt_seconds)"
        elif now > ledger.deadline:
            limit = f"the run's {ledger.limits.seconds:g} s (Limits.seconds)"
        raise self._broken(f"answered too late, not within {limit}", completion, WorkerTimeout)

    def _checked(self, completion: Completion) -> Completion:
        if wrong := _misfit(completion):
            told = f"worker {self.card.name!r} returned a completion whose {wrong}"
            raise WorkerFailed(told, maybe_paid=True)
        if completion.tool_calls and self.request.tools is None:
            told = f"called tools that nobody offered: {names_of(completion.tool_calls)}"
            raise self._broken(told, completion, AnswerToolCalls)
        reason = completion.finish_reason
        if reason == "content_filter" or (reason == "tool_calls" and not completion.tool_calls):
            raise self._broken(f"ended with the finish_reason {reason!r}", completion, AnswerRefused)
        if not completion.text.strip() and not completion.tool_calls:
            # Not retried without a model: the code would return nothing again.
            kind = AnswerEmpty if self._uses_tokens and completion.uses_tokens else WorkerFailed
            raise self._broken("returned an empty answer", completion, kind)
        is_cut = self.has_cap and reason == "length"  # it is repeated with a higher cap
        if len(completion.text) > self.context.settings.limits.output_chars:
            raise self._too_long(completion)
        if not (
            is_cut or completion.tool_calls or accepts(self.card.accept, completion.text, self.card.name)
        ):
            told = f"returned an answer that does not match its `accept`, {self.card.accept!r:.80}"
            raise self._broken(told, completion, AnswerUnreadable)
        if self._differs(completion):
            raise self._broken("yielded pieces that differ from the text of its completion", completion)
        text = storable(completion.text)
        completion = completion if text is completion.text else replace(completion, text=text)
        if self.outer.gaps and completion.missing is None:
            gaps = "; another ended ".join(self.outer.gaps)
            return replace(completion, missing=f"a nested run ended {gaps}")
        return completion

    def _differs(self, completion: Completion) -> bool:
        """Return whether the pieces differ from the whole text, ignoring white space."""
        # A conductor may differ, because it may retry its steps.
        if not self.pieces or completion.tool_calls or self.reservation.books_itself:
            return False
        return "".join(self.pieces).split() != storable(completion.text).split()

    @property
    def _uses_tokens(self) -> bool:
        return self.context.settings.pool.workers[self.worker].uses_tokens

    def _too_long(self, completion: Completion | None = None) -> WorkerError:
        most = self.context.settings.limits.output_chars
        told = f"wrote more than {most:,} characters: raise Limits.output_chars"
        return self._broken(told, completion, AnswerTooLong)

    def _broken(
        self, what: str, completion: Completion | None = None, kind: type[WorkerError] = WorkerBroken
    ) -> WorkerError:
        told = f"worker {self.card.name!r} {what}"
        if completion is None or completion.usage == _NOTHING:
            return kind(told, maybe_paid=True)
        return kind(told, maybe_paid=True, usage=completion.usage, cost=completion.cost)

    def _settle(self) -> None:
        """Count the cost of the call, and update the worker's history and circuit breaker."""
        spent = self._bill()
        context, now = self.context, self.context.clock()
        context.ledger.settle(self.reservation, spent)
        context.overlong.note(self.card, self.reservation.amount, self.usage)
        for ended in self.outer.ended:
            self.context.tell(WorkerRunEnded, **self._place, **ended._asdict())
        well = None
        if self.completion is not None:
            well = True
        elif self.error is not None and self.error.code in context.settings.retry.retry_on - UNUSABLE:
            well = False
        self.breaker.ended(now, well=well, tried=self.tries, error=self.error)
        if self.is_sent and not self.is_open:
            ok = self.completion is not None and self.cut_at is None  # a cut answer needed more
            used = self.usage
            took = CallRecord(
                now - self.began, ok, used.total_input_tokens, used.total_output_tokens, self.cost
            )
            context.settings.pool.states[self.worker].history.add(took)

    @property
    def _raised(self) -> bool:
        """Whether code without a model ended with an exception of its own."""
        if self._uses_tokens or isinstance(self.error, WorkerTimeout):
            return False
        return self.left is not None or self.error is not None

    def _bill(self) -> Spend:
        """Set the call's tokens and cost, and return the amount that the ledger counts."""
        if not self.is_sent:
            return NOTHING
        whole, nested = self.completion, _sum(self.outer.ledgers) if self.outer.ledgers else None
        nests_calls = nested is not None and nested.calls > 0
        if whole is not None:
            self.usage, self.cost = whole.usage, whole.cost
            reports = whole.uses_tokens and (whole.cost is None or whole.usage != _NOTHING)
            if reports and (nested is None or self.reservation.books_itself):
                self.usage = self._measured(whole.usage, whole.text, whole.tool_calls)
        elif (told := self._told()) is not None:
            self.usage, self.cost = told
        elif not nests_calls and (is_free(self.error, self.card) or isinstance(self.error, LimitExceeded)):
            return Spend(1)
        elif not nests_calls and self._raised:
            self.cost = None  # computed below from the card's price
        else:
            return self._bill_unknown(nested)
        if nested is not None and not self.reservation.books_itself:
            return self._bill_beside(nested)
        if self.cost is None and self.card.price is not None:
            self.cost = self.card.price.cost(self.usage)
        reserved, charged = self.reservation.amount, charged_by(self.usage)
        spent = charge(reserved, self.usage, self.cost, charged)
        if reserved.calls and self.usage.estimated:
            self.cost, self.charged = spent.cost, charged
        return spent

    def _told(self) -> tuple[Usage, float | None] | None:
        """Return the tokens and cost that the call's exception reports; `None` if it reports none."""
        error = self.error
        if self.left is not None:
            return None if self.left.usage is None else (self.left.usage, None)
        if not isinstance(error, WorkerError | PlannerError) or error.usage is None:
            return None
        usage = self._measured(error.usage, "".join(self.pieces))
        return usage, error.cost if is_cost(error.cost) else None

    def _bill_unknown(self, nested: Spend | None) -> Spend:
        """Set the cost of a call without a complete answer: an estimate, or the cost of its nested runs."""
        self.maybe_paid = True
        reserved, price = self.reservation.amount, self.card.price
        self.usage, self.charged = _NOTHING, "reservation" if reserved.output_tokens else "usage"
        if self._uses_tokens and nested is None:
            text = "".join(self.pieces)
            self.usage, self.charged = unreported_usage(
                self.request.messages, text, self.error, reserved, self._most
            )
        cost = None if price is None else price.cost(self.usage)
        spent = charge(reserved, self.usage, cost, self.charged)
        if nested is None:
            self.cost = spent.cost if reserved.calls else cost
            return spent
        self.usage = Usage(nested.input_tokens, nested.output_tokens, estimated=True)
        self.cost = total_cost([nested.cost, spent.cost if reserved.calls else 0.0])
        if self.cost is None and price is not None:
            self.cost = price.cost(self.usage)
        return spent

    def _bill_beside(self, nested: Spend) -> Spend:
        """Set the cost of a call whose worker started nested runs, which the ledger has counted already."""
        usage = self.usage if is_well_formed(self.usage) else _NOTHING
        answered = {id(ledger) for ledger in self.outer.answered}
        lost = [ledger for ledger in self.outer.ledgers if id(ledger) not in answered]
        if lost and self.completion is not None:
            # An agent continues after a tool that raised, and reports only its own turns.
            unreported = _sum(lost)
            usage += Usage(unreported.input_tokens, unreported.output_tokens)
            self.cost = None if self.cost is None else total_cost([self.cost, unreported.cost])
        price = self._unpriced if self.card.price is None else self.card.price.cost
        self.usage, self.cost, own = beside_nested(usage, self.cost, nested, price)
        return own

    def _unpriced(self, own: Usage) -> float | None:
        """Return the cost of a call without a price: 0 if the worker called no model, else unknown."""
        return 0.0 if self._uses_tokens and own == _NOTHING else None

    def _measured(self, usage: Usage, text: str, calls: Sequence[Part] = ()) -> Usage:
        """Return the reported usage, or an estimate if it is impossible."""
        if not self.reservation.amount.output_tokens and is_well_formed(usage):
            return usage
        return usage_or_estimate(usage, self.request.messages, text, calls, most=self._most)

    @property
    def _most(self) -> int:
        """Maximum tokens of the answer that the request allows; 0 without a maximum."""
        own = self.context.settings.pool.workers[self.worker].max_tokens
        return self.request.sampling.max_tokens or own or 0


def _sum(ledgers: Sequence[Ledger]) -> Spend:
    spends = [ledger.added for ledger in ledgers]
    read, written = sum(s.input_tokens for s in spends), sum(s.output_tokens for s in spends)
    return Spend(sum(s.calls for s in spends), read, written, total_cost(s.cost for s in spends))


def _end_after(error: PodiumError | None) -> ActionEnd:
    """Return how the action of a call ended, as far as its error shows."""
    match error:
        case None | WorkerBroken():
            return "unknown"
        case WorkerTimeout() | WorkerUnavailable():
            has_read = error.status is not None and error.status >= HTTPStatus.INTERNAL_SERVER_ERROR
            return "unknown" if error.maybe_paid or has_read else "not_done"
        case WorkerRefused() if not error.maybe_paid:
            return "not_done"
        case _ if isinstance(error.__cause__, TimeoutError | ConnectionError):  # of the user's own code
            return "unknown"
        case _:
            return "failed"


def _misfit(completion: Completion) -> str:
    """Return what is wrong with the completion of a user's worker; empty if it is valid."""
    text: object = completion.text
    calls: object = completion.tool_calls
    data: object = completion.data
    cost = completion.cost
    if not isinstance(text, str):
        return f"text is {type(text).__name__}: it must be text"
    if completion.finish_reason not in _REASONS:
        return f"finish_reason is {completion.finish_reason!r:.80}: it must be one of {', '.join(_REASONS)}"
    if not isinstance(calls, tuple) or not all(map(_is_call, calls)):
        return f"tool_calls are {calls!r:.80}: they must be a tuple of objects in OpenAI's form"
    if data is not None and not isinstance(data, Mapping):
        return f"data are {data!r:.80}: they must be a mapping of JSON data, or None"
    if cost is not None and not is_cost(cost):
        return f"cost is {cost!r:.80}: it must be a number of USD, 0 or more and below {MAX_COST:g}, or None"
    return ""


def _is_call(call: object) -> bool:
    return isinstance(call, Mapping)
