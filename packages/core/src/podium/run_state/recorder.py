"""Records the new events of a run in its log, and tells them to its listeners once they are recorded."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio

from podium.budget.limits import Spend
from podium.errors import JournalError
from podium.journal.journal import Head, Log
from podium.run_state.actions import unpaid
from podium.run_state.paid import PaidResults, paid_results_of
from podium.run_state.state import RunState, interrupted
from podium.types.events import (
    PIECES,
    Event,
    PlannerEnded,
    PlanReady,
    RoundStarted,
    RunEnded,
    RunResumed,
    StepEnded,
)
from podium.types.plan import Plan
from podium.types.result import Result
from podium.workers.pool import Overlong
from podium.workers.worker import Card


class RunRecorder:
    """The recorder of one run."""

    def __init__(self, log: Log, state: RunState | None, workers: Sequence[str]) -> None:
        self._log = log
        self._state = RunState() if state is None else state
        self._resumed: RunResumed | None = None
        """The `RunResumed` of this process, which is recorded with the first new event."""
        self.is_resumed = state is not None
        self.seconds = self._state.at
        """The recorded duration of the run, in seconds."""
        self.paid_results = paid_results_of(state, workers) if state is not None else PaidResults()
        family = (self._state, *(self._state.nested or ()))
        self.spent: tuple[Spend, ...] = tuple(spend for run in family for spend in run.spent())
        """The recorded spending of the run and its nested runs."""
        self.steps = sum(run.steps for run in family)
        """The number of steps that they have started."""
        self.is_lost = False
        """Whether the journal failed, or another process took over the run."""
        self._plans = {number: each.ready for number, each in self.paid_results.rounds.items()}
        self._listen: Callable[[Event], None] | None = None
        self._waiting = deque[Event]()
        """The events that are not told yet."""
        self._put_so_far = 0
        self._told_so_far = 0
        self._woken = anyio.Event()

    @asynccontextmanager
    async def opened(
        self, listen: Callable[[Event], None] | None, lost: Callable[[], None]
    ) -> AsyncGenerator[None]:
        """Tell the events of the block as soon as they are recorded, and release the run at its end.

        Args:
            listen: called with each event; `None` without listeners.
            lost: called once if the journal fails, or another process takes over the run.
        """

        def give_up() -> None:
            self.is_lost = True
            lost()

        self._listen, self._log.on_lost = listen, give_up
        task = None if listen is None else asyncio.create_task(self._keep_telling())
        try:
            yield
        finally:
            if task is not None:
                task.cancel()
                with anyio.CancelScope(shield=True):
                    await asyncio.wait([task])
            await self._log.aclose()
            self._tell_until()
            self._listen = self._log.on_lost = None  # both refer to the run, which leaves no cycles

    def note_lengths(self, overlong: Overlong, cards: Sequence[Card]) -> None:
        """Add the recorded answers that were longer than their limit to `overlong`."""
        by_name = {card.name: card for card in cards}
        for call in self._state.calls:
            overlong.note(by_name.get(call.bill.worker), call.start.reserved, call.bill.usage)

    @property
    def recovery(self) -> int:
        """Number of times that the run was resumed after its process died, including this time."""
        return self._log.recovery

    def edit(self, plan: Plan) -> None:
        """Replace the plan of the last round; the new plan needs a new approval."""
        self.paid_results.set_plan(max(self._state.rounds, default=1), plan)

    def tell(self, event: Event) -> None:
        """Record an event of the run, unless it is already recorded, and tell it later."""
        if event.run_id == self._log.run_id:
            self._record(event)
        if self._listen is None:
            return
        if not self._waiting and isinstance(event, PIECES):
            self._listen(event)
            return
        self._put_so_far += 1
        self._waiting.append(event)
        self._woken.set()

    def _tell_until(self, last: int | None = None) -> None:
        """Tell events that are recorded: up to the event number `last`; by default, all events."""
        while self._listen is not None and self._waiting and (last is None or self._told_so_far < last):
            self._told_so_far += 1
            self._listen(self._waiting.popleft())

    async def _keep_telling(self) -> None:
        while True:
            await self._woken.wait()
            self._woken = anyio.Event()
            try:
                await self.flush()
            except JournalError:
                return  # the log stops the run

    def _record(self, event: Event) -> None:
        if self.is_resumed:
            if isinstance(event, RunResumed):
                self._resumed = event
                return
            if self._holds(event):
                return
            if isinstance(event, StepEnded):
                event = self._noted(event)
            self._record_resumed()
            self._state.take(event)
        self._log.append(event)

    def _record_resumed(self) -> None:
        if self._resumed is not None:
            self._state.take(self._resumed)
            self._log.append(self._resumed)
            self._resumed = None

    def _holds(self, event: Event) -> bool:
        """Return whether the log already has this event from before the resume."""
        if isinstance(event, RoundStarted):
            known = self._state.rounds.get(event.round)
            return known is not None and known.reason is not None
        if isinstance(event, PlannerEnded):
            return event.proposal in self.paid_results.round(event.round).proposals
        if isinstance(event, PlanReady):
            ready = self._plans.get(event.round)
            given = event.plan, event.planner, event.is_fallback
            return ready is not None and (ready.plan, ready.planner, ready.is_fallback) == given
        if isinstance(event, StepEnded):
            step = self._state.round(event.round).step(event.step)
            end = None if step.outcome is None else step.end  # a shorter plan has removed the outcome
            if end is None or not event.outcome.reused or end.key != event.key:
                return False
            one, other = end.outcome, event.outcome
            return (one.status, one.text, one.attempts) == (other.status, other.text, other.attempts)
        return False

    def _noted(self, event: StepEnded) -> StepEnded:
        """Return an end without its cost if a recorded end already has this cost."""
        outcome = event.outcome
        billed = self._state.round(event.round).step(event.step).billed
        is_billed = outcome.reused and outcome.attempts and event.key in billed
        return replace(event, outcome=unpaid(outcome)) if is_billed else event

    async def finish(self, ended: RunEnded) -> Result:
        """Record the end of the run, and return the result after all records are durable."""
        result = ended.result
        if self.is_resumed:
            if result.status != "waiting":
                self._bill_unseen(ended)
            if (before := self._end_before(result)) is not None:
                self._tell_until()
                return before
            self._record_resumed()
            result = replace(result, rounds=self._state.rounds_so_far())
        self._log.append(replace(ended, result=result, cost=result.cost))
        try:
            await self._log.flush()
        except JournalError as error:
            error.result, error.actions = result, result.actions
            raise
        self._tell_until()
        return result

    def _end_before(self, result: Result) -> Result | None:
        """Return the recorded result if the resumed run did nothing and ends as before; else `None`."""
        if self._resumed is None or not isinstance(self._state.last, RunEnded):
            return None
        before, ended = self._state.result(), (result.status, result.answer, result.problem)
        return before if (before.status, before.answer, before.problem) == ended else None

    def _bill_unseen(self, ended: RunEnded) -> None:
        """Record calls that a crash interrupted and whose steps did not run again, so their cost counts."""
        state, run_id, at = self._state, ended.run_id, ended.at
        for number, index in self.paid_results.lost:
            step = state.round(number).step(index)
            calls = [state.bill_of(step, call) for call in step.lost]
            if calls:
                outcome = interrupted((number, index), step.path, calls)
                self._record(
                    StepEnded(run_id=run_id, at=at, round=number, step=index, attempt=0, outcome=outcome)
                )

    async def flush(self) -> None:
        """Wait until every event so far is durable, and tell them."""
        last = self._put_so_far
        try:
            await self._log.flush()
        except JournalError:
            self.is_lost = True
            raise
        self._tell_until(last)

    @property
    def head(self) -> Head | None:
        """The head of the run's record; `None` if the journal failed or has no hashes."""
        return None if self.is_lost else self._log.head
