"""One step's place in a round: what it waits for, what it is shown, and how it ended."""

import anyio

from podium.execution.step_runner import StepRunner
from podium.types.outcome import Outcome, Problem
from podium.types.plan import Step
from podium.workers.worker import VisibleStep

SUPERSEDED = Problem("superseded", "the plan this step was started from was replaced")
UNSEEN = Problem("unseen", "no later step is shown this one, and it is not the last")
STOPPED = Problem("cancelled", "the run was stopped")
ENOUGH = Problem("enough", "enough others had ended for the steps that are shown it")
ABORTED = Problem("aborted", "a step failed, and the run ends with the first that does")

_GAPS = {"failed": "it failed", "cancelled": "it was stopped", "skipped": "it was not run"}


class StepState:
    """A step, and where it stands in its round."""

    __slots__ = (
        "blocked",
        "dependents",
        "exact",
        "following",
        "good",
        "index",
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
        "visible",
        "written",
    )

    def __init__(self, index: int, step: Step, number: int, subtask: str) -> None:
        self.index = index
        self.step = step
        self.subtask = subtask
        """Its subtask as the steps that see it are shown it."""
        self.least = step.least
        """How many of the steps on its access list must end well before it starts."""
        self.number = number
        """Number of its first call."""
        self.following = number
        """Number of the first call of a step that takes its place."""
        self.blocked = 0
        """Steps on its access list that have not ended."""
        self.good = 0
        """Steps on its access list that ended well."""
        self.dependents: list[StepState] = []
        self.visible: tuple[VisibleStep, ...] | None = None
        """What it is shown; `None` until it can start."""
        self.shown: tuple[int, ...] | None = None
        """The steps whose output it is given, where these are not all on its access list."""
        self.labels: frozenset[str] = frozenset()
        """Those of all it is shown."""
        self.written: frozenset[str] = frozenset()
        """Those of what its worker wrote."""
        self.exact = ""
        self.key = ""
        """What stands for it by content, where that is asked for."""
        self.scope: anyio.CancelScope | None = None
        self.runner: StepRunner | None = None
        self.reason: Problem | None = None
        """Why it was given up."""
        self.outcome: Outcome | None = None
        self.rank = 0
        """How many steps of the round ended before it."""

    @property
    def is_undecided(self) -> bool:
        """Whether it has neither become able to start nor ended."""
        return self.visible is None and self.outcome is None

    @property
    def is_lacking(self) -> bool:
        """Whether so many steps on its access list came to nothing that too few are left."""
        return self.good + self.blocked < self.least

    @property
    def is_wanted(self) -> bool:
        """Whether a step still waits for it."""
        return any(state.is_undecided for state in self.dependents)

    @property
    def is_good(self) -> bool:
        """Whether it has ended well."""
        return self.outcome is not None and self.outcome.status == "ok"

    def released(self) -> "list[StepState]":
        """Tell the steps that see this one that it has ended; return them."""
        good = self.is_good
        for state in self.dependents:
            state.blocked -= 1
            state.good += good
        return self.dependents

    def as_shown(self) -> VisibleStep:
        """Return what a step that sees this one is shown of it; it has ended."""
        assert self.outcome is not None
        if self.outcome.status == "ok":
            return VisibleStep(self.index, self.subtask, self.outcome.text, label=self.step.label)
        refused = self.outcome.problem is not None and self.outcome.problem.code == "limit"
        gap = "what the run may spend did not allow for it" if refused else _GAPS[self.outcome.status]
        return VisibleStep(self.index, self.subtask, "", gap, label=self.step.label)
