"""Runs one step: calls workers until one answers, and returns the step's outcome.

Implements retries, fallbacks and caching, within the run's limits, policy and slots.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Protocol

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from podium.budget.ledger import Reservation
from podium.errors import AnswerCut, LimitExceeded, PodiumError, WorkerFailed, WorkerTimeout
from podium.execution.attempt import Attempt
from podium.execution.context import OuterRun, RunContext
from podium.execution.fallback import FallbackOrder, RetriesExhausted
from podium.journal.cache import Cache, answer_key, asking, look_up, remember
from podium.prompts.prompt import step_input
from podium.run_state.actions import Execution, remedy
from podium.secrets import BUGS, Boundary, add_place
from podium.types.events import AttemptFailed, StepStarted
from podium.types.messages import Completion
from podium.types.outcome import Action, ActionEnd, Call, Outcome, Problem, StepStatus, shortfall, totals
from podium.types.plan import Step
from podium.workers.pool import CircuitBreaker, take
from podium.workers.worker import Caller, Request, VisibleStep


class Shares(Protocol):
    """Reserves calls, and caps their answers, so that they fit the limits of the run; see `Fit`."""

    def reserve(
        self, index: int, number: int, request: Request, *, is_repeated: bool = False
    ) -> tuple[Request, Reservation]:
        """Reserve a call, and return its request, with its cap, and its reservation."""
        ...

    def capped(self, index: int, number: int, request: Request, *, is_repeated: bool = False) -> Request:
        """Return the request of a call with its cap."""
        ...

    async def freed(self) -> bool:
        """Wait until a call that does not fit may fit; return whether the method waited."""
        ...


@dataclass(slots=True, eq=False)
class StepRunner:
    """Runs one step; the text so far can be read at any time."""

    context: RunContext
    round: int
    index: int
    """Index of the step in its plan, from 0."""
    step: Step
    visible: tuple[VisibleStep, ...]
    on_text: Callable[["StepRunner", str, int], None]
    """Called with this runner, each piece of text, and the number of its call."""
    fit: Shares
    number: int = 1
    """Number of the first call."""
    last: bool = False
    """Whether it is the plan's last step."""
    labels: frozenset[str] = frozenset()
    """The labels of all data that the worker sees."""
    before: Sequence[Call] = ()
    """Calls before the run was resumed. Their cost counts, but they do not count against `Retry.attempts`."""
    acts: bool = False
    """Whether the step is an action."""
    action: Action | None = None
    """What the action is asked to do; `None` for other steps, and for an input that is too long."""
    repeats: Problem | None = None
    """The problem of an agent that acted for an earlier plan, too; `None` if it did not."""
    offers_tools: bool = True
    """Whether the caller's tools are offered: their calls are actions, which need complete inputs."""
    has_started: bool = False
    """Whether the ledger has counted the start of the step."""
    bug: Exception | None = None
    """The exception of a bug in the user's code, which the run raises."""
    _made: list[Attempt] = field(default_factory=list)
    _execution: Execution | None = None
    """The latest call of the action in the log of actions."""
    _reused: Completion | None = None
    _cache_key: str = ""
    _order: FallbackOrder | None = None
    _cut: Attempt | None = None
    """The call whose answer was cut at its cap, and which was repeated with a higher cap."""
    _waits: str = "had no free slot"
    _deadline: float = inf

    async def run(self, deadline: float) -> Outcome:
        """Call workers until one answers, and return the step's outcome. A failure is an outcome, not raised.

        Args:
            deadline: time by which the step must end, on the event loop's clock, in seconds.
        """
        self._deadline = deadline
        try:
            self.context.policy.guard(self.context.settings.pool.cards[self.step.worker], self.labels)
            self.context.ledger.start_step()
            self.has_started = True
            await self._try()
        except (RetriesExhausted, LimitExceeded) as end:
            return self._failed(end)
        except PodiumError as error:
            return self._ended("failed", Problem.of(error))
        except BUGS as bug:
            who = self.context.settings.pool.names[self.step.worker]
            where = f"step {self.index} of round {self.round} (worker {who!r})"
            add_place(bug, self.context.request.run_id, where)
            self.bug = bug
            return self._ended("failed", Problem(WorkerFailed.code, f"{type(bug).__name__}: {bug}"))
        return self._ended("ok", None)

    def _failed(self, end: RetriesExhausted | LimitExceeded) -> Outcome:
        """Return the outcome of a step that gets no further call."""
        if isinstance(end, RetriesExhausted):
            problem = Problem.of(end.error)
            told = f"{problem.message}; {end.because}" if end.because else problem.message
            return self._ended("failed", replace(problem, message=told))
        problem = Problem.of(end)
        if self._made and (failed := self._made[-1].problem) is not None:  # the reason, at any limit
            problem = replace(failed, message=f"{failed.message}; no further call fits the limits: {end}")
        return self._ended("failed", problem)

    def timed_out(self) -> Outcome:
        """Return the outcome of a step that was stopped at its deadline."""
        context, ledger, worker = self.context, self.context.ledger, self.step.worker
        limit = f"{context.settings.limits.step_seconds:g} s (Limits.step_seconds)"
        out_of_time = context.clock() >= ledger.deadline
        if out_of_time:
            limit = f"the run's {ledger.limits.seconds:g} s (Limits.seconds)"
        did, latest = self._waits, self._latest
        if latest is not None and latest.is_open and not latest.is_sent:
            did = "was not called: the journal did not record the call"
        elif latest is not None and latest.is_open:
            worker, did = latest.worker, "did not answer"
            if not out_of_time:  # at the run's deadline, the call may have just started
                context.settings.pool.breaker(worker).ended(context.clock(), well=False, tried=False)
        message = f"worker {context.settings.pool.names[worker]!r} {did} within {limit}"
        return self._ended("failed", Problem(WorkerTimeout.code, message))

    def stopped(self, problem: Problem) -> Outcome:
        """Return the outcome of a step that was cancelled."""
        return self._ended("cancelled", problem)

    def left(self, problem: Problem) -> None:
        """Emit `AttemptFailed` for a call that the host left; the host runs the step again later."""
        if (latest := self._latest) is not None and latest.left is not None:
            latest.problem = problem
            self._tell_failed(latest, None)

    @property
    def written(self) -> str:
        """The text that the latest call has sent so far."""
        return "" if self._latest is None else "".join(self._latest.pieces)

    @property
    def current(self) -> int:
        """Number of the latest call."""
        return self.number if self._latest is None else self._latest.number

    @property
    def is_calling(self) -> bool:
        """Whether a call is running, or has given the answer."""
        return self._latest is not None and self._latest.problem is None

    @property
    def has_called(self) -> bool:
        """Whether a call was made."""
        return bool(self._made)

    @property
    def next_worker(self) -> int:
        """The number of the worker that is called next."""
        return self.step.worker if self._order is None else self._order.next

    @property
    def following(self) -> int:
        """Number of the next call."""
        return self.number + len(self.before) + len(self._made)

    @property
    def _latest(self) -> Attempt | None:
        return self._made[-1] if self._made else None

    async def _try(self) -> None:
        number, deadline = self.step.worker, self._deadline
        while True:
            attempt = await self._ask(number)
            if attempt is not None and attempt.bug is not None:
                raise attempt.bug
            if self._reused is not None:
                return
            if attempt is not None and attempt.completion is not None:
                if not self._may_repeat(attempt):
                    return
                self._repeat(attempt)
                continue
            order = self._fallback_order()
            if attempt is not None:
                wait = order.after(attempt, self._made, deadline)
                self._tell_failed(attempt, wait)
                if wait:
                    await anyio.sleep(wait)
            self._waits = "was not called because of its earlier failures, and stayed unavailable"
            number = await order.choose(deadline)
            self._waits = "had no free slot"

    def _may_repeat(self, attempt: Attempt) -> bool:
        """Return whether an answer was cut at its cap, for the first time, and the cap may be higher."""
        if self._cut is not None or not attempt.is_cut or self.acts:
            return False
        given = self._request(attempt.worker, inf)
        try:
            longer = self.fit.capped(self.index, attempt.worker, given, is_repeated=True)
        except LimitExceeded:
            return False
        return (longer.sampling.max_tokens or inf) > (attempt.request.sampling.max_tokens or inf)

    def _repeat(self, attempt: Attempt) -> None:
        """Repeat a call whose answer was cut at its cap."""
        self._cut = attempt
        told = f"the answer was cut at {attempt.request.sampling.max_tokens} tokens, the share of its step"
        attempt.problem = Problem(
            AnswerCut.code, f"{told} of the limits; it is repeated with all that is left"
        )
        self._tell_failed(attempt, 0.0)

    def _fallback_order(self) -> FallbackOrder:
        """Return the order of fallbacks, which is created when a call has failed."""
        if self._order is None:
            self._order = FallbackOrder(self.context, self.round, self.index, self.step.worker, self.labels)
        return self._order

    def _ask(self, number: int) -> Awaitable[Attempt | None]:
        """Reuse a cached answer, or call the worker; `None` means that no worker was called."""
        cache = self.context.cache
        if cache is None or (key := self._key(number)) is None:
            return self._in_slot(number)
        return self._look_or_call(number, cache, key)

    async def _look_or_call(self, number: int, cache: Cache, key: str) -> Attempt | None:
        async with asking(cache, key):
            self._reused = await look_up(cache, key)
            if self._reused is not None:
                self._cache_key = key
                return None
            attempt = await self._in_slot(number)
            if attempt is not None and attempt.completion is not None:
                await remember(cache, key, attempt.completion)
            return attempt

    async def _in_slot(self, number: int) -> Attempt | None:
        """Call a worker in one of its slots; return `None` if its circuit breaker is open."""
        context, retry = self.context, self.context.settings.retry
        held: list[anyio.Semaphore] = []
        breaker, slot = context.settings.pool.breaker(number), context.settings.pool.slot(number)
        try:
            if slot is not None:
                held = await take(slot)
                await checkpoint_if_cancelled()  # a slot can become free at the moment of a cancellation
            if breaker.failures and breaker.rest(context.clock(), retry.break_after, retry.break_seconds):
                return None
            attempt = await self._begin_once_it_fits(number, breaker)
            await attempt.run(lambda text: self.on_text(self, text, attempt.number))
            return attempt
        finally:
            for taken in held:
                taken.release()

    async def _begin_once_it_fits(self, number: int, breaker: CircuitBreaker) -> Attempt:
        """Begin a call as soon as it fits the limits: calls that end may free part of their reservations.

        Raises:
            LimitExceeded: the call does not fit the limits, and no other call is running.
        """
        while True:
            try:
                return self._begin(number, breaker)
            except LimitExceeded as error:
                self._waits = "did not fit the limits of the run"
                if error.limit == "calls" or not await self.fit.freed():
                    raise

    def _begin(self, number: int, breaker: CircuitBreaker) -> Attempt:
        """Reserve the maximum that a call may spend, and emit `StepStarted`.

        Raises:
            LimitExceeded: the call does not fit the limits.
        """
        context, worker, deadline = self.context, self.context.settings.pool.workers[number], self._deadline
        began = context.clock()
        until = began + context.settings.limits.attempt_seconds
        with Boundary(f"worker {worker.card.name!r}", WorkerFailed):
            given = self._request(number, min(until, deadline))
            is_repeated = self._latest is not None and (self._latest.is_cut or self._latest.reached_cap)
            request, reservation = self.fit.reserve(self.index, number, given, is_repeated=is_repeated)
        attempt = Attempt(
            context=context,
            worker=number,
            card=worker.card,
            number=self.following,
            request=request,
            reservation=reservation,
            has_cap=request is not given,
            breaker=breaker,
            tries=breaker.called(context.settings.retry.break_after),
            began=began,
            until=until if until < deadline else None,
        )
        self._begin_action(attempt)
        for earlier in self._made:  # the new call asks for the same actions again
            context.actions.forget(earlier.actions)
        self._made.append(attempt)
        if context.emit is not None:
            context.tell(
                StepStarted,
                round=self.round,
                step=self.index,
                attempt=attempt.number,
                worker=worker.card.name,
                subtask=self.step.subtask,
                reserved=reservation.amount,
                action="" if self.action is None else self.action.key,
                asked="" if self.action is None else self.action.asked,
                nests=self.action is not None and attempt.nests,
            )
        return attempt

    def _begin_action(self, attempt: Attempt) -> None:
        """Add the action to the log before its worker is called."""
        if self.action is not None:
            action = replace(self.action, worker=attempt.card.name)
            log = self.context.actions
            path, levels = log.path(self.action.worker), log.levels(self.round, self.index)
            self._execution = Execution(action, path=path, levels=levels, is_nested_run=attempt.nests)
            log.begin(self._execution)

    def _request(self, number: int, deadline: float) -> Request:
        context, asked = self.context, self.context.request
        query = context.request.query if context.shows_question else ()
        worker, most_chars = context.settings.pool.workers[number], context.settings.limits.output_chars
        texts = asked.context
        shown = step_input(worker, self.step, self.visible, query, most_chars=most_chars, texts=texts)
        caller = Caller(
            run_id=context.request.run_id,
            round=self.round,
            step=self.index,
            attempt=self.following,
            worker=context.settings.pool.names[number],
            labels=self.labels,
            outer=OuterRun(context),
        )
        read = replace(shown, texts=()) if worker.takes_texts else shown
        card = context.settings.pool.cards[number]
        messages = context.messages(self.step, read, card)
        request = Request(
            messages=messages, step_input=shown, deadline=deadline, stream=asked.stream, caller=caller
        )
        if not self.last or not context.last_step_differs:
            return request
        tool_messages = context.tool_messages(self.step, card)
        return replace(
            request,
            messages=messages + tool_messages,
            tool_messages=tool_messages,
            tools=asked.tools if worker.takes_tools and (self.offers_tools or asked.tool_messages) else None,
            sampling=asked.sampling,
        )

    def _key(self, number: int) -> str | None:
        """Return the cache key of a worker's answer; `None` if the answer must not be reused.

        Limits of the answer's length are not in the key, because answers that were cut are not cached.
        """
        has_tools = self.last and self.context.request.tools is not None
        if self.context.cache is None or has_tools or self.acts:
            return None
        with Boundary(f"worker {self.context.settings.pool.names[number]!r}", WorkerFailed):
            identity = self.context.settings.pool.workers[number].identity
        if identity is None:
            return None
        request = self._request(number, inf)
        return answer_key(identity, request.messages, request.sampling)

    def _tell_failed(self, attempt: Attempt, wait: float | None) -> None:
        if self._execution is not None:  # only calls that did not reach the worker are repeated
            self._execution.decide(done=False)
        ids = {"round": self.round, "step": self.index, "attempt": attempt.number}
        self.context.tell(AttemptFailed, **ids, call=attempt.call(), wait=wait)

    def _ended(self, status: StepStatus, problem: Problem | None) -> Outcome:
        whole, latest = self._reused, self._latest
        if latest is not None and latest.problem is None:
            if latest.completion is None:  # it was stopped
                latest.problem = problem
            else:
                whole = latest.completion
        if whole is None and self._cut is not None:  # the repeated call gave no answer
            whole = self._cut.completion
        if whole is not None:  # paid for, even if its worker failed during its cleanup
            status, problem = "ok", shortfall(whole) or self.repeats
        calls = (*self.before, *(attempt.call() for attempt in self._made))
        now = self.context.now()
        started = now if self._reused is not None else None
        if self._made:
            started = self._made[0].began - self.context.began
        action: ActionEnd | None = None
        if self.acts:
            action = "not_done" if latest is None else latest.action_end
        if action == "unknown" and problem is not None and self.action is not None:
            told = f"{problem.message}; it is not known whether the action was carried out"
            problem = replace(problem, message=f"{told}: {remedy(self.action)}")
        outcome = Outcome(
            round=self.round,
            step=self.index,
            worker=self.context.settings.pool.names[self.step.worker] if latest is None else latest.card.name,
            status=status,
            text=whole.text if whole is not None else "" if latest is None else "".join(latest.pieces),
            problem=problem,
            finish_reason=None if whole is None else whole.finish_reason,
            tool_calls=() if whole is None else whole.tool_calls,
            **totals(calls),
            attempts=0 if latest is None else latest.number,
            calls=calls if self.before or len(calls) > 1 else (),
            reused=self._reused is not None,
            cache_key=self._cache_key,
            action=action,
            started=started,
            ended=None if started is None else now,
        )
        if self._execution is not None:
            self._execution.end(outcome)
        return outcome
