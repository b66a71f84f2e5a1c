"""The state of one step in a round: its missing inputs, what it sees, and its outcome."""

import anyio

from podium.execution.step_runner import StepRunner
from podium.prompts.subtask import NOT_RUN, gap_of
from podium.types.outcome import Action, Outcome, Problem
from podium.types.plan import Step
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
