"""The dependencies of a round's steps: which steps can start, what each step sees, and which are not needed.

The graph only decides. `scheduler` starts, stops and ends the steps.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Literal

from podium.execution.retry_policy import OnFailure
from podium.execution.run_context import PreviousRound
from podium.execution.step_state import StepState
from podium.prompts.subtask import mentioned
from podium.resume.action_log import AGAIN
from podium.types.outcome import Outcome, Problem, StepStatus
from podium.types.plan import Plan, Step, label_of
from podium.workers.worker import VisibleStep

Verdict = Literal["wait", "start", "skip", "abort"]

_ENDS = {"failed": "failed", "cancelled": "was cancelled", "skipped": "was skipped"}


class DependencyGraph:
    """The steps of a round, in the plan's order. Steps can be added before the plan is complete.

    Args:
        on_failure: what happens to a step that lacks an input. With `replan` it is skipped, and the plan may
            continue later as with `note`.
        acts: returns whether the steps of a worker are actions.
        previous: the previous round, for steps that list "previous".
        names: the names of the run's texts.
    """

    def __init__(
        self,
        on_failure: OnFailure,
        *,
        acts: Callable[[int], bool],
        previous: PreviousRound,
        names: Collection[str] = (),
    ) -> None:
        self._names = names
        self._on_failure = on_failure
        self._acts = acts
        self._previous = previous
        self._states: list[StepState] = []
        self._superseded: list[StepState] = []
        self.plan: Plan | None = None
        """The complete plan; `None` until it is known."""

    def __iter__(self) -> Iterator[StepState]:
        return iter(self._states)

    def __getitem__(self, index: int) -> StepState:
        return self._states[index]

    @property
    def last(self) -> StepState | None:
        """The state of the plan's last step; `None` until the plan is complete."""
        return self._states[-1] if self.plan is not None and self._states else None

    @property
    def all(self) -> tuple[StepState, ...]:
        """The plan's steps in order, then the steps that a new plan superseded."""
        return (*self._states, *self._superseded)

    def append(self, step: Step) -> StepState:
        """Add the next step and return its state."""
        index = len(self._states)
        number = 1
        for other in self._superseded:
            if other.index == index:
                number = max(number, other.following)
        labels = {seen: label_of(self._states[seen].step, seen) for seen in step.references}
        subtask = mentioned(step.subtask, labels, self._names)
        state = StepState(index, step, number, subtask, acts=self._acts(step.worker))
        for seen in step.access:
            before = self._states[seen]
            before.dependents.append(state)
            state.blocked += before.outcome is None
            state.good += state.takes(before)
        self._states.append(state)
        return state

    def take(self, plan: Plan, *, last_differs: bool = False) -> list[StepState]:
        """Set the complete plan, and return the states of added steps that the plan does not have.

        Args:
            plan: the complete plan.
            last_differs: whether the call of the last step has tools or sampling that other calls do not
                have. Then a step that has already started cannot become the last step.
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

    def renew(self, state: StepState) -> StepState:
        """Put the same step in the place of a step whose worker turned out to act, after that has ended."""
        again = StepState(state.index, state.step, state.following, state.subtask, acts=True)
        again.blocked, again.dependents = 1 + state.blocked, state.dependents
        again.good = sum(again.takes(self._states[seen]) for seen in state.step.access)
        self._states[state.index] = again
        self._superseded.append(state)
        state.dependents = [again]
        return again

    def verdict(self, state: StepState) -> Verdict:
        """Return what to do with a step, based on the steps that have ended.

        A step that can no longer start is skipped only after the plan is complete. An action also starts only
        then, and only if its inputs are complete.
        """
        if state.visible is not None or state.outcome is not None or (state.acts and self.plan is None):
            return "wait"
        if state.acts and state.step.previous and not self._previous.is_whole:
            return "wait" if state.blocked else "skip"
        if state.good >= state.least or self._bridges(state):
            return "start"
        if not state.is_lacking or self.plan is None:
            return "wait"
        if self._on_failure == "fail" and any(map(self._has_failed, state.step.access)):
            return "abort"
        return "wait" if state.blocked else "skip"

    def _has_failed(self, index: int) -> bool:
        outcome = self._states[index].outcome
        return outcome is not None and outcome.status != "ok"

    def _bridges(self, state: StepState) -> bool:
        """Return whether a step runs with a note on its missing inputs.

        A note requires that at least one input exists.
        """
        if self._on_failure != "note" or state.acts or state.blocked or self._refers_to_nothing(state):
            return False
        return bool(state.good) or (state.step.previous and bool(self._previous.visible))

    def fewest_inputs(self, state: StepState) -> int:
        """Return how many inputs a step needs at least, if the other inputs have no output."""
        if self._on_failure not in ("note", "replan") or state.acts:
            return state.least
        may_have_none = state.step.previous and bool(self._previous.visible)
        return min(state.least, 0 if may_have_none else 1)

    def _refers_to_nothing(self, state: StepState) -> bool:
        """Return whether the subtask refers to a step without an output."""
        return any(not self._states[seen].is_good for seen in state.step.references)

    def lack(self, state: StepState) -> Problem:
        """Return why a step is skipped: the steps that it depends on and that have no output."""
        inputs = [self._states[seen] for seen in state.step.access]
        outcomes = [each.outcome for each in inputs if each.outcome is not None]
        bad = [f"step {one.step} {_ENDS[one.status]}" for one in outcomes if one.status != "ok"]
        if not state.acts:
            return Problem("dependency", f"it lacks an input: {', '.join(bad)}")
        bad += [f"step {each.index} is incomplete" for each in inputs if each.is_good and not each.is_whole]
        if state.step.previous and not self._previous.is_whole:
            bad.append("the previous round is incomplete")
        told = f"an action is carried out only from complete inputs: {', '.join(bad)}"
        kept = [str(each.index) for each in self._states if any(map(each.lacks, each.step.access))]
        if kept and any(each.outcome.reused for each in inputs if each.outcome):
            told += f"; to make step {', '.join(kept)} again, resume the run with refresh=True (--refresh)"
        return Problem("dependency", told)

    def is_whole(self, state: StepState) -> bool:
        """Return whether the output of a step is complete, and was made from complete inputs."""
        outcome = state.outcome
        if outcome is None or outcome.status != "ok":
            return False
        if outcome.problem is not None and outcome.problem.code != AGAIN:
            return False
        return self.has_whole_inputs(state)

    def has_whole_inputs(self, state: StepState) -> bool:
        """Return whether all that a step sees is complete, and was made from complete inputs."""
        shown = state.step.access if state.shown is None else state.shown
        whole = not state.step.previous or self._previous.is_whole
        return whole and len(shown) >= state.least and all(self._states[seen].is_whole for seen in shown)

    def show(self, state: StepState, labels: frozenset[str], kept: Sequence[int] | None = None) -> None:
        """Set what a step that can start sees; with `enough`, the steps that ended first.

        Args:
            state: the state of the step.
            labels: the labels of the data that every step sees.
            kept: the steps whose output a recorded result was made from; `None` for a step without one.
        """
        step, states = state.step, self._states
        good: Sequence[int] = step.access if kept is None else kept
        if kept is None and state.good < len(good):
            good = [seen for seen in good if state.takes(states[seen])]
        if step.enough is not None and len(good) > step.enough:
            good = sorted(sorted(good, key=lambda seen: states[seen].rank)[: step.enough])
        state.visible = self.seen(state, good)
        before = self._previous.labels if step.previous else frozenset[str]()
        state.labels = labels.union(before, *[states[index].written for index in good])
        if len(good) < len(step.access):
            state.shown = tuple(good)

    def seen(self, state: StepState, good: Collection[int]) -> tuple[VisibleStep, ...]:
        """Return what a step sees if `good` are the steps on its access list with an output."""
        access = good if len(good) >= state.least else state.step.access
        before = self._previous.visible if state.step.previous else ()
        return (*before, *[self._states[index].as_shown(has_output=index in good) for index in access])

    @property
    def unwanted(self) -> Iterator[StepState]:
        """The unfinished steps that no other step waits for, from the last to the first.

        If such a step is cancelled, no step may wait for an earlier step any more; this earlier step then
        follows.
        """
        if self.plan is not None:
            for state in reversed(self._states[:-1]):
                if state.outcome is None and not state.acts and not state.is_wanted:
                    yield state

    def keyed(self, status: StepStatus) -> tuple[tuple[str, Outcome], ...]:
        """Return the outcomes with a status, in the order in which they ended, each with its exact key."""
        found = [
            (state.rank, state.exact, state.outcome)
            for state in self.all
            if state.exact and state.outcome is not None and state.outcome.status == status
        ]
        return tuple((key, outcome) for _, key, outcome in sorted(found, key=lambda one: one[0]))
