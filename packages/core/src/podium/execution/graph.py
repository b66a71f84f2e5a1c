"""The steps of a round and their dependencies."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set as AbstractSet
from typing import Literal

import anyio

from podium.execution.context import HostExit, PreviousRound, RunContext
from podium.execution.retry import OnFailure
from podium.execution.step import StepRunner
from podium.prompts.prompt import NOT_RUN, gap_of, mentioned
from podium.run_state.actions import AGAIN
from podium.types.outcome import Action, Outcome, Problem, StepStatus
from podium.types.plan import Plan, Step, label_of
from podium.workers.worker import VisibleStep

SUPERSEDED = Problem("superseded", "the step's plan was replaced")
UNSEEN = Problem("unseen", "no later step depends on this step, and it is not the last")
STOPPED = Problem("cancelled", "the run was stopped")
ENOUGH = Problem("enough", "the steps that depend on this step have enough other inputs")
ABORTED = Problem("aborted", "another step failed, and on_failure is fail")

WAITING = "waiting"
"""Problem code: a plan or an action waits for approval."""


class StepState:
    """A step and its state in a round."""

    __slots__ = (
        "action",
        "acts",
        "blocked",
        "dependents",
        "exact",
        "following",
        "good",
        "index",
        "is_whole",
        "key",
        "labels",
        "least",
        "number",
        "outcome",
        "rank",
        "reason",
        "runner",
        "scope",
        "shown",
        "step",
        "subtask",
        "took",
        "visible",
        "written",
    )

    def __init__(self, index: int, step: Step, number: int, subtask: str, *, acts: bool = False) -> None:
        self.index = index
        self.step = step
        self.acts = acts
        """Whether the step is an action."""
        self.action: Action | None = None
        """What the action is asked to do; `None` for other steps, and until its inputs are known."""
        self.took: Action | None = None
        """The action that it takes, or waits for, because an equal one was begun before; else `None`."""
        self.is_whole = False
        """Whether its output is complete, and was made from complete inputs."""
        self.subtask = subtask
        """The subtask as other steps see it."""
        self.least = step.least
        """Number of steps of the access list that must be `ok` before this step starts."""
        self.number = number
        """Number of its first call."""
        self.following = number
        """Number of the first call of a step that replaces this step."""
        self.blocked = 0
        """Number of steps of the access list that have not ended."""
        self.good = 0
        """Number of steps of the access list that are `ok`; for an action, that are also complete."""
        self.dependents: list[StepState] = []
        """The steps that depend on this step."""
        self.visible: tuple[VisibleStep, ...] | None = None
        """The steps that its worker sees; `None` until the step can start."""
        self.shown: tuple[int, ...] | None = None
        """The steps whose output the worker sees; `None` means all steps on the access list."""
        self.labels: frozenset[str] = frozenset()
        """The labels of all data that its worker sees."""
        self.written: frozenset[str] = frozenset()
        """The labels of its output."""
        self.exact = ""
        """Hash of its input with secrets; empty if not needed."""
        self.key = ""
        """Hash of its input without secrets; empty if not needed."""
        self.scope: anyio.CancelScope | None = None
        self.runner: StepRunner | None = None
        self.reason: Problem | None = None
        """Why the step was cancelled or skipped by the scheduler."""
        self.outcome: Outcome | None = None
        self.rank = 0
        """Number of steps of the round that ended before it."""

    @property
    def has_started(self) -> bool:
        """Whether the ledger has counted the step's start."""
        return self.outcome is not None or (self.runner is not None and self.runner.has_started)

    @property
    def needs_call(self) -> bool:
        """Whether the step has not ended, and no call for it is running."""
        return self.outcome is None and not (self.runner is not None and self.runner.is_calling)

    @property
    def has_failed_call(self) -> bool:
        """Whether the step has not ended, and its latest call has failed."""
        return self.needs_call and self.runner is not None and self.runner.has_called

    @property
    def next_worker(self) -> int:
        """The number of the worker that is called next."""
        return self.step.worker if self.runner is None else self.runner.next_worker

    @property
    def is_undecided(self) -> bool:
        """Whether the step waits for inputs."""
        return self.visible is None and self.outcome is None

    @property
    def is_lacking(self) -> bool:
        """Whether too many steps of the access list have failed for this step to get enough inputs."""
        return self.good + self.blocked < self.least

    @property
    def is_wanted(self) -> bool:
        """Whether another step waits for this step, or was made without it in an earlier process."""
        return any(state.is_undecided or state.lacks(self.index) for state in self.dependents)

    def lacks(self, index: int) -> bool:
        """Return whether the step has ended, and was made without a step that it needed."""
        return (
            self.is_good
            and self.shown is not None
            and len(self.shown) < self.least
            and index not in self.shown
        )

    def takes(self, other: "StepState") -> bool:
        """Return whether another step gives this step an input: an action needs a complete one."""
        return other.is_whole if self.acts else other.is_good

    @property
    def is_ended(self) -> bool:
        """Whether the step has an outcome."""
        return self.outcome is not None

    @property
    def is_good(self) -> bool:
        """Whether the step is `ok`."""
        return self.outcome is not None and self.outcome.status == "ok"

    def released(self) -> "list[StepState]":
        """Update the counts of the steps that depend on this step after its end, and return them."""
        for state in self.dependents:
            state.blocked -= 1
            state.good += state.takes(self)
        return self.dependents

    def as_shown(self, *, has_output: bool) -> VisibleStep:
        """Return the step as other steps see it, with its output or the reason why it has none."""
        outcome, gap = self.outcome, "" if has_output else NOT_RUN
        if outcome is not None and not has_output:
            gap = gap_of(outcome) or NOT_RUN
        text = outcome.text if outcome is not None and has_output else ""
        return VisibleStep(self.index, self.subtask, text, gap, label=self.step.label)


Verdict = Literal["wait", "start", "skip", "abort"]

_ENDS = {"failed": "failed", "cancelled": "was cancelled", "skipped": "was skipped"}


class DependencyGraph:
    """The steps of a round, in the plan's order. Steps can be added before the plan is complete."""

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
        """Set the complete plan, and return the states of added steps that the plan does not have."""
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
        """Return what to do with a step, based on the steps that have ended."""
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
        """Return whether a step runs with a note on its missing inputs."""
        if self._on_failure != "note" or state.acts or state.blocked or self._refers_to_nothing(state):
            return False
        return bool(state.good) or (state.step.previous and bool(self._previous.visible))

    def fewest_inputs(self, state: StepState) -> int:
        """Return how many inputs a step needs at least, if the other inputs have no output."""
        if self._on_failure not in ("note", "replan") or state.acts:
            return state.least
        may_have_none = state.step.previous and bool(self._previous.visible)
        return min(state.least, 0 if may_have_none else 1)

    @property
    def able(self) -> AbstractSet[int]:
        """The indices of the steps that have an output, or may get one without the failed steps."""
        able = set[int]()
        for state in self._states:
            inputs = [
                seen
                for seen in state.step.access
                if seen in able and (self._states[seen].outcome is None or state.takes(self._states[seen]))
            ]
            may_run = len(inputs) >= self.fewest_inputs(state) and able.issuperset(state.step.references)
            if state.is_good if state.outcome is not None else may_run:
                able.add(state.index)
        return able

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
        """Set what a step that can start sees; with `enough`, the steps that ended first."""
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
        """The unfinished steps that no other step waits for, from the last to the first."""
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


class EarlySteps:
    """Records which steps the run started itself; the host waits for them and does not start them."""

    def __init__(self, context: RunContext) -> None:
        self.is_hosted = context.request.step_starter is not None
        """Whether a host starts the steps."""
        self._workers = context.settings.pool.workers
        self._ends: dict[StepState, anyio.Event] = {}
        self._exits: dict[StepState, HostExit] = {}

    def __contains__(self, state: StepState) -> bool:
        return state in self._ends

    def admit(self, ready: list[StepState], *, is_whole: bool) -> list[StepState]:
        """Return the steps that the run starts itself."""
        if not self.is_hosted:
            return ready
        if is_whole:
            return []
        admitted = [state for state in ready if not self._workers[state.step.worker].is_interruptible]
        self._ends |= {state: anyio.Event() for state in admitted}
        return admitted

    def leave_to_host(self, states: Iterable[StepState]) -> None:
        """Leave the admitted steps that have not begun to the host."""
        for state in states:
            if state.runner is None and state.outcome is None:
                self._ends.pop(state, None)

    def exit(self, state: StepState, left: HostExit) -> None:
        """Keep the exception of a step until the host runs the step."""
        self._exits[state] = left

    def ended(self, state: StepState) -> None:
        """Wake the host that waits for a step."""
        if state in self._ends:
            self._ends[state].set()

    async def wait(self, state: StepState) -> None:
        """Wait until a step has ended, if the run has started it."""
        if state in self._ends:
            await self._ends[state].wait()
            del self._ends[state]
            if state in self._exits:
                raise self._exits.pop(state)
