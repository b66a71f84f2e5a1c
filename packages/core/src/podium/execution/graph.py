"""The steps of a round and their dependencies."""

from collections.abc import Collection, Iterator, Sequence, Set as AbstractSet
from dataclasses import dataclass, field
from typing import Literal

import anyio

from podium.execution.attempt import Attempt
from podium.execution.context import HostExit, RunContext
from podium.execution.retry import OnFailure
from podium.prompts.prompt import NOT_RUN, gap_of, mentioned
from podium.run_state.actions import AGAIN
from podium.types.outcome import Action, Outcome, Problem
from podium.types.plan import Plan, label_of
from podium.types.steps import Step
from podium.workers.worker import VisibleStep

SUPERSEDED = Problem("superseded", "the step's plan was replaced")
UNSEEN = Problem("unseen", "no later step depends on this step, and it is not the last")
STOPPED = Problem("cancelled", "the run was stopped")
ENOUGH = Problem("enough", "the steps that depend on this step have enough other inputs")
ABORTED = Problem("aborted", "another step failed, and on_failure is fail")

WAITING = "waiting"
"""Problem code: a plan or an action waits for approval."""


@dataclass(slots=True, eq=False)
class StepNode:
    """A step and its state in a round."""

    index: int
    """Its index in its plan, from 0."""
    step: Step
    following: int = 1
    """Number of the next call of its worker."""
    subtask: str = ""
    """The subtask as other steps see it."""
    acts: bool = False
    """Whether the step is an action."""
    action: Action | None = None
    """What the action is asked to do; `None` for other steps, until its inputs are known, and for an input
    that is too long."""
    took: Action | None = None
    """The action that it takes, or waits for, because an equal one was begun before; else `None`."""
    is_whole: bool = False
    """Whether its output is complete, and was made from complete inputs."""
    least: int = field(init=False)
    """Number of steps of the access list that must be `ok` before this step starts."""
    blocked: int = 0
    """Number of steps of the access list that have not ended."""
    good: int = 0
    """Number of steps of the access list that are `ok`; for an action, that are also complete."""
    dependents: list["StepNode"] = field(default_factory=list)
    """The steps that depend on this step."""
    visible: tuple[VisibleStep, ...] | None = None
    """The steps that its worker sees; `None` until the step can start."""
    shown: tuple[int, ...] | None = None
    """The steps whose output the worker sees; `None` means all steps on the access list."""
    labels: frozenset[str] = frozenset()
    """The labels of all data that its worker sees."""
    written: frozenset[str] = frozenset()
    """The labels of its output."""
    exact: str = ""
    """Hash of its input with secrets; empty if not needed."""
    key: str = ""
    """Hash of its input without secrets; empty if not needed."""
    scope: anyio.CancelScope | None = None
    """The scope in which it runs; `None` while it does not run."""
    calls: list[Attempt] = field(default_factory=list)
    """Its calls in this process."""
    order: list[int] = field(init=False)
    """The numbers of the workers that it may call; the next worker is first."""
    has_started: bool = False
    """Whether the ledger has counted its start."""
    early: anyio.Event | None = None
    """Set when the step has ended, if the run started it before the plan was given to the host."""
    left: HostExit | None = None
    """The exception of a step that started early, until the host runs the step."""
    reason: Problem | None = None
    """Why the step was cancelled or skipped by the scheduler."""
    outcome: Outcome | None = None
    rank: int = 0
    """Number of steps of the round that ended before it."""

    def __post_init__(self) -> None:
        self.least, self.order = self.step.least, [self.step.worker]

    @property
    def needs_call(self) -> bool:
        """Whether the step must still call a worker, and no call for it is running."""
        if self.outcome is not None or self.reason is not None:
            return False
        return not self.calls or self.calls[-1].problem is not None

    @property
    def text(self) -> str:
        """The text that the latest call has sent so far."""
        return "".join(self.calls[-1].pieces) if self.calls else ""

    @property
    def is_undecided(self) -> bool:
        """Whether the step waits for inputs."""
        return self.visible is None and self.outcome is None

    @property
    def is_wanted(self) -> bool:
        """Whether another step waits for this step, or was made without it in an earlier process."""
        return any(state.is_undecided or state.lacks(self.index) for state in self.dependents)

    def lacks(self, index: int) -> bool:
        """Return whether the step has ended, and was made without a step that it needed."""
        if not self.is_good or self.shown is None or len(self.shown) >= self.least:
            return False
        return index not in self.shown

    def takes(self, other: "StepNode") -> bool:
        """Return whether another step gives this step an input: an action needs a complete one."""
        return other.is_whole if self.acts else other.is_good

    @property
    def is_good(self) -> bool:
        """Whether the step is `ok`."""
        return self.outcome is not None and self.outcome.status == "ok"

    def released(self) -> "list[StepNode]":
        """Update the counts of the steps that depend on this step after its end, and return them."""
        for state in self.dependents:
            state.blocked -= 1
            state.good += state.takes(self)
        return self.dependents

    def as_shown(self, *, has_output: bool) -> VisibleStep:
        """Return the step as other steps see it, with its output or the reason why it has none."""
        outcome, text, gap = self.outcome, "", ""
        if not has_output:
            gap = (gap_of(outcome) if outcome is not None else "") or NOT_RUN
        elif outcome is not None:
            text = outcome.text
        return VisibleStep(self.index, self.subtask, text, gap, label=self.step.label)


Verdict = Literal["wait", "start", "skip", "abort"]

_ENDS = {"failed": "failed", "cancelled": "was cancelled", "skipped": "was skipped"}


class DependencyGraph:
    """The steps of a round, in the plan's order. Steps can be added before the plan is complete."""

    def __init__(self, context: RunContext, on_failure: OnFailure) -> None:
        self._context = context
        self._on_failure = on_failure
        self._previous = context.previous
        self.states: list[StepNode] = []
        """The steps of the plan, in order."""
        self._superseded: list[StepNode] = []
        self.plan: Plan | None = None
        """The complete plan; `None` until it is known."""

    @property
    def last(self) -> StepNode | None:
        """The state of the plan's last step; `None` until the plan is complete."""
        return self.states[-1] if self.plan is not None and self.states else None

    @property
    def all(self) -> list[StepNode]:
        """The plan's steps in order, then the steps that a new plan superseded."""
        return [*self.states, *self._superseded]

    def append(self, step: Step) -> StepNode:
        """Add the next step and return its state."""
        index, context = len(self.states), self._context
        following = max([1, *(other.following for other in self._superseded if other.index == index)])
        labels = {seen: label_of(self.states[seen].step, seen) for seen in step.references}
        subtask = mentioned(step.subtask, labels, context.request.context)
        state = StepNode(index, step, following, subtask, context.settings.acts(step.worker))
        for seen in step.access:
            before = self.states[seen]
            before.dependents.append(state)
            state.blocked += before.outcome is None
            state.good += state.takes(before)
        self.states.append(state)
        return state

    def take(self, plan: Plan) -> list[StepNode]:
        """Set the complete plan, and return the states of added steps that the plan does not have."""
        most, same = len(plan.steps) - self._context.last_step_differs, 0
        while same < min(len(self.states), most) and self.states[same].step == plan.steps[same]:
            same += 1
        others = self.states[same:]
        self._superseded += others
        del self.states[same:]
        for step in plan.calls[same:]:
            self.append(step)
        self.plan = plan
        return others

    def renew(self, state: StepNode) -> StepNode:
        """Put the same step in the place of a step whose worker turned out to act, after that has ended."""
        again = StepNode(state.index, state.step, state.following, state.subtask, acts=True)
        again.blocked, again.dependents = 1 + state.blocked, state.dependents
        again.good = sum(again.takes(self.states[seen]) for seen in state.step.access)
        self.states[state.index] = again
        self._superseded.append(state)
        state.dependents = [again]
        return again

    def verdict(self, state: StepNode) -> Verdict:
        """Return what to do with a step, based on the steps that have ended."""
        if state.visible is not None or state.outcome is not None or (state.acts and self.plan is None):
            return "wait"
        if state.acts and state.step.previous and not self._previous.is_whole:
            return "skip"
        if state.good >= state.least or self._bridges(state):
            return "start"
        if state.good + state.blocked >= state.least or self.plan is None:
            return "wait"
        ends = [self.states[seen].outcome for seen in state.step.access]
        if self._on_failure == "fail" and any(end is not None and end.status != "ok" for end in ends):
            return "abort"
        return "wait" if state.blocked else "skip"

    def _bridges(self, state: StepNode) -> bool:
        """Return whether a step runs with a note on its missing inputs."""
        if self._on_failure != "note" or state.acts or state.blocked:
            return False
        if not all(self.states[seen].is_good for seen in state.step.references):
            return False
        return bool(state.good) or (state.step.previous and bool(self._previous.visible))

    @property
    def able(self) -> AbstractSet[int]:
        """The indices of the steps that have an output, or may get one without the failed steps."""
        able = set[int]()
        for state in self.states:
            inputs = [
                seen
                for seen in state.step.access
                if seen in able and (self.states[seen].outcome is None or state.takes(self.states[seen]))
            ]
            fewest = state.least
            if not state.acts:
                fewest = min(fewest, 0 if state.step.previous and self._previous.visible else 1)
            may_run = len(inputs) >= fewest and able.issuperset(state.step.references)
            if state.is_good if state.outcome is not None else may_run:
                able.add(state.index)
        return able

    def lack(self, state: StepNode) -> Problem:
        """Return why a step is skipped: the steps that it depends on and that have no output."""
        inputs = [self.states[seen] for seen in state.step.access]
        outcomes = [each.outcome for each in inputs if each.outcome is not None]
        bad = [f"step {one.step} {_ENDS[one.status]}" for one in outcomes if one.status != "ok"]
        if not state.acts:
            return Problem("dependency", f"it lacks an input: {', '.join(bad)}")
        bad += [f"step {each.index} is incomplete" for each in inputs if each.is_good and not each.is_whole]
        if state.step.previous and not self._previous.is_whole:
            bad.append("the previous round is incomplete")
        told = f"an action is carried out only from complete inputs: {', '.join(bad)}"
        kept = [str(each.index) for each in self.states if any(map(each.lacks, each.step.access))]
        if kept and any(each.outcome.reused for each in inputs if each.outcome):
            told += f"; to make step {', '.join(kept)} again, resume the run with refresh=True (--refresh)"
        return Problem("dependency", told)

    def is_whole(self, state: StepNode) -> bool:
        """Return whether the output of a step is complete, and was made from complete inputs."""
        outcome = state.outcome
        if outcome is None or outcome.status != "ok":
            return False
        if outcome.problem is not None and outcome.problem.code != AGAIN:
            return False
        return self.has_whole_inputs(state)

    def has_whole_inputs(self, state: StepNode) -> bool:
        """Return whether all that a step sees is complete, and was made from complete inputs."""
        shown = state.step.access if state.shown is None else state.shown
        whole = not state.step.previous or self._previous.is_whole
        return whole and len(shown) >= state.least and all(self.states[seen].is_whole for seen in shown)

    def show(self, state: StepNode, kept: Sequence[int] | None = None) -> None:
        """Set what a step that can start sees; with `enough`, the steps that ended first."""
        step, states = state.step, self.states
        good: Sequence[int] = step.access if kept is None else kept
        if kept is None and state.good < len(good):
            good = [seen for seen in good if state.takes(states[seen])]
        if step.enough is not None and len(good) > step.enough:
            good = sorted(sorted(good, key=lambda seen: states[seen].rank)[: step.enough])
        state.visible = self.seen(state, good)
        before = self._previous.labels if step.previous else frozenset[str]()
        state.labels = self._context.labels.union(before, *[states[index].written for index in good])
        if len(good) < len(step.access):
            state.shown = tuple(good)

    def seen(self, state: StepNode, good: Collection[int]) -> tuple[VisibleStep, ...]:
        """Return what a step sees if `good` are the steps on its access list with an output."""
        access = good if len(good) >= state.least else state.step.access
        before = self._previous.visible if state.step.previous else ()
        return (*before, *[self.states[index].as_shown(has_output=index in good) for index in access])

    @property
    def unwanted(self) -> Iterator[StepNode]:
        """The unfinished steps that no other step waits for, from the last to the first."""
        for state in reversed(self.states[:-1]):
            if state.outcome is None and not state.acts and not state.is_wanted:
                yield state
