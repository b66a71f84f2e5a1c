"""Records for the state of runs, rounds and steps. `live_state` fills them."""

from dataclasses import dataclass, field
from typing import Literal

from podium.plan_text import PlanReader
from podium.types.outcome import Call, Outcome, Problem, StepStatus
from podium.types.result import Result


@dataclass(slots=True)
class StepRow:
    """The state of one step."""

    worker: str
    """Empty while the planner writes the plan and the step has not started."""
    subtask: str
    number: str = ""
    """Its index in the plan, with the planner's own number; empty until the plan is complete."""
    sees: tuple[int | str, ...] = ()
    acts: bool = False
    """Whether it is an action."""
    first: int = 1
    """The number of its first call; earlier calls belong to the step that it replaced."""
    last: int = 0
    """The number of its latest call; 0 before the first call."""
    since: float | None = None
    """When it started, on the caller's clock, in seconds; `None` before the start."""
    chars: int = 0
    """Characters that the latest call has written so far."""
    failed: list[Call] = field(default_factory=list)
    """Failed calls that did not end the step."""
    again: float | None = None
    """When the step is retried, on the caller's clock; `None` if no retry is scheduled."""
    outcome: Outcome | None = None
    """The outcome; `None` before the end."""
    runs: list["RunRow"] = field(default_factory=list)
    """The runs nested in it."""

    @property
    def status(self) -> StepStatus | Literal["waiting", "running"]:
        """The outcome's status, or `waiting` or `running` before the end."""
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
    """Parses the plan while the planner writes it; `None` before the first piece and after an error."""
    read: int = 0
    """Number of steps that `reader` has returned."""
    is_planned: bool = False
    rejected: list[str] = field(default_factory=list)
    """The problems of planner calls that returned no plan."""
    approval: str = ""
    """The decision on the plan, or that the plan waits for it; empty if no approval is needed."""
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
    """Why the run was interrupted; `None` if it was not."""

    def round(self, number: int) -> RoundRow:
        """Return the row of a round; add it if it is missing."""
        return self.rounds.setdefault(number, RoundRow())
