"""Records the new events of a run in its log."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from podium.budget.limits import Spend
from podium.errors import JournalError
from podium.journal.journal import Head, Log
from podium.run_state.actions import unpaid
from podium.run_state.reuse import PaidResults, paid_results_of
from podium.run_state.state import RunState, interrupted
from podium.types.events import Event, PlannerEnded, PlanReady, RoundStarted, RunEnded, RunResumed, StepEnded
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

    def note_lengths(self, overlong: Overlong, cards: Sequence[Card]) -> None:
        """Add the recorded answers that were longer than their limit to `overlong`."""
        by_name = {card.name: card for card in cards}
        for call in self._state.calls:
            overlong.note(by_name.get(call.bill.worker), call.start.reserved, call.bill.usage)

    def watch(self, lost: Callable[[], None]) -> None:
        """Call `lost` once if the journal fails, or another process takes over the run."""

        def give_up() -> None:
            self.is_lost = True
            lost()

        self._log.on_lost = give_up

    @property
    def recovery(self) -> int:
        """Number of times that the run was resumed after its process died, including this time."""
        return self._log.recovery

    def edit(self, plan: Plan) -> None:
        """Replace the plan of the last round; the new plan needs a new approval."""
        self.paid_results.set_plan(max(self._state.rounds, default=1), plan)

    def tell(self, event: Event) -> None:
        """Record an event, unless it is already recorded."""
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
            end = self._state.round(event.round).step(event.step).end
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
                return before
            self._record_resumed()
            result = replace(result, rounds=self._state.rounds_so_far())
        self._log.append(replace(ended, result=result, cost=result.cost))
        try:
            await self._log.flush()
        except JournalError as error:
            error.result, error.actions = result, result.actions
            raise
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
                outcome = interrupted((number, index), calls)
                self.tell(
                    StepEnded(run_id=run_id, at=at, round=number, step=index, attempt=0, outcome=outcome)
                )

    async def flush(self) -> None:
        """Wait until every event so far is durable."""
        try:
            await self._log.flush()
        except JournalError:
            self.is_lost = True
            raise

    @property
    def head(self) -> Head | None:
        """The head of the run's record; `None` if the journal failed or has no hashes."""
        return None if self.is_lost else self._log.head

    async def aclose(self) -> None:
        """Write the remaining records, and release the run."""
        await self._log.aclose()
