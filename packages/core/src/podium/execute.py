"""Runs the steps of one round over workers, each as soon as its inputs exist.

An `Execution` takes steps one by one, while the plan may still be arriving, and the whole
plan once it is known. It knows no planner, no other round and no journal.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from math import inf
from types import TracebackType
from typing import Self

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from podium.errors import ConfigError
from podium.events import AnswerDelta, StepDelta, StepEnded
from podium.keeping import is_metered, last_step
from podium.ledger import NOTHING, Spend
from podium.outcome import Call, Outcome, Problem, total_cost
from podium.place import ABORTED, ENOUGH, STOPPED, SUPERSEDED, UNSEEN, Place
from podium.places import Places
from podium.plan import Plan, Step
from podium.policy import after
from podium.recall import Recall, step_key
from podium.setting import Setting
from podium.trying import Trying
from podium.usage import Usage
from podium.workers.worker import Brief, Card


class Pause(Exception):
    """Raised by who starts a round's steps: none is started now, and the run rests until it is resumed."""


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
        self._paid = paid
        self._is_replanned = setting.on_failure == "replan"
        self._is_metered = is_metered(setting)
        self._has_keys = setting.recall is not None or self._is_replanned
        self._places = Places(setting.on_failure)
        self._answering: Place | None = None
        self._ended = 0
        self._has_unwanted = False
        self.answer_sent = False
        """Whether some of the answer was sent on while it was written."""
        self.broke: Exception | None = None
        """What somebody else who started the steps raised."""
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
                if place.outcome is None and not isinstance(
                    self.broke, Pause
                ):  # stopped before it could start
                    self._end(place, self._never_ran(place, STOPPED))
            self._setting.ledger.keep(NOTHING)

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """What the steps came to, in the plan's order, then those that a new plan superseded.

        One for each step once the execution has been left.
        """
        return tuple(place.outcome for place in self._places.all if place.outcome is not None)

    @property
    def labels(self) -> tuple[frozenset[str], ...]:
        """The labels of what the plan's steps wrote, in its order; none for those that wrote nothing."""
        return tuple(place.written for place in self._places)

    @property
    def paid(self) -> tuple[tuple[str, Outcome], ...]:
        """What ended well, as it ended, with what stands for it by content."""
        return self._places.paid

    def add(self, step: Step) -> None:
        """Take the next step of the plan; it starts once the steps it may see have ended."""
        for place in self._settle(self._decide([self._places.append(step)])):
            self._tasks.start_soon(self._work, place)

    async def complete(self, plan: Plan) -> None:
        """Take the whole plan, and work on it.

        Steps that were added and stand in the plan as they are go on; others are
        cancelled. Steps that nobody will see are not run.
        """
        await self._work_on(self._prepare(plan))

    def _prepare(self, plan: Plan) -> list[Place]:
        """Take the whole plan, and return the steps that can start."""
        self._take(plan)
        needed = plan.needed
        for place in self._places:
            if place.index not in needed:
                self._give_up(place, UNSEEN)
        self._keep_for_last()
        ready = self._settle(self._decide(self._places))
        self._send_answer()
        return ready

    async def complete_by(self, plan: Plan, carry: Callable[[], Awaitable[None]]) -> None:
        """Do as `complete`, but have somebody else start the steps, by `carry_out` and `take`.

        What that raises is kept in `broke`: raised here, a task group would wrap it.
        """
        self._prepare(plan)
        try:
            await carry()
        except Exception as error:  # noqa: BLE001 - raised by who leaves the execution
            self.broke = error

    async def carry_out(self, index: int) -> Outcome:
        """Run a step whose inputs have ended, and return what it came to.

        Raises:
            ConfigError: it is under way, or steps that it is shown have not ended.
        """
        place = self._places[index]
        if place.outcome is None:
            if place.visible is None:
                raise ConfigError(f"step {index} was started before the steps that it is shown had ended")
            if place.trying is not None:
                raise ConfigError(f"step {index} was started twice")
            with anyio.CancelScope() as scope:
                await self._run(place, scope)
            self._settle(self._release(place))
        assert place.outcome is not None
        return place.outcome

    def take(self, index: int, outcome: Outcome) -> None:
        """Take what a step came to that was carried out before, and count what it spent."""
        place = self._places[index]
        if place.outcome is not None or place.trying is not None:
            return
        spent = Spend.of(outcome.usage, outcome.cost, calls=max(len(outcome.calls), outcome.attempts > 0))
        self._setting.ledger.charge(spent, steps=int(outcome.attempts > 0))
        if place.visible is None:
            place.visible, place.labels = (
                (),
                self._setting.labels.union(*map(self._written, place.step.access)),
            )
        self._end(place, replace(outcome, round=self._number, step=index, reused=True))
        self._settle(self._release(place))

    def _written(self, index: int) -> frozenset[str]:
        """Return the labels of what a step wrote, or by its plan wrote, where the host keeps its outcome."""
        place = self._places[index]
        if place.outcome is not None:
            return place.written
        labels = self._setting.labels.union(*map(self._written, place.step.access))
        return after(self._setting.pool.cards[place.step.worker], labels)

    def refuse(self, plan: Plan, problem: Problem) -> None:
        """Take the whole plan, none of whose steps may run."""
        self._take(plan)
        for place in self._places:
            self._give_up(place, problem)

    def _take(self, plan: Plan) -> None:
        for place in self._places.take(plan):
            self._give_up(place, SUPERSEDED)

    async def _work_on(self, ready: list[Place]) -> None:
        """Work on one step here, which saves a task, and on the others beside it."""
        for place in ready[1:]:
            self._tasks.start_soon(self._work, place)
        if ready:
            await self._work(ready[0])

    async def _work(self, place: Place) -> None:
        """Run a step, and then one that waited for it; others that did get tasks of their own."""
        todo: Place | None = place
        while todo is not None:
            # A scope is dear: steps that follow one another share it, until one of them is stopped.
            with anyio.CancelScope() as scope:
                while todo is not None and not scope.cancel_called:
                    if todo.outcome is None:
                        await self._run(todo, scope)
                    ready = self._settle(self._release(todo))
                    todo = ready.pop() if ready else None
                    for other in ready:
                        self._tasks.start_soon(self._work, other)

    def _release(self, place: Place) -> list[Place]:
        """Return the steps that can start now that `place` has ended; end those that never will."""
        return self._decide(place.released())

    def _decide(self, places: Iterable[Place]) -> list[Place]:
        """Return the steps that can start; end those that never will, and go on with whom that sets free."""
        ready: list[Place] = []
        todo = list(places)
        for place in todo:  # which grows meanwhile
            match self._places.verdict(place):
                case "start":
                    self._places.show(place, self._setting.labels)
                    self._has_unwanted = self._has_unwanted or place.shown is not None
                    ready.append(place)
                case "skip":
                    self._end(place, self._never_ran(place, self._places.lack(place)))
                    todo.extend(place.released())
                case "abort":
                    for other in self._places:
                        self._give_up(other, ABORTED)
        return ready

    def _settle(self, ready: list[Place]) -> list[Place]:
        """Return the steps that are to be worked on, once those are out that are paid for or unwanted."""
        if self._has_keys:
            ready = self._recalled(ready)
        if self._has_unwanted and self._places.plan is not None:
            self._has_unwanted = False
            for place in self._places.unwanted:
                self._give_up(place, ENOUGH)
            ready = [place for place in ready if place.outcome is None]
        return ready

    def _recalled(self, ready: list[Place]) -> list[Place]:
        """End the steps that are paid for, in the order in which they ended then; return the others."""
        while True:
            ready = [place for place in ready if place.outcome is None]
            found: list[tuple[tuple[bool, int], int, Place, Recall, str]] = []
            for place in ready:
                for later, (recall, key) in enumerate(self._known(place)):
                    position = recall.position(key, self._number, place.index)
                    if position is not None:
                        found.append((position, later, place, recall, key))
                        break
            if not found:
                return ready
            *_, place, recall, key = min(found, key=lambda one: (one[1], one[0], one[2].index))
            outcome = recall.take(key, self._number, place.index)
            assert outcome is not None
            self._end(place, outcome)
            ready += self._release(place)

    def _known(self, place: Place) -> list[tuple[Recall, str]]:
        """Return what is paid for, with what stands for the step there: a record holds no secrets."""
        setting = self._setting
        if not place.key:
            query = setting.query if setting.show_question else ()
            brief = Brief(place.step.subtask, place.visible or (), query)
            worker = setting.pool.names[place.step.worker]
            turns = setting.turns if place is self._places.last else ()
            place.key = step_key(worker, brief, turns)
            place.exact = step_key(worker, brief, turns, exact=True) if self._is_replanned else ""
        known = ((setting.recall, place.key), (self._paid, place.exact))
        return [(recall, key) for recall, key in known if recall is not None]

    async def _run(self, place: Place, scope: anyio.CancelScope) -> None:
        """Run a step in a scope of its task's, by which it is stopped."""
        setting = self._setting
        trying = place.trying = Trying(
            setting=setting,
            round=self._number,
            index=place.index,
            step=place.step,
            visible=place.visible or (),
            on_text=self._on_text,
            number=place.number,
            last=place is self._places.last,
            labels=place.labels,
            before=self._lost(place),
        )
        deadline = min(setting.ledger.deadline, setting.clock() + setting.limits.step_seconds)
        outcome, room = None, None
        try:
            place.scope = scope
            if self._room is not None:
                scope.deadline = deadline
                await self._room.acquire()
                room = self._room
            await checkpoint_if_cancelled()  # a slot that comes free says nothing of a cancel
            outcome = await trying.run(deadline, scope)
        finally:
            if room is not None:
                room.release()
            if outcome is None:
                # The run may be at its own deadline, which can be noticed first.
                timed_out = place.reason is None and setting.clock() >= deadline
                outcome = trying.timed_out() if timed_out else trying.stopped(place.reason or STOPPED)
            if scope.deadline != inf:
                scope.deadline = inf
            place.following = trying.following
            place.trying = place.scope = None  # a cycle with what they call back, left to the collector
            self._end(place, outcome)

    def _lost(self, place: Place) -> tuple[Call, ...]:
        """Return the calls that were made for the step before the run was resumed, to no end."""
        recall = self._setting.recall
        return () if recall is None else tuple(recall.lost.pop((self._number, place.index), ()))

    def _send_answer(self) -> None:
        """From here on, what the last step writes is known to be the answer."""
        place = self._places.last
        if not (self._last and place is not None and self._setting.stream):
            return
        self._answering = place
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
        if self._is_metered and place.is_good:
            self._keep_for_last(place)

    def _card(self, place: Place, outcome: Outcome) -> Card:
        """Return the card of whom the output came from: another where one stood in."""
        pool = self._setting.pool
        asked = pool.cards[place.step.worker]
        if outcome.worker == asked.name or outcome.worker not in pool.names:
            return asked
        return pool.cards[pool.names.index(outcome.worker)]

    def _keep_for_last(self, ended: Place | None = None) -> None:
        """Keep of the run's limits what the last step needs, told anew as it is known what it is shown.

        Where no more than calls is limited, that changes nothing, and is told once.
        """
        plan, last, setting = self._places.plan, self._places.last, self._setting
        if plan is None or len(plan.steps) < 2 or last is None or last.visible is not None:
            return
        if ended is None or ended.index in plan.steps[-1].access:
            setting.ledger.keep(last_step(setting, plan, [place.outcome for place in self._places]))


def tell_end(setting: Setting, outcome: Outcome, key: str = "") -> None:
    """Emit that a step came to `outcome`."""
    if setting.emit is not None:
        ids = {"round": outcome.round, "step": outcome.step, "attempt": outcome.attempts}
        setting.tell(StepEnded, **ids, outcome=outcome, key=key)
