"""The dependencies of a round's steps: which can start, what they are shown, and which nobody needs.

The graph decides; `scheduler` starts, stops and ends steps.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Literal

from podium.errors import LimitExceeded
from podium.execution.retry_policy import OnFailure
from podium.execution.run_context import PreviousRound
from podium.execution.step_state import StepState
from podium.prompts.subtask import mentioned
from podium.types.outcome import Outcome, Problem
from podium.types.plan import Plan, Step, label_of

Verdict = Literal["wait", "start", "skip", "abort"]

_ENDS = {"failed": "failed", "cancelled": "was cancelled", "skipped": "was skipped"}


class DependencyGraph:
    """The steps of a round, in the plan's order, while the plan may still be arriving.

    Args:
        on_failure: what happens to a step that lacks an input: `note`, `skip` or `fail`.
        has_previous: whether steps that list "previous" are shown an output of the round before.
        names: the names of the run's texts.
    """

    def __init__(
        self, on_failure: OnFailure, *, has_previous: bool = False, names: Collection[str] = ()
    ) -> None:
        self._names = names
        self._on_failure = on_failure
        self._has_previous = has_previous
        self._states: list[StepState] = []
        self._superseded: list[StepState] = []
        self.plan: Plan | None = None
        """The whole plan; `None` until it is known."""

    def __iter__(self) -> Iterator[StepState]:
        return iter(self._states)

    def __getitem__(self, index: int) -> StepState:
        return self._states[index]

    @property
    def last(self) -> StepState | None:
        """The place of the plan's last step, once that is known."""
        return self._states[-1] if self.plan is not None and self._states else None

    @property
    def all(self) -> tuple[StepState, ...]:
        """Those of the plan, in its order, then those that a new plan superseded."""
        return (*self._states, *self._superseded)

    def append(self, step: Step) -> StepState:
        """Give the next step its place."""
        index = len(self._states)
        number = 1
        for other in self._superseded:
            if other.index == index:
                number = max(number, other.following)
        labels = {seen: label_of(self._states[seen].step, seen) for seen in step.references}
        state = StepState(index, step, number, mentioned(step.subtask, labels, self._names))
        for seen in step.access:
            before = self._states[seen]
            before.dependents.append(state)
            state.blocked += before.outcome is None
            state.good += before.is_good
        self._states.append(state)
        return state

    def take(self, plan: Plan, *, last_differs: bool = False) -> list[StepState]:
        """Give each step of the plan its place; return those of steps that it does not have.

        Args:
            plan: the whole plan.
            last_differs: whether the last step is called in a way of its own, so that a step that
                was started as another does not stand for it.
        """
        most, same = len(plan.steps) - last_differs, 0
        while same < min(len(self._states), most) and self._states[same].step == plan.steps[same]:
            same += 1
        others = self._states[same:]
        for state in others:
            if state.runner is not None:
                state.following = state.runner.following
        self._superseded += others
        del self._states[same:]
        for step in plan.steps[same:]:
            self.append(step)
        self.plan = plan
        return others

    def verdict(self, state: StepState) -> Verdict:
        """Return what to do with a step, by the steps that have ended so far.

        A step that cannot start any more is skipped only once the whole plan is known.
        """
        if state.visible is not None or state.outcome is not None:
            return "wait"
        if state.good >= state.least or self._bridges(state):
            return "start"
        if not state.is_lacking or self.plan is None:
            return "wait"
        if self._on_failure == "fail" and not self._is_refused():
            return "abort"
        return "wait" if state.blocked else "skip"

    def _bridges(self, state: StepState) -> bool:
        """Say whether a step runs with a note of the outputs that it lacks.

        It needs one output at least. The last step also does so under `skip` and `fail` when the
        run's limits refused a step, since part of the limits was kept for it.
        """
        if state.blocked or self._refers_to_nothing(state):
            return False
        if not (state.good or (state.step.previous and self._has_previous)):
            return False
        return self._on_failure == "note" or (state is self.last and self._is_refused())

    def _refers_to_nothing(self, state: StepState) -> bool:
        """Say whether the subtask refers to a step that ended without an output."""
        return any(not self._states[seen].is_good for seen in state.step.references)

    def _is_refused(self) -> bool:
        """Say whether a step was refused for the run's limits."""
        ended = (state.outcome.problem for state in self._states if state.outcome is not None)
        return any(problem is not None and problem.code == LimitExceeded.code for problem in ended)

    def lack(self, state: StepState) -> Problem:
        """Return why a step is skipped: the steps whose output it needs and that have none."""
        outcomes = [outcome for seen in state.step.access if (outcome := self._states[seen].outcome)]
        bad = [f"step {one.step} {_ENDS[one.status]}" for one in outcomes if one.status != "ok"]
        return Problem("dependency", f"it lacks an input: {', '.join(bad)}")

    def show(self, state: StepState, labels: frozenset[str], previous: PreviousRound) -> None:
        """Settle what a step that can start is shown: of more than are enough, those that ended first.

        Args:
            state: the step's.
            labels: those every step is shown.
            previous: the round before, which steps that list it are shown.
        """
        step, states = state.step, self._states
        good: Sequence[int] = step.access
        if state.good < len(good):
            good = [seen for seen in good if states[seen].is_good]
        if step.enough is not None and len(good) > step.enough:
            good = sorted(sorted(good, key=lambda seen: states[seen].rank)[: step.enough])
        seen = good if len(good) >= state.least else step.access
        if not step.previous:
            previous = PreviousRound()
        state.visible = (*previous.visible, *[states[index].as_shown() for index in seen])
        state.labels = labels.union(previous.labels, *[states[index].written for index in good])
        if len(good) < len(step.access):
            state.shown = tuple(good)

    @property
    def unwanted(self) -> Iterator[StepState]:
        """The steps that have not ended and that nobody waits for, since enough others had; the latest first.

        Giving one up may leave an earlier one without anybody who waits for it.
        """
        if self.plan is not None:
            for state in reversed(self._states[:-1]):
                if state.outcome is None and not state.is_wanted:
                    yield state

    @property
    def paid(self) -> tuple[tuple[str, Outcome], ...]:
        """What ended well, as it ended, with what stands for it by content."""
        good = sorted(
            (state for state in self.all if state.exact and state.is_good), key=lambda state: state.rank
        )
        return tuple((state.exact, state.outcome) for state in good if state.outcome is not None)
