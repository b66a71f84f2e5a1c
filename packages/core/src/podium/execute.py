"""Runs the steps of one round over workers, each as soon as its inputs exist.

An `Execution` takes steps one by one, while the plan may still be arriving, and the whole
plan once it is known. It knows no planner, no other round and no journal.
"""

from dataclasses import replace
from types import TracebackType
from typing import Self

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from podium.errors import LimitExceeded
from podium.events import AnswerDelta, StepDelta, StepEnded
from podium.keeping import is_metered, last_step
from podium.ledger import Spend
from podium.outcome import Call, Outcome, Problem, total_cost
from podium.place import ABORTED, ENOUGH, STOPPED, SUPERSEDED, UNSEEN, Place
from podium.plan import Plan, Step
from podium.policy import after
from podium.recall import Recall, step_key
from podium.setting import Setting
from podium.trying import Trying
from podium.usage import Usage
from podium.workers.worker import Brief, Card


class Execution:
    """The execution of one round; an async context manager that ends when all steps have.

    Args:
        setting: the run it belongs to.
        number: the round's number, from 1.
        last: whether no round can follow, so that the last step's output is the answer
            and may be sent on as such while it is written.
        paid: what earlier rounds came to and is not to be paid for again; `None` where
            steps may be repeated on purpose.
    """

    def __init__(self, setting: Setting, number: int, *, last: bool, paid: Recall | None = None) -> None:
        self._setting = setting
        self._number = number
        self._last = last
        self._known = [recall for recall in (setting.recall, paid) if recall is not None]
        self._is_metered = is_metered(setting)
        self._has_keys = bool(self._known) or setting.on_failure == "replan"
        self._plan: Plan | None = None
        self._places: list[Place] = []
        self._superseded: list[Place] = []
        self._answering: Place | None = None
        self._ended = 0
        self._has_unwanted = False
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
            self._setting.ledger.keep(Spend())

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """What the steps came to, in the plan's order, then those that a new plan superseded.

        One for each step once the execution has been left.
        """
        places = (*self._places, *self._superseded)
        return tuple(place.outcome for place in places if place.outcome is not None)

    @property
    def labels(self) -> tuple[frozenset[str], ...]:
        """The labels of what the plan's steps wrote, in its order; none for those that wrote nothing."""
        return tuple(place.written for place in self._places)

    @property
    def paid(self) -> tuple[tuple[str, Outcome], ...]:
        """What ended well, as it ended, with what stands for it by content."""
        good = (place for place in (*self._places, *self._superseded) if place.key and place.is_good)
        return tuple((p.key, p.outcome) for p in sorted(good, key=lambda p: p.rank) if p.outcome is not None)

    def add(self, step: Step) -> None:
        """Take the next step of the plan; it starts once the steps it may see have ended."""
        for place in self._settle(self._decide(self._append(step))):
            self._tasks.start_soon(self._work, place)

    async def complete(self, plan: Plan) -> None:
        """Take the whole plan, and work on it.

        Steps that were added and stand in the plan as they are go on; others are
        cancelled. Steps that nobody will see are not run.
        """
        self._take(plan)
        needed = plan.needed
        for place in self._places:
            if place.index not in needed:
                self._give_up(place, UNSEEN)
        self._keep_for_last()
        ready = self._settle([start for place in self._places for start in self._decide(place)])
        self._send_answer()
        await self._work_on(ready)

    def refuse(self, plan: Plan, problem: Problem) -> None:
        """Take the whole plan, none of whose steps may run."""
        self._take(plan)
        for place in self._places:
            self._give_up(place, problem)

    def _take(self, plan: Plan) -> None:
        """Give each step of the plan a place, and take it from those the plan does not have."""
        same = 0
        while same < min(len(self._places), len(plan.steps)) and self._places[same].step == plan.steps[same]:
            same += 1
        for place in self._places[same:]:
            self._give_up(place, SUPERSEDED)
        self._superseded += self._places[same:]
        del self._places[same:]
        for step in plan.steps[same:]:
            self._append(step)
        self._plan = plan

    def _append(self, step: Step) -> Place:
        """Give the step its place."""
        index = len(self._places)
        replaced = (place.following for place in self._superseded if place.index == index)
        place = Place(index, step, max(replaced, default=1))
        for seen in step.access:
            before = self._places[seen]
            before.dependents.append(place)
            place.blocked += before.outcome is None
            place.good += before.is_good
        self._places.append(place)
        return place

    async def _work_on(self, ready: list[Place]) -> None:
        """Work on one step here, which saves a task, and on the others beside it."""
        for place in ready[1:]:
            self._tasks.start_soon(self._work, place)
        if ready:
            await self._work(ready[0])

    async def _work(self, place: Place) -> None:
        """Run a step, and then one that waited for it; others that did get tasks of their own."""
        while True:
            if place.outcome is None:
                await self._run(place)
            ready = self._settle(self._release(place))
            if not ready:
                return
            place = ready.pop()
            for other in ready:
                self._tasks.start_soon(self._work, other)

    def _release(self, place: Place) -> list[Place]:
        """Return the steps that can start now that `place` has ended; end those that never will."""
        ready: list[Place] = []
        for waiting in place.dependents:
            waiting.blocked -= 1
            waiting.good += place.is_good
            ready += self._decide(waiting)
        return ready

    def _decide(self, place: Place) -> list[Place]:
        """Return the step if it can start now; if it never will, end it, and return whom that sets free."""
        if not place.is_undecided:
            return []
        if place.good >= place.step.least or self._bridges(place):
            self._show(place)
            return [place]
        if place.is_lacking and self._plan is not None:
            if self._setting.on_failure == "fail" and not self._is_refused():
                for other in self._places:
                    self._give_up(other, ABORTED)
            elif not place.blocked:
                self._end(place, self._never_ran(place, self._lack(place)))
                return self._release(place)
        return []

    def _bridges(self, place: Place) -> bool:
        """Say whether a step is run although it lacks some of what it was to be shown, which it is told.

        What was refused for the run's limits is no reason to leave the answer out, which
        something was kept for.
        """
        if place.blocked:
            return False
        if self._setting.on_failure == "note":
            return True
        is_last = self._plan is not None and place is self._places[-1]
        return is_last and place.good > 0 and self._is_refused()

    def _is_refused(self) -> bool:
        """Say whether a step was refused for the run's limits."""
        ended = (place.outcome.problem for place in self._places if place.outcome is not None)
        return any(problem is not None and problem.code == LimitExceeded.code for problem in ended)

    def _lack(self, place: Place) -> Problem:
        bad = next(seen for seen in place.step.access if not self._places[seen].is_good)
        outcome = self._places[bad].outcome
        assert outcome is not None
        return Problem("dependency", f"step {bad}, which it is shown, ended {outcome.status}")

    def _show(self, place: Place) -> None:
        """Settle what a step that can start is shown: of more than are enough, those that ended first."""
        step, places = place.step, self._places
        good = [seen for seen in step.access if places[seen].is_good]
        if step.enough is not None and len(good) > step.enough:
            good = sorted(sorted(good, key=lambda seen: places[seen].rank)[: step.enough])
        seen = good if len(good) >= step.least else step.access
        place.visible = tuple([places[index].as_shown() for index in seen])
        place.labels = self._setting.labels.union(*[places[index].written for index in good])
        if len(good) < len(step.access):
            place.shown = tuple(good)
            self._has_unwanted = True

    def _stop_unwanted(self) -> None:
        """Stop steps whose output nobody waits for any more, since enough others had ended."""
        self._has_unwanted = False
        for place in reversed(self._places[:-1]):
            if place.outcome is None and not place.is_wanted:
                self._give_up(place, ENOUGH)

    def _settle(self, ready: list[Place]) -> list[Place]:
        """Return the steps that are to be worked on, once those are out that are paid for or unwanted."""
        if self._has_keys:
            ready = self._recalled(ready)
        if self._has_unwanted and self._plan is not None:
            self._stop_unwanted()
            ready = [place for place in ready if place.outcome is None]
        return ready

    def _recalled(self, ready: list[Place]) -> list[Place]:
        """End the steps that are paid for, in the order in which they ended then; return the others."""
        while True:
            ready = [place for place in ready if place.outcome is None]
            found: list[tuple[tuple[bool, int], int, Place, Recall]] = []
            for place in ready:
                place.key = place.key or self._key(place)
                for later, recall in enumerate(self._known):
                    position = recall.position(place.key, self._number, place.index)
                    if position is not None:
                        found.append((position, later, place, recall))
                        break
            if not found:
                return ready
            *_, place, recall = min(found, key=lambda one: (one[1], one[0], one[2].index))
            outcome = recall.take(place.key, self._number, place.index)
            assert outcome is not None
            self._end(place, outcome)
            ready += self._release(place)

    def _key(self, place: Place) -> str:
        query = self._setting.query if self._setting.show_question else ()
        brief = Brief(place.step.subtask, place.visible or (), query)
        return step_key(self._setting.pool.names[place.step.worker], brief)

    async def _run(self, place: Place) -> None:
        setting = self._setting
        trying = place.trying = Trying(
            setting=setting,
            round=self._number,
            index=place.index,
            step=place.step,
            visible=place.visible or (),
            on_text=self._on_text,
            number=place.number,
            last=self._plan is not None and place is self._places[-1],
            labels=place.labels,
            before=self._lost(place),
        )
        deadline = min(setting.ledger.deadline, setting.clock() + setting.limits.step_seconds)
        outcome, room = None, None
        try:
            with anyio.CancelScope(deadline=deadline) as place.scope:
                if self._room is not None:
                    await self._room.acquire()
                    room = self._room
                await checkpoint_if_cancelled()  # a slot that comes free says nothing of a cancel
                outcome = await trying.run(deadline)
        finally:
            if room is not None:
                room.release()
            if outcome is None:
                # The run may be at its own deadline, which can be noticed first.
                timed_out = place.reason is None and setting.clock() >= deadline
                outcome = trying.timed_out() if timed_out else trying.stopped(place.reason or STOPPED)
            place.following = trying.following
            place.trying = place.scope = None  # a cycle with what they call back, left to the collector
            self._end(place, outcome)

    def _lost(self, place: Place) -> tuple[Call, ...]:
        """Return the calls that were made for the step before the run was resumed, to no end."""
        recall = self._setting.recall
        return () if recall is None else tuple(recall.lost.pop((self._number, place.index), ()))

    def _send_answer(self) -> None:
        """From here on, what the last step writes is known to be the answer."""
        if not (self._last and self._places and self._setting.stream):
            return
        self._answering = place = self._places[-1]
        if place.trying is not None and place.trying.written:
            self._emit_answer(place.trying.written, place.trying.current)
        elif place.outcome is not None and place.outcome.text:
            self._emit_answer(place.outcome.text, place.outcome.attempts)

    def _on_text(self, trying: Trying, text: str, number: int) -> None:
        self._setting.tell(StepDelta, round=self._number, step=trying.index, attempt=number, text=text)
        # By place, not by index: a superseded step may write until its cancel reaches it.
        if self._answering is not None and self._answering.trying is trying:
            self._emit_answer(text, number)

    def _emit_answer(self, text: str, number: int) -> None:
        self.answer_sent = True
        assert self._answering is not None
        step = self._answering.index
        self._setting.tell(AnswerDelta, round=self._number, step=step, attempt=number, text=text)

    def _give_up(self, place: Place, reason: Problem) -> None:
        if place.outcome is not None or place.reason is not None:
            return
        place.reason = reason
        if place.trying is not None:
            place.following = place.trying.following
        if place.scope is not None:
            place.scope.cancel()
        else:
            self._end(place, self._never_ran(place, reason))

    def _never_ran(self, place: Place, problem: Problem) -> Outcome:
        calls = self._lost(place)
        return Outcome(
            round=self._number,
            step=place.index,
            worker=self._setting.pool.names[place.step.worker],
            status="cancelled" if problem is STOPPED else "skipped",
            problem=problem,
            usage=Usage.total(call.usage for call in calls),
            cost=total_cost(call.cost for call in calls),
            calls=calls,
            maybe_paid=any(call.maybe_paid for call in calls),
        )

    def _end(self, place: Place, outcome: Outcome) -> None:
        if outcome.shown != place.shown:
            outcome = replace(outcome, shown=place.shown)
        place.outcome, place.rank = outcome, self._ended
        self._ended += 1
        if place.visible is not None:
            place.written = after(self._card(place, outcome), place.labels)
        tell_end(self._setting, outcome, place.key)
        if place.is_good:
            self._keep_for_last(place)

    def _card(self, place: Place, outcome: Outcome) -> Card:
        """Return the card of whom the output came from: another where one stood in."""
        pool = self._setting.pool
        asked = pool.cards[place.step.worker]
        if outcome.worker == asked.name or outcome.worker not in pool.names:
            return asked
        return pool.cards[pool.names.index(outcome.worker)]

    def _keep_for_last(self, ended: Place | None = None) -> None:
        """Keep of the run's limits what the last step needs, told anew as it is known what it is shown."""
        plan, setting = self._plan, self._setting
        if plan is None or len(plan.steps) < 2 or self._places[-1].visible is not None:
            return
        if ended is None or (self._is_metered and ended.index in plan.steps[-1].access):
            setting.ledger.keep(last_step(setting, plan, [place.outcome for place in self._places]))


def tell_end(setting: Setting, outcome: Outcome, key: str = "") -> None:
    """Emit that a step came to `outcome`."""
    ids = {"round": outcome.round, "step": outcome.step, "attempt": outcome.attempts}
    setting.tell(StepEnded, **ids, outcome=outcome, key=key)
