"""How the steps, rounds and runs on a board stand. Takes in no event, and draws nothing."""

from dataclasses import dataclass, field
from typing import Literal

from podium.types.outcome import Call, Outcome, Problem, StepStatus
from podium.types.result import Result


@dataclass(slots=True)
class StepRow:
    """One step as it stands."""

    worker: str
    subtask: str
    sees: tuple[int, ...] = ()
    first: int = 1
    """Number of its first call; what earlier ones still say is of a step it replaced."""
    last: int = 0
    """Number of its latest call; 0 before any."""
    since: float | None = None
    """When it started, on the caller's clock, in seconds; `None` before."""
    chars: int = 0
    """Characters the latest call has written so far."""
    failed: list[Call] = field(default_factory=list)
    """Calls that came to nothing, after which the step went on."""
    again: float | None = None
    """When it is called again, on the caller's clock; `None` where no call is waited for."""
    beside: str = ""
    """The worker that is asked the same meanwhile, because the first is slow."""
    outcome: Outcome | None = None
    """How it ended; `None` before."""
    runs: list["RunRow"] = field(default_factory=list)
    """The runs nested in it."""

    @property
    def status(self) -> StepStatus | Literal["waiting", "running"]:
        """How it stands."""
        if self.outcome is not None:
            return self.outcome.status
        return "waiting" if self.since is None else "running"


@dataclass(slots=True)
class RoundRow:
    """One round as it stands."""

    why: str = ""
    planner: str = ""
    plan_why: str = ""
    plan_chars: int = 0
    is_planned: bool = False
    rejected: list[str] = field(default_factory=list)
    """What was wrong with plans that were not used."""
    approval: str = ""
    """What someone who was asked said of the plan, or that they are still waited for."""
    steps: dict[int, StepRow] = field(default_factory=dict)


@dataclass(slots=True)
class RunRow:
    """One run as it stands."""

    workers: tuple[str, ...]
    rounds: dict[int, RoundRow] = field(default_factory=dict)
    answer: str = ""
    """The end of what is known of its answer."""
    result: Result | None = None
    stopped: Problem | None = None
    """Why it broke off; `None` while it goes on, and when it has ended."""

    def round(self, number: int) -> RoundRow:
        """Return the row of a round, new if need be."""
        return self.rounds.setdefault(number, RoundRow())
