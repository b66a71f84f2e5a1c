"""The calls of one step until one of them answers, and the outcome they come to.

The only place that calls a worker twice. `turns` says who is next; here they are called,
within the run's ledger, its policy and its slots, and answers are looked up in the cache.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from math import inf

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from podium.attempt import Attempt
from podium.boundary import Boundary
from podium.cache import Cache, answer_key, asking, look_up, remember
from podium.errors import LimitExceeded, PodiumError, WorkerFailed, WorkerTimeout
from podium.events import AttemptFailed, StepStarted
from podium.hedging import Race
from podium.messages import Completion
from podium.outcome import Call, Outcome, Problem, StepStatus, total_cost
from podium.plan import Step
from podium.prompt import worker_messages
from podium.retry import Hedge
from podium.setting import Setting
from podium.turns import GivenUp, Turns
from podium.usage import Usage
from podium.workers.bounds import bounded
from podium.workers.cooling import Cooling
from podium.workers.pool import take
from podium.workers.worker import Brief, Caller, Request, Shown


@dataclass(slots=True, eq=False)
class Trying:
    """A step being tried; what it wrote so far can be read at any time."""

    setting: Setting
    round: int
    index: int
    """Index of the step in its plan, from 0."""
    step: Step
    visible: tuple[Shown, ...]
    on_text: Callable[["Trying", str, int], None]
    """Takes this, each piece that is written, and the number of the call that wrote it."""
    number: int = 1
    """Number of the first call."""
    last: bool = False
    """Whether it is the plan's last step, which may use what the ledger keeps for it."""
    labels: frozenset[str] = frozenset()
    """Those of all that is shown."""
    before: Sequence[Call] = ()
    """Calls made before the run was resumed: they are billed, and do not count against `Retry.attempts`."""
    _made: list[Attempt] = field(default_factory=list)
    _heard: Attempt | None = None
    """Whose pieces are sent on; `None` while two calls run, whose pieces are held back."""
    _reused: Completion | None = None
    _next: Turns | None = None
    _waits: str = "had no free slot"
    _scope: anyio.CancelScope | None = None
    _deadline: float = inf

    async def run(self, deadline: float, scope: anyio.CancelScope | None = None) -> Outcome:
        """Call workers until one answers and return the step's outcome; it fails by outcome.

        Args:
            deadline: when the step must have ended, on the event loop's clock, in seconds.
            scope: what the step runs in, to which the deadline is given before the first wait that
                is not bounded by less; `None` where whoever calls stops it in time.
        """
        self._scope, self._deadline = scope, deadline
        try:
            self.setting.policy.guard(self.setting.pool.cards[self.step.worker], self.labels)
            self.setting.ledger.start_step(last=self.last)
            await self._try()
        except GivenUp as end:
            problem = Problem.of(end.error)
            told = f"{problem.message}; {end.because}" if end.because else problem.message
            return self._ended("failed", replace(problem, message=told))
        except LimitExceeded as error:
            told = str(error)
            if self._made and self._made[-1].problem is not None:
                told = f"{told}; the call before it failed: {self._made[-1].problem.message}"
            return self._ended("failed", Problem(error.code, told))
        except PodiumError as error:
            return self._ended("failed", Problem.of(error))
        return self._ended("ok", None)

    def timed_out(self) -> Outcome:
        """Return the outcome of a step that was stopped at its deadline."""
        setting, ledger, worker = self.setting, self.setting.ledger, self.step.worker
        limit = f"{setting.limits.step_seconds:g} s (Limits.step_seconds)"
        out_of_time = setting.clock() >= ledger.deadline
        if out_of_time:
            limit = f"the run's {ledger.limits.seconds:g} s (Limits.seconds)"
        did = self._waits
        running = next((attempt for attempt in self._made if attempt.is_open), None)
        if running is not None:
            worker, did = running.worker, "did not answer"
            if not out_of_time:  # else it may have had no time at all
                setting.pool.cooling(worker).ended(setting.clock(), well=False, tried=False)
        message = f"worker {setting.pool.names[worker]!r} {did} within {limit}"
        return self._ended("failed", Problem(WorkerTimeout.code, message))

    def stopped(self, problem: Problem) -> Outcome:
        """Return the outcome of a step that was cancelled."""
        return self._ended("cancelled", problem)

    @property
    def written(self) -> str:
        """What was sent on so far of the call that is heard."""
        return "" if self._heard is None else "".join(self._heard.pieces)

    @property
    def current(self) -> int:
        """Number of the call that is heard."""
        return self.number if self._heard is None else self._heard.number

    @property
    def following(self) -> int:
        """Number of the call after all that were made."""
        return self.number + len(self.before) + len(self._made)

    def _bound(self) -> None:
        """Have the step stopped at its deadline from here on.

        Most steps never need that: they are one call, which has less time, and a timer is dear.
        """
        if self._scope is not None and self._scope.deadline > self._deadline:
            self._scope.deadline = self._deadline

    async def _try(self) -> None:
        number, deadline = self.step.worker, self._deadline
        while True:
            attempt = await self._ask(number)
            if self._reused is not None or (attempt is not None and attempt.completion is not None):
                return
            self._bound()
            turns = self._turns()
            if attempt is not None:
                wait = turns.after(attempt, self._made, deadline)
                self._tell_failed(attempt, wait)
                if wait:
                    await anyio.sleep(wait)
            self._waits = "was left out after failures, and not asked"
            number = await turns.choose(deadline)
            self._waits = "had no free slot"

    def _turns(self) -> Turns:
        """Return who is next; most steps end with their first call, and never ask."""
        if self._next is None:
            self._next = Turns(self.setting, self.round, self.index, self.step.worker, self.labels)
        return self._next

    def _ask(self, number: int) -> Awaitable[Attempt | None]:
        """Look for an answer to use again; without one, call. `None` means that nobody was called."""
        cache = self.setting.cache
        if cache is None or (key := self._key(number)) is None:
            return self._in_slot(number)
        return self._look_or_call(number, cache, key)

    async def _look_or_call(self, number: int, cache: Cache, key: str) -> Attempt | None:
        self._bound()
        async with asking(cache, key):
            self._reused = await look_up(cache, key)
            if self._reused is not None:
                return None
            attempt = await self._in_slot(number)
            if attempt is not None and attempt.completion is not None:
                await remember(cache, self._key(attempt.worker), attempt.completion)
            return attempt

    async def _in_slot(self, number: int) -> Attempt | None:
        """Call a worker in one of its slots, unless it is left out."""
        setting, retry = self.setting, self.setting.retry
        held: list[anyio.Semaphore] = []
        cooling, slot = setting.pool.cooling(number), setting.pool.slot(number)
        try:
            if slot is not None:
                self._bound()
                held = await take(slot)
                await checkpoint_if_cancelled()  # a slot that comes free says nothing of a cancel
            if cooling.failures and cooling.rest(setting.clock(), retry.cool_after, retry.cool_seconds):
                return None
            attempt = await self._begin_once_it_fits(number, cooling)
            # Of a recorded run that books its own calls, the second would wait for the first.
            if retry.hedge is not None and (attempt.reservation.amount.calls or setting.journal is None):
                self._bound()
                return await self._hedged(retry.hedge, attempt, held)
            await attempt.run(self._on_text, self._bound)
            return attempt
        finally:
            for taken in held:
                taken.release()

    async def _begin_once_it_fits(self, number: int, cooling: Cooling) -> Attempt:
        """Begin a call, once those under way have left room for it.

        Raises:
            LimitExceeded: it does not fit even with none under way.
        """
        while True:
            try:
                return self._begin(number, cooling)
            except LimitExceeded as error:
                self._bound()
                self._waits = "found no room in what the run may spend"
                if error.limit == "calls" or not await self.setting.ledger.freed():
                    raise

    def _begin(self, number: int, cooling: Cooling) -> Attempt:
        """Set aside what a call may spend, and tell that it begins.

        Raises:
            LimitExceeded: it does not fit, and is not made.
        """
        setting, worker, deadline = self.setting, self.setting.pool[number], self._deadline
        began = setting.clock()
        until = began + setting.limits.attempt_seconds
        if until >= deadline:
            self._bound()
        with Boundary(f"worker {worker.card.name!r}", WorkerFailed):
            request = bounded(worker, self._request(number, min(until, deadline)), setting.ledger)
            worst = worker.worst_case(request, setting.limits.answer_tokens)
        reservation = setting.ledger.reserve(worst, last=self.last)
        attempt = Attempt(
            setting=setting,
            worker=number,
            card=worker.card,
            number=self.following,
            request=request,
            reservation=reservation,
            cooling=cooling,
            tries=cooling.called(setting.retry.cool_after),
            began=began,
            until=until if until < deadline else inf,
        )
        self._made.append(attempt)
        self._heard = attempt
        if setting.emit is not None:
            setting.tell(
                StepStarted,
                round=self.round,
                step=self.index,
                attempt=attempt.number,
                worker=worker.card.name,
                subtask=self.step.subtask,
                reserved=reservation.amount,
            )
        return attempt

    def _request(self, number: int, deadline: float) -> Request:
        setting = self.setting
        brief = Brief(self.step.subtask, self.visible, setting.query if setting.show_question else ())
        caller = Caller(
            run_id=setting.run_id,
            round=self.round,
            step=self.index,
            attempt=self.following,
            depth=setting.depth,
            ledger=setting.ledger,
            emit=setting.emit,
            labels=self.labels,
            journal=setting.journal,
            policy=setting.policy,
            through=setting.through,
        )
        messages = worker_messages(brief, setting.pool.cards[number])
        request = Request(
            messages=messages, brief=brief, deadline=deadline, stream=setting.stream, caller=caller
        )
        if not self.last or not setting.writes_apart:
            return request
        return replace(
            request,
            messages=messages + setting.turns,
            turns=setting.turns,
            tools=setting.tools if setting.pool[number].takes_tools else None,
            sampling=setting.sampling,
        )

    def _key(self, number: int) -> str | None:
        """Return what stands for a worker's answer in the cache; `None` where it may not be used again.

        What only bounds the answer does not count: one that was cut by it is not kept.
        """
        if self.setting.cache is None or (self.last and self.setting.tools is not None):
            return None
        with Boundary(f"worker {self.setting.pool.names[number]!r}", WorkerFailed):
            identity = self.setting.pool[number].identity
        if identity is None:
            return None
        request = self._request(number, inf)
        return answer_key(identity, request.messages, request.sampling)

    async def _hedged(self, hedge: Hedge, attempt: Attempt, held: list[anyio.Semaphore]) -> Attempt:
        """Run a call, and another beside it if it is slow; return the one that counts."""
        setting = self.setting

        def begin() -> Attempt | None:
            """Begin the second if the budget of calls, a slot and the ledger have room for it now."""
            if len(self._made) >= setting.retry.attempts:
                return None
            number = self._turns().beside(attempt.worker)
            try:
                if (slot := setting.pool.slot(number)) is not None:
                    slot.acquire_nowait()
                    held.append(slot)
                second = self._begin(number, setting.pool.cooling(number))
            except (anyio.WouldBlock, PodiumError):
                return None
            self._heard = None
            return second

        def left(failed: Attempt, other: Attempt) -> None:
            self._tell_failed(failed, None)
            self._heard = other
            if other.pieces:
                self.on_text(self, self.written, other.number)

        patience = hedge.patience(setting.pool.history(attempt.worker))
        return await Race(attempt, self._on_text, left).run(patience, begin)

    def _on_text(self, attempt: Attempt, text: str) -> None:
        if attempt is self._heard:
            self.on_text(self, text, attempt.number)

    def _tell_failed(self, attempt: Attempt, wait: float | None) -> None:
        ids = {"round": self.round, "step": self.index, "attempt": attempt.number}
        self.setting.tell(AttemptFailed, **ids, call=attempt.call(), wait=wait)

    def _calls(self) -> list[Call]:
        return [*self.before, *(attempt.call() for attempt in self._made)]

    def _ended(self, status: StepStatus, problem: Problem | None) -> Outcome:
        good = None
        for attempt in self._made:
            if attempt.problem is None:
                if attempt.completion is None:  # it was stopped
                    attempt.problem = problem
                else:
                    good = good or attempt
        whole = self._reused if good is None else good.completion
        if whole is not None:
            # It was paid for and stands, even if its worker failed or hung in clearing up.
            status, problem = "ok", _shortfall(whole)
        latest = good or (self._made[-1] if self._made else None)
        bill: Sequence[Attempt | Call] = [*self.before, *self._made] if self.before else self._made
        usage, cost, maybe_paid = _total(bill)
        now = self.setting.now()
        started = now if self._reused is not None else None
        if self._made:
            started = self._made[0].began - self.setting.began
        return Outcome(
            round=self.round,
            step=self.index,
            worker=self.setting.pool.names[self.step.worker] if latest is None else latest.card.name,
            status=status,
            text=whole.text if whole is not None else "" if latest is None else "".join(latest.pieces),
            problem=problem,
            finish_reason=None if whole is None else whole.finish_reason,
            tool_calls=() if whole is None else whole.tool_calls,
            usage=usage,
            cost=cost,
            attempts=0 if latest is None else latest.number,
            calls=tuple(self._calls()) if self.before or len(self._made) > 1 else (),
            maybe_paid=maybe_paid,
            reused=self._reused is not None,
            started=started,
            ended=None if started is None else now,
        )


def _total(bill: Sequence[Attempt | Call]) -> tuple[Usage, float | None, bool]:
    """Return tokens and USD of calls, and whether some may not be on the bill."""
    if len(bill) == 1:  # of most steps, and dear to add up
        return bill[0].usage, bill[0].cost, bill[0].maybe_paid
    usage, cost = Usage.total(call.usage for call in bill), total_cost(call.cost for call in bill)
    return usage, cost, any(call.maybe_paid for call in bill)


def _shortfall(completion: Completion) -> Problem | None:
    """Return what a whole answer lacks all the same."""
    if completion.missing is not None:
        return Problem("partial", completion.missing)
    if completion.finish_reason == "length":
        return Problem("cut", "the text was cut at its worker's token limit")
    return None
