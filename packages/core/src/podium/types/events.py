"""What happens in a run, as typed events: one tagged union.

Every event carries the ids of what it belongs to: run, round, step, attempt. A run that
is nested in another has an id of its own and names its parent.
"""

from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, ClassVar

from podium.budget.limits import Limits
from podium.budget.spend import Spend
from podium.secrets import scrub_data
from podium.types.messages import Message, Sampling, Tools
from podium.types.outcome import Call, Outcome, Problem, Proposal
from podium.types.plan import Plan
from podium.types.result import Result

SCHEMA = 2
"""Version of the events' JSON form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    type: ClassVar[str]
    run_id: str
    at: float
    """Seconds since the run began; time for which it rested, until it was resumed, does not count."""

    def to_json(self) -> dict[str, Any]:
        """Write the event as plain JSON data, tagged with its type, without secrets."""
        facts = {each.name: _plain(getattr(self, each.name)) for each in fields(self)}
        return {"schema": SCHEMA, "type": self.type, **scrub_data(facts)}


def _plain(value: object) -> object:
    """Return what a fact is in JSON; a plan is in its own form, which is read back."""
    if isinstance(value, Plan):
        return value.to_json()
    if isinstance(value, Message):
        return value.to_wire()
    if isinstance(value, frozenset):
        return sorted(value)
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(_Event):
    """A query was accepted."""

    type = "run_started"
    workers: tuple[str, ...]
    query: tuple[Message, ...] = ()
    """The conversation; empty where a plan was given without one."""
    context: dict[str, str] = field(default_factory=dict)
    """Named texts that subtasks may refer to."""
    labels: frozenset[str] = frozenset()
    """The labels the query carries."""
    tools: Tools | None = None
    """Offered to the worker that writes the answer."""
    sampling: Sampling = Sampling()
    """How that worker is to write."""
    tool_messages: tuple[Message, ...] = ()
    """Calls of tools that followed the query, and what they returned."""
    recalls: str | None = None
    """The run whose plans and outcomes it finds ready, as a replay does; `None` for one that begins anew."""
    limits: Limits | None = None
    """The limits of the run; `None` where its conductor keeps none, or did not record them."""
    parent: tuple[str, int, int, int] | None = None
    """Run, round, step and attempt this run answers for; `None` for a run a user started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResumed(_Event):
    """A run goes on from its journal."""

    type = "run_resumed"
    workers: tuple[str, ...]
    """The pool's workers, whose order may be another than it was."""
    recovery: int
    """How many times the run was taken up after its process had died, this one included."""
    limits: Limits | None = None
    """The limits that replace those of the run from here on; `None` where they stay."""


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
class PlannerStarted(_Event):
    """A planner is called."""

    type = "planner_started"
    round: int
    planner: str
    reserved: Spend = Spend()
    """The most it may spend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerEnded(_Event):
    """A planner's call is over: its text is the plan, or was not used."""

    type = "planner_ended"
    round: int
    proposal: Proposal
    wait: float | None = None
    """Seconds until the planner is called again, after a call that failed; `None` where it is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReady(_Event):
    """The round's plan is whole and valid."""

    type = "plan_ready"
    round: int
    plan: Plan
    planner: str
    """Whose plan it is; `user` when it was given."""
    why: str = ""
    is_fallback: bool = False
    """Whether that is the fallback planner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAsked(_Event):
    """The run waits for someone to look at its plan."""

    type = "approval_asked"
    round: int
    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalGiven(_Event):
    """Someone has looked at the plan."""

    type = "approval_given"
    round: int
    approved: bool
    plan: Plan | None = None
    """The plan as they changed it; `None` where it stands, or was refused."""
    by: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted(_Event):
    """A step's worker is called, once more after every `AttemptFailed`."""

    type = "step_started"
    round: int
    step: int
    attempt: int
    worker: str
    """The step's own, or one that stands in for it."""
    subtask: str
    reserved: Spend = Spend()
    """The most the call may spend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailed(_Event):
    """A call of a step's worker came to nothing, and the step goes on without it."""

    type = "attempt_failed"
    round: int
    step: int
    attempt: int
    call: Call
    wait: float | None = None
    """Seconds until the next call; `None` where another is under way."""


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
    key: str = ""
    """What the step was given, as a hash, by which a journal finds it again; empty where none is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerDelta(_Event):
    """A piece of the answer, sent as soon as it is known to be one.

    Pieces of an attempt that fails are void. The next attempt begins the answer anew, under
    another `attempt`, and `Result.answer` is the whole text.
    """

    type = "answer_delta"
    round: int | None = None
    """Round, step and attempt whose output it is; `None` for a hosted conductor, which shows none."""
    step: int | None = None
    attempt: int | None = None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedRunEnded(_Event):
    """A run that answered a call of this run has ended or stopped. Told only of runs with a journal."""

    type = "nested_run_ended"
    round: int
    step: int
    attempt: int
    nested: str
    """The id of the nested run."""
    records: int
    """How many records the nested run has."""
    hash: str
    """The hash of its last record. So the chain of this run covers the nested run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(_Event):
    """The run is over, or (`waiting`) goes on when it is resumed."""

    type = "run_ended"
    result: Result
    cost: float | None = None
    """Of the result, in USD; `None` if it is unknown. A record has no rounds that would tell it."""

    @classmethod
    def of(cls, result: Result) -> "RunEnded":
        """Return the end of a run with this result."""
        return cls(run_id=result.run_id, at=result.seconds, result=result, cost=result.cost)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStopped(_Event):
    """The run was cancelled, or broke off by an error; it can be resumed."""

    type = "run_stopped"
    problem: Problem


Event = (
    RunStarted
    | RunResumed
    | RoundStarted
    | PlannerStarted
    | PlanDelta
    | PlannerEnded
    | PlanReady
    | ApprovalAsked
    | ApprovalGiven
    | StepStarted
    | StepDelta
    | AttemptFailed
    | StepEnded
    | AnswerDelta
    | NestedRunEnded
    | RunEnded
    | RunStopped
)
"""Anything that happens in a run."""

__all__ = [
    "AnswerDelta",
    "ApprovalAsked",
    "ApprovalGiven",
    "AttemptFailed",
    "Event",
    "NestedRunEnded",
    "PlanDelta",
    "PlanReady",
    "PlannerEnded",
    "PlannerStarted",
    "RoundStarted",
    "RunEnded",
    "RunResumed",
    "RunStarted",
    "RunStopped",
    "StepDelta",
    "StepEnded",
    "StepStarted",
]
