"""Runs one step: calls workers until one answers, with retries, fallbacks and the cache of answers."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from math import inf, isinf

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from podium.errors import (
    AnswerCut,
    LimitExceeded,
    PodiumError,
    WorkerError,
    WorkerFailed,
    WorkerTimeout,
    WorkerUnavailable,
)
from podium.execution.attempt import Attempt
from podium.execution.context import OuterRun, RunContext
from podium.execution.fit import Fit, higher_limits
from podium.execution.node import StepNode
from podium.execution.retry import UNUSABLE
from podium.execution.slots import Slots
from podium.journal.cache import answer_key, asking, look_up, remember
from podium.prompts.output import BadOutput, constraint_of, is_asked, read_output
from podium.prompts.prompt import fill
from podium.run_state.actions import UNSURE, Execution
from podium.secrets import BUGS, Boundary, add_place
from podium.types.events import AttemptFailed, StepStarted
from podium.types.messages import Completion, Constraint, Part, Sampling
from podium.types.outcome import ActionEnd, Call, Outcome, Problem, StepStatus, shortfall, totals
from podium.workers.pool import CircuitBreaker
from podium.workers.worker import Caller, Request


@dataclass(slots=True, eq=False)
class StepRunner:
    """Runs one step; the text so far can be read at any time."""

    context: RunContext
    fit: Fit
    round: int
    state: StepNode
    on_text: Callable[[StepNode, str, int], None]  # with the step, a piece of text, the number of its call
    slots: Slots | None = None  # of the run; the time limit of the step begins with the first
    last: bool = False
    before: Sequence[Call] = ()  # before the run was resumed; their cost counts, not their number
    paid: tuple[Outcome, int] | None = None  # its recorded outcome and cap, if its answer may be longer now
    repeats: Problem | None = None  # of an agent that acted for an earlier plan, too
    offers_tools: bool = False  # whether the caller's tools are offered, whose calls need complete inputs
    bug: Exception | None = None  # of the user's code
    _execution: Execution | None = None  # the latest call of the action in the log of actions
    _reused: Completion | None = None
    _cache_key: str = ""
    _has_fallbacks: bool = False
    _cut: tuple[Completion, Problem | None] | None = None  # the answer that is repeated, and its problem
    _typed: Completion | None = None  # the latest answer with an output that fits its type
    _fault: str = ""  # why the latest answer has none
    _is_corrected: bool = False  # whether a worker was asked again for one
    _waits: str = "had no free slot"
    _has_time: bool = False
    _deadline: float = inf

    async def run(self, deadline: float) -> Outcome:
        """Call workers until one answers, and return the step's outcome, also after a failure."""
        self._deadline = deadline
        try:
            if self.paid is not None:
                cut, cap = self.paid
                if not self._may_be_longer(self.state.call.worker, cap):
                    return cut
                self._cut = Completion(cut.text, "length", tool_calls=cut.tool_calls), cut.problem
            card = self.context.settings.pool.cards[self.state.call.worker]
            self.context.policy.guard(card, self.state.labels)
            problem = await self._try()
        except LimitExceeded as end:
            problem = Problem.of(end)
            failed = None if self._latest is None else self._latest.problem
            if failed is not None:  # the reason, at any limit
                problem = replace(failed, message=f"{failed.message}; no further call fits the limits: {end}")
        except PodiumError as error:
            problem = Problem.of(error)
        except BUGS as bug:
            who = self.context.settings.pool.names[self.state.call.worker]
            where = f"step {self.state.name} of round {self.round} (worker {who!r})"
            add_place(bug, self.context.request.run_id, where)
            self.bug = bug
            problem = Problem(WorkerFailed.code, f"{type(bug).__name__}: {bug}")
        return self.ended("ok" if problem is None else "failed", problem)

    def timed_out(self) -> Outcome:
        """Return the outcome of a step that was stopped at its deadline."""
        context, ledger, worker = self.context, self.context.ledger, self.state.call.worker
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
                context.settings.pool.states[worker].breaker.ended(context.clock(), well=False, tried=False)
        message = f"worker {context.settings.pool.names[worker]!r} {did} within {limit}"
        return self.ended("failed", Problem(WorkerTimeout.code, message))

    def left(self, problem: Problem) -> None:
        """Emit `AttemptFailed` for a call that the host left; the host runs the step again later."""
        if (latest := self._latest) is not None and latest.left is not None:
            latest.problem = problem
            self._tell_failed(latest, None)

    @property
    def _latest(self) -> Attempt | None:
        return self.state.calls[-1] if self.state.calls else None

    async def _try(self) -> Problem | None:
        """Call workers until one answers; return why no further call is made, or `None`."""
        number = self.state.call.worker
        while True:
            attempt = await self._ask(number)
            if attempt is not None and attempt.bug is not None:
                raise attempt.bug
            if self._reused is not None:
                return None
            if attempt is not None and attempt.completion is not None:
                again = self._repeats(attempt) if attempt.problem is None else self._corrects(attempt)
                if not again:
                    return attempt.problem
                continue
            if attempt is not None:
                wait = self._wait_after(attempt)
                if isinstance(wait, Problem):
                    return wait
                self._tell_failed(attempt, wait)
                if wait:
                    await anyio.sleep(wait)
            self._waits = "was not called because of its earlier failures, and stayed unavailable"
            number = await self._choose()
            self._waits = "had no free slot"

    def _rest(self, number: int) -> float:
        """Return the seconds until a worker may be called; infinite while another step makes a test call."""
        retry, breaker = self.context.settings.retry, self.context.settings.pool.states[number].breaker
        return breaker.rest(self.context.clock(), retry.break_after, retry.break_seconds)

    async def _choose(self) -> int:
        """Wait until a circuit breaker allows a call, and return its worker."""
        clock, pool, until, deadline = self.context.clock, self.context.settings.pool, inf, self._deadline
        while rest := self._rest(self.state.workers[0]):
            rested = [number for number in self._listed() if not self._rest(number)]
            if rested:
                self.state.workers.remove(rested[0])
                self.state.workers.insert(0, rested[0])
                break
            soonest = min(self.state.workers, key=self._rest)
            rest, breaker = self._rest(soonest), pool.states[soonest].breaker
            failed = f"worker {pool.names[soonest]!r} failed {breaker.failures} times in a row"
            failed += " (no connection to its server)" if breaker.is_down else ""
            until = min(until, clock() + self.context.settings.retry.max_wait)
            if isinf(rest):
                with anyio.CancelScope(deadline=min(until, deadline)) as scope:
                    await breaker.tried()
                if scope.cancelled_caught:
                    raise WorkerUnavailable(f"{failed} and another call tests whether it works again")
            elif breaker.is_down or clock() + rest > min(until, deadline):
                told = f"gets no calls for another {rest:.3g} s (Retry.break_seconds)"
                raise WorkerUnavailable(f"{failed} and {told}")
            else:
                await anyio.sleep(rest)
        return self.state.workers[0]

    def _wait_after(self, attempt: Attempt) -> float | Problem:
        """Return the seconds to wait after a failed call before the next call, or why there is none."""
        context, error, number = self.context, attempt.error, attempt.worker
        retry, left = context.settings.retry, context.settings.retry.attempts - len(self.state.calls)
        assert error is not None
        problem = Problem.of(error)
        codes = retry.retry_on | retry.fallback_on
        if not isinstance(error, WorkerError) or error.code not in codes or left < 1:
            return problem
        if context.settings.acts(self.state.call.worker) and attempt.action_end != "not_done":
            because = "the call may have reached the worker, and actions are not repeated"
            return replace(problem, message=f"{problem.message}; {because}")
        if error.code in UNUSABLE and (best := self._next_best()):
            others = [other for other in self._listed() if other not in (number, *best)]
            self.state.workers = [*best, *others, *({number} - {*best})]
            return 0.0
        others = [other for other in self._listed() if other != number]
        ready = [other for other in others if not self._rest(other)]
        failures = sum(call.worker == number for call in self.state.calls)
        seed = f"{context.request.run_id}/{self.round}/{self.state.index}/{attempt.number}"
        wait, because = retry.wait_after(error, failures, seed, self._deadline - context.clock())
        resting = self._rest(number)
        if resting and context.settings.pool.states[number].breaker.is_down:
            wait, because = inf, f"it gets no calls for another {resting:.3g} s (Retry.break_seconds)"
        if not isinf(wait) and left > len(ready) and not (ready and resting):
            self.state.workers = [number, *others]
            return max(wait, resting)
        if not others:
            return replace(problem, message=f"{problem.message}; {because}") if because else problem
        back = [number] if error.code in retry.retry_on else []
        self.state.workers = [*others, *back]
        return 0.0

    def _next_best(self) -> list[int]:
        """Return the worker to call after an unusable answer, if `Retry.next_best` has one."""
        settings, called = self.context.settings, [call.worker for call in self.state.calls]
        found = settings.retry.next_after(self.state.call.worker, called, settings.pool)
        return [each for each in found if self._admits(each) and not self._rest(each)][:1]

    def _admits(self, number: int) -> bool:
        return self.context.policy.admits(self.context.settings.pool.cards[number], self.state.labels)

    def _listed(self) -> list[int]:
        """Return the workers that may be called, including fallbacks."""
        if not self._has_fallbacks:
            self._has_fallbacks = True
            retry, pool = self.context.settings.retry, self.context.settings.pool
            listed = retry.fallbacks_of(self.state.call.worker, pool)
            self.state.workers += [number for number in listed if self._admits(number)]
        return self.state.workers

    def _repeats(self, attempt: Attempt) -> bool:
        """Return whether a call is repeated, because its answer was cut at a cap that may be higher now."""
        cut, cap = attempt.completion, attempt.cut_at
        if cut is None or cap is None or self._cut is not None or self.state.acts:
            return False
        if not self._may_be_longer(attempt.worker, cap):
            return False
        self._cut = cut, self._shortfall(cut)
        told = f"the answer was cut at {cap} tokens, the share of its step of the limits"
        attempt.problem = Problem(AnswerCut.code, f"{told}; it is repeated with all that is left")
        self._tell_failed(attempt, 0.0)
        return True

    def _corrects(self, attempt: Attempt) -> bool:
        """Return whether a worker is asked again, once, because its output does not fit its type."""
        worker = self.context.settings.pool.workers[attempt.worker]
        if self._is_corrected or self.state.acts or not is_asked(worker, self.state.call):
            return False
        self._is_corrected = True
        self._tell_failed(attempt, 0.0)
        return True

    async def _read(self, number: int, whole: Completion) -> Completion | None:
        """Return an answer with its typed output as its text; `None` if it has no output that fits."""
        schema = self.state.call.returns
        if schema is None or whole.tool_calls:
            self._typed = whole
            return whole
        try:
            text = await read_output(whole.text, schema, self._constraint(number))
        except BadOutput as error:
            self._fault = str(error)
            return None
        self._typed = replace(whole, text=text)
        return self._typed

    async def _use(self, attempt: Attempt) -> bool:
        """Read the output of a call, and return whether its answer can be used."""
        if (whole := attempt.completion) is None:
            return False
        if (read := await self._read(attempt.worker, whole)) is not None:
            attempt.completion = read
            return True
        attempt.problem = Problem("bad_output", f"the answer of worker {attempt.card.name!r} {self._fault}")
        return False

    def _constraint(self, number: int) -> Constraint | None:
        """Return the form that the caller asks for, or else the type of the step's output."""
        asked, step = self.context.request.sampling.constraint if self.last else None, self.state.call
        if asked is not None or step.returns is None:
            return asked
        return constraint_of(self.context.settings.pool.workers[number], step)

    def _may_be_longer(self, number: int, cap: int) -> bool:
        """Return whether the limits allow another call with an answer of more than `cap` tokens."""
        try:
            given = self._request(number, inf)
            longer = self.fit.capped(self.state, number, given, is_repeated=True).sampling.max_tokens
        except LimitExceeded:
            return False
        return (longer or self.context.settings.pool.workers[number].max_tokens or inf) > cap

    async def _ask(self, number: int) -> Attempt | None:
        """Reuse a cached answer, or call the worker; `None` means that no worker was called."""
        cache, key = self.context.cache, self._key(number)
        if cache is None or key is None:
            attempt = await self._in_slot(number)
            if attempt is not None:
                await self._use(attempt)
            return attempt
        async with asking(cache, key):
            known = await look_up(cache, key)
            if known is not None and (read := await self._read(number, known)) is not None:
                self._reused, self._cache_key = read, key
                return None
            attempt = await self._in_slot(number)
            answer = None if attempt is None else attempt.completion
            if attempt is not None and await self._use(attempt) and answer is not None:
                await remember(cache, key, answer)
            return attempt

    async def _in_slot(self, number: int) -> Attempt | None:
        """Call a worker in one of its slots; return `None` if its circuit breaker is open."""
        context, pool, slots = self.context, self.context.settings.pool, self.slots
        called, warms = pool.states[number], context.settings.warm_prefix and pool.workers[number].uses_tokens
        prefix = self.state.prefix if warms else None
        if prefix is not None:
            self._waits = "had no free slot, or waited for another call with its prefix (warm_prefix),"
        while True:
            async with (
                nullcontext() if slots is None else slots.slot(number, self.state.order, prefix) as begun,
                nullcontext() if called.slot is None else called.slot,
            ):
                await checkpoint_if_cancelled()  # a slot can become free at the moment of a cancellation
                if slots is not None and not self._has_time:
                    self._begin_time()
                try:
                    await context.ledger.allow()
                    if called.breaker.failures and self._rest(number):
                        return None
                    attempt = self._begin(number, called.breaker)
                except LimitExceeded as error:
                    refused = error
                else:
                    await attempt.run(partial(self.on_text, self.state), begun)
                    return attempt
            self._waits = "did not fit the limits of the run"
            if not await self.fit.freed(refused):  # calls that end may free part of their reservations
                raise refused

    def _begin_time(self) -> None:
        """Begin the time limit of the step: waiting for a slot of the run does not count."""
        self._has_time, limit = True, self.context.clock() + self.context.settings.limits.step_seconds
        self._deadline = min(self._deadline, limit)
        if self.state.scope is not None:
            self.state.scope.deadline = self._deadline

    def _begin(self, number: int, breaker: CircuitBreaker) -> Attempt:
        """Reserve the maximum that a call may spend, and emit `StepStarted`."""
        context, state, deadline, latest = self.context, self.state, self._deadline, self._latest
        card, action, began = context.settings.pool.cards[number], state.action, context.clock()
        until, outer = began + context.settings.limits.attempt_seconds, OuterRun(context)
        with Boundary(f"worker {card.name!r}", WorkerFailed):
            given = self._request(number, min(until, deadline), outer)
            is_repeated = self._cut is not None or (latest is not None and latest.reached_cap)
            request, reservation = self.fit.reserve(state, number, given, is_repeated=is_repeated)
        outer.reservation = reservation
        attempt = Attempt(
            context=context,
            worker=number,
            card=card,
            number=state.following,
            outer=outer,
            request=request,
            reservation=reservation,
            has_cap=request is not given,
            breaker=breaker,
            tries=breaker.called(context.settings.retry.break_after),
            began=began,
            until=until if until < deadline else None,
        )
        state.following += 1
        log = context.actions
        if action is not None:  # it is in the log before its worker is called
            path, levels = log.path(card.name), log.levels(self.round, state.index, state.path)
            begun = replace(action, worker=card.name)
            self._execution = Execution(begun, path=path, levels=levels, is_nested_run=attempt.nests)
            log.begin(self._execution)
        for earlier in state.calls:  # the new call asks for the same actions again
            log.forget(earlier.outer.actions)
        state.calls.append(attempt)
        if context.emit is not None:
            ids = {"round": self.round, "step": state.index, "attempt": attempt.number, "path": state.path}
            facts = {"worker": card.name, "subtask": state.call.subtask, "reserved": reservation.amount}
            acts = None if action is None else {"action": action.key, "asked": action.asked}
            context.tell(StepStarted, **ids, **facts, **(acts or {}), nests=bool(acts) and attempt.nests)
        return attempt

    def _request(self, number: int, deadline: float, outer: OuterRun | None = None) -> Request:
        context, state, asked = self.context, self.state, self.context.request
        worker, card = context.settings.pool.workers[number], context.settings.pool.cards[number]
        shown, step = context.input_of(worker, state.call, state.visible or (), state.template), state.call
        if self._is_corrected and outer is not None:
            shown = replace(shown, subtask=fill("misfit", subtask=shown.subtask, fault=self._fault))
        caller = Caller(
            run_id=asked.run_id,
            round=self.round,
            step=state.index,
            attempt=state.following,
            path=state.path,
            worker=card.name,
            labels=state.labels,
            outer=outer,
        )
        read = replace(shown, texts=()) if worker.takes_texts else shown
        messages = context.messages(step, read, card)
        constraint = self._constraint(number)
        tool_messages = context.tool_messages(step, card, state.said, last=self.last)
        may_call = self.offers_tools or tool_messages
        return Request(
            messages=messages + tool_messages,
            step_input=shown,
            sampling=replace(asked.sampling if self.last else Sampling(), constraint=constraint),
            deadline=deadline,
            stream=asked.stream and step.returns is None,  # an answer that does not fit is not sent
            tools=context.offered(step, number, last=self.last) if may_call else None,
            tool_messages=tool_messages,
            caller=caller,
        )

    def _key(self, number: int) -> str | None:
        """Return the cache key of a worker's answer; `None` if the answer must not be reused."""
        if self.context.cache is None or self.state.acts:
            return None
        with Boundary(f"worker {self.context.settings.pool.names[number]!r}", WorkerFailed):
            identity = self.context.settings.pool.workers[number].identity
        if identity is None:
            return None
        request = self._request(number, inf)
        if request.tools is not None or request.tool_messages:
            return None
        return answer_key(identity, request.messages, request.sampling)

    def _tell_failed(self, attempt: Attempt, wait: float | None) -> None:
        if self._execution is not None:  # only calls that did not reach the worker are repeated
            self._execution.decide(done=False)
        ids = {"round": self.round, "step": self.state.index, "attempt": attempt.number}
        self.context.tell(AttemptFailed, **ids, call=attempt.call(), wait=wait)

    def _shortfall(self, whole: Completion) -> Problem | None:
        """Return the problem of an answer that is incomplete: its worker cut it, or the limits of the run."""
        latest, limits = self._latest, self.context.settings.limits
        cap = None if latest is None or latest.completion is not whole else latest.cut_at
        if cap is None or whole.missing is not None:
            return shortfall(whole) or self.repeats
        told = f"the text was cut at {cap} tokens"
        if cap < limits.answer_tokens:
            told += ", the share of its step in what the run had left"
        return Problem("cut", f"{told}: run it again with a higher {higher_limits(self.context, cap)}")

    def _calls(self, made: Sequence[Part]) -> tuple[Part, ...]:
        """Return the calls of the caller's tools in an answer."""
        nests, place = self._latest is not None and self._latest.nests, (self.round, self.state.index)
        return self.context.named_calls(self.state.call, made, (*place, self.state.following), nests=nests)

    def ended(self, status: StepStatus, problem: Problem | None) -> Outcome:
        """Return the outcome of the step, which has ended."""
        state, made, before = self.state, self.state.calls, self.before
        whole, latest, names = self._reused, self._latest, self.context.settings.pool.names
        if latest is not None and latest.problem is None:
            is_read = self.state.call.returns is None or latest.completion is self._typed
            if latest.completion is None or not is_read:  # it was stopped
                latest.problem = problem
            else:
                whole = latest.completion
        if whole is not None:  # paid for, even if its worker failed during its cleanup
            status, problem = "ok", self._shortfall(whole)
        elif self._cut is not None:  # the repeated call gave no answer
            status, (whole, problem) = "ok", self._cut
        now = self.context.now()
        started = now if self._reused is not None else None
        if made:
            started = made[0].began - self.context.began
        tool_calls = () if whole is None else self._calls(whole.tool_calls)
        ending: ActionEnd = "not_done" if latest is None or tool_calls else latest.action_end
        action = ending if state.acts else None
        if action == "unknown" and problem is not None and state.action is not None:
            problem = replace(problem, message=f"{problem.message}; {UNSURE} the action was carried out")
        calls = (*before, *(attempt.call() for attempt in made))
        outcome = Outcome(
            round=self.round,
            step=state.index,
            worker=names[state.call.worker] if latest is None else latest.card.name,
            status=status,
            text=whole.text if whole is not None else state.text,
            problem=problem,
            finish_reason=None if whole is None else whole.finish_reason,
            tool_calls=tool_calls,
            said=state.said,
            data=None if whole is None else whole.data,
            **totals(calls),
            attempts=0 if latest is None else latest.number,
            calls=calls if before or len(calls) > 1 else (),
            reused=self._reused is not None,
            cache_key=self._cache_key,
            action=action,
            started=started,
            ended=None if started is None else now,
        )
        if self._execution is not None:
            self._execution.end(outcome)
        return outcome
