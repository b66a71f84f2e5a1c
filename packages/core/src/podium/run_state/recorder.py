"""Records the new events of a run in its log."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import assert_never

from podium.budget.limits import Spend
from podium.errors import JournalError
from podium.journal.journal import Head, Log
from podium.run_state.reuse import PaidResults, paid_results_of
from podium.run_state.state import note_lengths, outcomes_of_lost, result_of, rounds_of, spent_by, steps_of
from podium.types.events import (
    ActionDecided,
    AnswerDelta,
    ApprovalAsked,
    ApprovalGiven,
    AttemptFailed,
    Event,
    NestedRunEnded,
    PlanDelta,
    PlannerEnded,
    PlannerStarted,
    PlanReady,
    RoundStarted,
    RunEnded,
    RunResumed,
    RunStarted,
    RunStopped,
    StepDelta,
    StepEnded,
    StepStarted,
    WorkerRunEnded,
)
from podium.types.plan import Plan, PlannedBy
from podium.types.result import Result
from podium.usage import Usage
from podium.workers.pool import Overlong
from podium.workers.worker import Card


class RunRecorder:
    """The recorder of one run.

    Args:
        log: the log of the run, held by this process.
        events: the recorded events; empty for a new run.
        workers: the names of the pool's workers.
        nested: the events of its nested runs, at any depth.

    Raises:
        ConfigError: the pool lacks a worker of a recorded plan.
    """

    def __init__(
        self,
        log: Log,
        events: Sequence[Event],
        workers: Sequence[str],
        nested: Sequence[Sequence[Event]] = (),
    ) -> None:
        self._log = log
        self._before = tuple(events)
        self._nested = nested
        self._new: list[Event] = []
        self._resumed: RunResumed | None = None
        """The `RunResumed` of this process, which is recorded with the first new event."""
        self.paid_results: PaidResults = (
            paid_results_of(events, workers, nested=nested) if events else PaidResults()
        )
        self.spent: tuple[Spend, ...] = tuple(spend for run in (events, *nested) for spend in spent_by(run))
        """The recorded spending of the run and its nested runs."""
        self.steps = sum(steps_of(run) for run in (events, *nested))
        """The number of steps that they have started."""
        self.is_lost = False
        """Whether the journal failed, or another process took over the run."""
        self._rounds = {e.round for e in events if isinstance(e, RoundStarted)}
        self._plans = dict(self.paid_results.plans)
        self._ends = {(e.round, e.step): e for e in events if isinstance(e, StepEnded)}
        """The latest recorded end of each round and step."""
        self._billed = {
            (e.round, e.step, e.key) for e in events if isinstance(e, StepEnded) and e.outcome.attempts
        }

    def note_lengths(self, overlong: Overlong, cards: Sequence[Card]) -> None:
        """Add the recorded answers that were longer than their limit to `overlong`.

        Args:
            overlong: the collection of such answers.
            cards: the cards of the pool.
        """
        note_lengths(self._before, overlong, {card.name: card for card in cards})

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

    @property
    def seconds(self) -> float:
        """The recorded duration of the run, in seconds."""
        return max((event.at for event in self._before), default=0.0)

    @property
    def is_resumed(self) -> bool:
        """Whether the run is resumed."""
        return bool(self._before)

    def edit(self, plan: Plan) -> None:
        """Replace the plan of the last round; the new plan needs a new approval."""
        number = max(self._rounds, default=1)
        known = self._plans.get(number)
        at, run_id = (0.0, self._log.run_id) if known is None else (known.at, known.run_id)
        by = plan.planner or PlannedBy("user", "the plan was changed")
        self.paid_results.forget_plan(number)
        self.paid_results.plans[number] = PlanReady(
            run_id=run_id,
            at=at,
            round=number,
            plan=plan,
            planner=by.name,
            why=by.why,
            is_fallback=by.is_fallback,
        )

    def tell(self, event: Event) -> None:
        """Record an event, unless it is already recorded."""
        if self.is_resumed:
            if self._holds(event):
                return
            if isinstance(event, RunResumed):
                self._resumed = event
                return
            if isinstance(event, StepEnded):
                event = self._noted(event)
            self._record_resumed()
            self._new.append(event)
        self._log.append(event)

    def _record_resumed(self) -> None:
        if self._resumed is not None:
            self._new.append(self._resumed)
            self._log.append(self._resumed)
            self._resumed = None

    def _holds(self, event: Event) -> bool:  # noqa: PLR0911 - one case for each event
        """Return whether the log already has this event from before the resume."""
        match event:
            case RunStarted():
                return True
            case RoundStarted():
                return event.round in self._rounds
            case PlannerEnded():
                return event.proposal in self.paid_results.proposals.get(event.round, ())
            case PlanReady():
                ready = self._plans.get(event.round)
                return ready is not None and _told(ready) == _told(event)
            case StepEnded():
                known = self._ends.get((event.round, event.step))
                return event.outcome.reused and known is not None and _is_same(known, event)
            case RunResumed() | PlannerStarted() | ApprovalAsked() | ApprovalGiven() | StepStarted():
                return False
            case ActionDecided():
                return False
            case AttemptFailed() | NestedRunEnded() | WorkerRunEnded() | RunEnded() | RunStopped():
                return False
            case PlanDelta() | StepDelta() | AnswerDelta():
                return False
            case _:
                assert_never(event)

    def _noted(self, event: StepEnded) -> StepEnded:
        """Store an end as the latest of its step; remove its cost if a recorded end already has this cost."""
        place = (event.round, event.step)
        outcome = event.outcome
        if outcome.reused and outcome.attempts and (*place, event.key) in self._billed:
            free = replace(outcome, usage=Usage(), cost=0.0, calls=(), maybe_paid=False, charged="usage")
            event = replace(event, outcome=free)
        self._ends[place] = event
        if outcome.attempts:
            self._billed.add((*place, event.key))
        return event

    async def finish(self, ended: RunEnded) -> Result:
        """Record the end of the run, and return the result after all records are durable.

        If a resumed run did nothing and ends as before, nothing is recorded and the recorded result is
        returned.

        Raises:
            JournalError: the end cannot be recorded; the error has the result.
        """
        result = ended.result
        if self.is_resumed:
            if result.status != "waiting":
                self._bill_unseen(ended)
            if (before := self._end_before(result)) is not None:
                return before
            self._record_resumed()
            result = replace(result, rounds=rounds_of((*self._before, *self._new), self._nested))
        self._log.append(replace(ended, result=result, cost=result.cost))
        try:
            await self._log.flush()
        except JournalError as error:
            error.result, error.actions = result, result.actions
            raise
        return result

    def _end_before(self, result: Result) -> Result | None:
        """Return the recorded result if the resumed run did nothing and ends as before; else `None`."""
        if self._resumed is None or not isinstance(self._before[-1], RunEnded):
            return None
        before = result_of(self._before, self._nested)
        same = (before.status, before.answer, before.problem) == (
            result.status,
            result.answer,
            result.problem,
        )
        return before if same else None

    def _bill_unseen(self, ended: RunEnded) -> None:
        """Record calls that a crash interrupted and whose steps did not run again, so their cost counts."""
        lost = self.paid_results.lost
        unseen = {place: calls for place, calls in self.paid_results.unseen.items() if place in lost}
        for outcome in outcomes_of_lost(unseen):
            self.tell(
                StepEnded(
                    run_id=ended.run_id,
                    at=ended.at,
                    round=outcome.round,
                    step=outcome.step,
                    attempt=0,
                    outcome=outcome,
                )
            )

    async def flush(self) -> None:
        """Wait until every event so far is durable.

        Raises:
            JournalError: an event cannot be recorded.
        """
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


def _told(ready: PlanReady) -> tuple[Plan, str, bool]:
    return ready.plan, ready.planner, ready.is_fallback


def _is_same(known: StepEnded, again: StepEnded) -> bool:
    """Return whether a reused outcome is the latest recorded outcome of its step."""
    one, other = known.outcome, again.outcome
    facts = (one.status, one.text, one.attempts) == (other.status, other.text, other.attempts)
    return facts and known.key == again.key
