"""Runs the steps of one round over workers, each as soon as its inputs exist.

An `Execution` takes steps one by one, while the plan may still be arriving, and the whole
plan once it is known. It knows no planner, no other round and no journal.
"""

from types import TracebackType
from typing import Self

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from podium.attempt import Attempt
from podium.events import AnswerDelta, StepDelta, StepEnded
from podium.outcome import Outcome, Problem
from podium.plan import Plan, Step
from podium.setting import Setting
from podium.workers.pool import take
from podium.workers.worker import Shown

SUPERSEDED = Problem("superseded", "the plan this step was started from was replaced")
UNSEEN = Problem("unseen", "no later step is shown this one, and it is not the last")
STOPPED = Problem("cancelled", "the run was stopped")


class _Place:
    """One step's place in the round: what it waits for, who waits for it, how it ended."""

    __slots__ = ("attempt", "blocked", "dependents", "index", "number", "outcome", "reason", "scope", "step")

    def __init__(self, index: int, step: Step, number: int = 1) -> None:
        self.index = index
        self.step = step
        self.number = number
        self.blocked = 0
        self.dependents: list[_Place] = []
        self.scope: anyio.CancelScope | None = None
        self.attempt: Attempt | None = None
        self.reason: Problem | None = None
        self.outcome: Outcome | None = None

    @property
    def written(self) -> str:
        """What the step has written so far."""
        return "" if self.attempt is None else "".join(self.attempt.pieces)


class Execution:
    """The execution of one round; an async context manager that ends when all steps have.

    Args:
        setting: the run it belongs to.
        number: the round's number, from 1.
        last: whether no round can follow, so that the last step's output is the answer
            and may be sent on as such while it is written.
    """

    def __init__(self, setting: Setting, number: int, *, last: bool) -> None:
        self._setting = setting
        self._number = number
        self._last = last
        self._places: list[_Place] = []
        self._superseded: list[_Place] = []
        self._answering: _Place | None = None
        self.answer_sent = False
        """Whether some of the answer was sent on while it was written."""
        self._tasks = anyio.create_task_group()
        most = setting.limits.concurrency
        self._room = anyio.Semaphore(most, fast_acquire=True) if most < setting.limits.plan_steps else None

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        try:
            return await self._tasks.__aexit__(kind, error, traceback)
        finally:
            for place in self._places:
                if place.outcome is None:  # stopped before it could start
                    self._end(place, self._never_ran(place, STOPPED))

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """What the steps came to, in the plan's order, then those that a new plan superseded.

        One for each step once the execution has been left.
        """
        places = (*self._places, *self._superseded)
        return tuple(place.outcome for place in places if place.outcome is not None)

    def add(self, step: Step) -> None:
        """Take the next step of the plan; it starts once the steps it may see have ended."""
        place = self._append(step)
        if place is not None:
            self._tasks.start_soon(self._work, place)

    def _append(self, step: Step) -> _Place | None:
        """Give the step its place; return that if it can start at once."""
        index = len(self._places)
        replaced = [other for other in self._superseded if other.index == index]
        place = _Place(index, step, 1 + len(replaced))
        for seen in step.access:
            before = self._places[seen]
            if before.outcome is None:
                place.blocked += 1
                before.dependents.append(place)
        self._places.append(place)
        return None if place.blocked or self._skip(place) else place

    async def complete(self, plan: Plan) -> None:
        """Take the whole plan, and work on it.

        Steps that were added and stand in the plan as they are go on; others are
        cancelled. Steps that nobody will see are not run.
        """
        same = 0
        while same < min(len(self._places), len(plan.steps)) and self._places[same].step == plan.steps[same]:
            same += 1
        for place in self._places[same:]:
            self._give_up(place, SUPERSEDED)
        self._superseded += self._places[same:]
        del self._places[same:]
        needed, ready = plan.needed, list[_Place]()
        for index, step in enumerate(plan.steps):
            if index not in needed and index >= same:
                self._places.append(_Place(index, step))
            elif index >= same and (startable := self._append(step)) is not None:
                ready.append(startable)
            if index not in needed:
                self._give_up(self._places[index], UNSEEN)
        self._send_answer()
        await self._work_on(ready)

    async def _work_on(self, ready: list[_Place]) -> None:
        """Work on one step here, which saves a task, and on the others beside it."""
        for place in ready[1:]:
            self._tasks.start_soon(self._work, place)
        if ready:
            await self._work(ready[0])

    def _send_answer(self) -> None:
        """From here on, what the last step writes is known to be the answer."""
        if not (self._last and self._places and self._setting.stream):
            return
        self._answering = self._places[-1]
        place = self._answering
        written = place.outcome.text if place.outcome is not None else place.written
        if written:
            self._emit_answer(written)

    def _give_up(self, place: _Place, reason: Problem) -> None:
        if place.outcome is not None:
            return
        place.reason = reason
        if place.scope is not None:
            place.scope.cancel()
        else:
            self._end(place, self._never_ran(place, reason))

    async def _work(self, place: _Place) -> None:
        """Run a step, and then one that waited for it; others that did get tasks of their own."""
        while True:
            if place.outcome is None:
                await self._run(place)
            ready = self._release(place)
            if not ready:
                return
            place = ready.pop()
            for other in ready:
                self._tasks.start_soon(self._work, other)

    def _release(self, place: _Place) -> list[_Place]:
        """Return the steps that can start now that `place` has ended; skip those that cannot."""
        ready: list[_Place] = []
        ended = [place]
        while ended:
            for waiting in ended.pop().dependents:
                waiting.blocked -= 1
                if waiting.blocked or waiting.outcome is not None:
                    continue
                (ended if self._skip(waiting) else ready).append(waiting)
        return ready

    def _skip(self, place: _Place) -> bool:
        """End a step that is shown one without an output; all it is shown have ended."""
        for seen in place.step.access:
            outcome = self._places[seen].outcome
            if outcome is not None and outcome.status != "ok":
                told = f"step {seen}, which it is shown, ended {outcome.status}"
                self._end(place, self._never_ran(place, Problem("dependency", told)))
                return True
        return False

    async def _run(self, place: _Place) -> None:
        setting = self._setting
        visible = tuple([self._shown(seen) for seen in place.step.access])
        place.attempt = Attempt(
            setting, self._number, place.index, place.step, visible, self._on_text, place.number
        )
        deadline = min(setting.ledger.deadline, setting.clock() + setting.limits.step_seconds)
        outcome, held = None, list[anyio.Semaphore]()
        try:
            with anyio.CancelScope(deadline=deadline) as place.scope:
                held = await take(self._room, setting.pool.slot(place.step.worker))
                await checkpoint_if_cancelled()  # a slot that comes free says nothing of a cancel
                outcome = await place.attempt.run(deadline)
        finally:
            for slot in held:
                slot.release()
            if outcome is None:
                # The run may be at its own deadline, which can be noticed first.
                timed_out = place.reason is None and setting.clock() >= deadline
                stopped = place.reason or STOPPED
                outcome = place.attempt.timed_out() if timed_out else place.attempt.stopped(stopped)
            place.attempt = place.scope = None  # a cycle with what they call back, left to the collector
            self._end(place, outcome)

    def _shown(self, index: int) -> Shown:
        before = self._places[index]
        assert before.outcome is not None
        return Shown(index, before.step.subtask, before.outcome.text)

    def _on_text(self, attempt: Attempt, text: str) -> None:
        ids = {"round": self._number, "step": attempt.index, "attempt": attempt.number}
        self._setting.tell(StepDelta, **ids, text=text)
        # By place, not by index: a superseded step may write until its cancel reaches it.
        if self._answering is not None and self._answering.attempt is attempt:
            self._emit_answer(text)

    def _emit_answer(self, text: str) -> None:
        self.answer_sent = True
        assert self._answering is not None
        index, number = self._answering.index, self._answering.number
        self._setting.tell(AnswerDelta, round=self._number, step=index, attempt=number, text=text)

    def _never_ran(self, place: _Place, problem: Problem) -> Outcome:
        return Outcome(
            round=self._number,
            step=place.index,
            worker=self._setting.pool.names[place.step.worker],
            status="cancelled" if problem is STOPPED else "skipped",
            problem=problem,
        )

    def _end(self, place: _Place, outcome: Outcome) -> None:
        place.outcome = outcome
        tell_end(self._setting, outcome)


def tell_end(setting: Setting, outcome: Outcome) -> None:
    """Emit that a step came to `outcome`."""
    ids = {"round": outcome.round, "step": outcome.step, "attempt": outcome.attempts}
    setting.tell(StepEnded, **ids, outcome=outcome)
