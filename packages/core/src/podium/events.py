"""What happens in a run, as typed events: one tagged union.

Every event carries the ids of what it belongs to: run, round, step, attempt. A run that
is nested in another has an id of its own and names its parent.
"""

from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar

from podium.outcome import Outcome, Problem
from podium.plan import Plan
from podium.result import Result

SCHEMA = 1
"""Version of the events' JSON form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    type: ClassVar[str]
    run_id: str
    at: float
    """Seconds since the run began."""

    def to_json(self) -> dict[str, Any]:
        """Write the event as plain JSON data, tagged with its type."""
        facts = {field.name: _plain(getattr(self, field.name)) for field in fields(self)}
        return {"schema": SCHEMA, "type": self.type, **facts}


def _plain(value: object) -> object:
    """Return what a fact is in JSON; a plan is in its own form, which is read back."""
    if isinstance(value, Plan):
        return value.to_json()
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(_Event):
    """A query was accepted."""

    type = "run_started"
    workers: tuple[str, ...]
    parent: tuple[str, int, int, int] | None = None
    """Run, round, step and attempt this run answers for; `None` for a run a user started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundStarted(_Event):
    """A round begins; what it was begun for is `why`."""

    type = "round_started"
    round: int
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDelta(_Event):
    """A planner wrote a piece of plan text."""

    type = "plan_delta"
    round: int
    planner: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRejected(_Event):
    """A planner's text was not used."""

    type = "plan_rejected"
    round: int
    planner: str
    text: str
    problem: Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReady(_Event):
    """The round's plan is whole and valid."""

    type = "plan_ready"
    round: int
    plan: Plan
    planner: str
    """Whose plan it is; `user` when it was given."""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted(_Event):
    """A step's worker is called."""

    type = "step_started"
    round: int
    step: int
    attempt: int
    worker: str
    subtask: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDelta(_Event):
    """A step's worker wrote a piece of its output."""

    type = "step_delta"
    round: int
    step: int
    attempt: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEnded(_Event):
    """A step is over, or will never run."""

    type = "step_ended"
    round: int
    step: int
    attempt: int
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerDelta(_Event):
    """A piece of the answer, sent as soon as it is known to be one.

    A step that fails after some of its output was sent is superseded by the result.
    """

    type = "answer_delta"
    round: int | None = None
    """Round, step and attempt whose output it is; `None` for a hosted conductor, which shows none."""
    step: int | None = None
    attempt: int | None = None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(_Event):
    """The run is over."""

    type = "run_ended"
    result: Result


Event = (
    RunStarted
    | RoundStarted
    | PlanDelta
    | PlanRejected
    | PlanReady
    | StepStarted
    | StepDelta
    | StepEnded
    | AnswerDelta
    | RunEnded
)
"""Anything that happens in a run."""

__all__ = [
    "AnswerDelta",
    "Event",
    "PlanDelta",
    "PlanReady",
    "PlanRejected",
    "RoundStarted",
    "RunEnded",
    "RunStarted",
    "StepDelta",
    "StepEnded",
    "StepStarted",
]
