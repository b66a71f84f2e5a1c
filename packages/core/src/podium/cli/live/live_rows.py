"""The state of runs, rounds and steps as records. Reads no event, and draws nothing."""

from dataclasses import dataclass, field
from typing import Literal

from podium.plan_text import PlanReader
from podium.types.outcome import Call, Outcome, Problem, StepStatus
from podium.types.result import Result


@dataclass(slots=True)
class StepRow:
    """The state of one step."""

    worker: str
    """Empty while the plan is being written and the step has not started."""
    subtask: str
    number: str = ""
    """Its index in the plan, with the planner's own number; empty before the plan is whole."""
    sees: tuple[int | str, ...] = ()
    first: int = 1
    """The number of its first call; earlier calls belong to a step that it replaced."""
    last: int = 0
    """The number of its latest call; 0 before the first."""
    since: float | None = None
    """When it started, on the caller's clock, in seconds; `None` before."""
    chars: int = 0
    """Characters the latest call has written so far."""
    failed: list[Call] = field(default_factory=list)
    """Failed calls, after which the step went on."""
    again: float | None = None
    """When it is called again, on the caller's clock; `None` without a retry under way."""
    beside: str = ""
    """The worker of a second, hedged call, because the first is slow."""
    outcome: Outcome | None = None
    """How it ended; `None` before."""
    runs: list["RunRow"] = field(default_factory=list)
    """The runs nested in it."""

    @property
    def status(self) -> StepStatus | Literal["waiting", "running"]:
        """The state of the step."""
        if self.outcome is not None:
            return self.outcome.status
        return "waiting" if self.since is None else "running"


@dataclass(slots=True)
class RoundRow:
    """The state of one round."""

    why: str = ""
    planner: str = ""
    is_fallback: bool = False
    """Whether the fallback planner wrote the plan."""
    plan_why: str = ""
    plan_chars: int = 0
    reader: PlanReader | None = None
    """Reads the steps of a plan that is being written; `None` before, and where it is not readable."""
    read: int = 0
    """Steps that the reader has completed."""
    is_planned: bool = False
    rejected: list[str] = field(default_factory=list)
    """Calls of planners that gave no plan, and why."""
    approval: str = ""
    """The decision on the plan, or that it is still waited for."""
    steps: dict[int, StepRow] = field(default_factory=dict)


@dataclass(slots=True)
class RunRow:
    """The state of one run."""

    workers: tuple[str, ...]
    began: float = 0.0
    """When it started or was resumed, on the caller's clock, in seconds."""
    rounds: dict[int, RoundRow] = field(default_factory=dict)
    answer: str = ""
    """The last characters of the answer so far."""
    answering: tuple[int | None, int | None, int | None] | None = None
    """Round, step and attempt that write the answer; `None` before its first piece."""
    result: Result | None = None
    stopped: Problem | None = None
    """Why it broke off; `None` otherwise."""

    def round(self, number: int) -> RoundRow:
        """Return the row of a round, new if need be."""
        return self.rounds.setdefault(number, RoundRow())
