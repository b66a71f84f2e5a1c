"""The events of a run, as a tagged union.

An event has the ids of its run, round, step and attempt. A nested run has its own id, and its
`RunStarted` names the parent run.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from math import inf
from time import time
from typing import Any, ClassVar, Literal

from podium.budget.limits import Limits, Spend
from podium.secrets import scrub_data
from podium.types.messages import Message, Sampling, Tools
from podium.types.outcome import Action, Call, Outcome, Problem, Proposal
from podium.types.plan import Plan
from podium.types.references import called
from podium.types.result import Result

SCHEMA = 2
"""Version of the events' JSON form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    type: ClassVar[str]
    """The name of the class in snake case, as in `run_started`."""
    run_id: str
    at: float
    """Seconds since the run began, without the time between an interruption and the resume."""

    def __init_subclass__(cls) -> None:
        cls.type = re.sub("(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    def to_json(self) -> dict[str, Any]:
        """Return the event as plain JSON data with its type, without secrets."""
        facts = {each.name: _plain(getattr(self, each.name)) for each in fields(self)}
        return {"schema": SCHEMA, "type": self.type, **scrub_data(facts)}


def _plain(value: object) -> object:
    """Return a value as JSON data; `Plan.from_json` can read the form of a plan."""
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
class _OfRound(_Event):
    round: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfStep(_OfRound):
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfCall(_OfStep):
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(_Event):
    """A query was accepted."""

    workers: tuple[str, ...]
    query: tuple[Message, ...] = ()
    """The conversation; empty if the caller gave a plan without a query."""
    context: dict[str, str] = field(default_factory=dict)
    """Named texts that subtasks may refer to."""
    labels: frozenset[str] = frozenset()
    """The labels of the query."""
    tools: Tools | None = None
    """The tools offered to the worker that writes the answer."""
    sampling: Sampling = Sampling()
    """The sampling settings of that worker."""
    tool_messages: tuple[Message, ...] = ()
    """Tool calls after the query, and their results."""
    recalls: str | None = None
    """The run whose plans and outcomes this run reuses, as in a replay; `None` if it reuses no run."""
    limits: Limits | None = None
    """The limits of the run; `None` if they are not recorded."""
    conductor: str = ""
    """The name of the conductor's card; empty if it is not recorded."""
    asker: str = ""
    """Whose conversation it is; see `RunOptions`."""
    parent: tuple[str, int, int, int] | None = None
    """Run, round, step and attempt that started this nested run; `None` for a run that a user started."""
    plan: str = ""
    """The name of the saved plan that the caller gave; empty for none."""
    args: Mapping[str, Any] | None = None
    """Its arguments."""
    client: Mapping[str, Any] | None = None
    """What the host keeps of its request, as plain JSON; see `RunOptions`."""
    user: str = ""
    """Who asked, in the host's words; empty if it is not known."""

    @property
    def question(self) -> str:
        """What was asked: the saved plan with its arguments, and the last message."""
        plan = [called(self.plan, self.args)] if self.plan else []
        return "\n".join([*plan, *(message.text for message in self.query[-1:])])


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResumed(_Event):
    """A run is resumed from its journal."""

    workers: tuple[str, ...]
    """The pool's workers; their order may differ from the order in `RunStarted`."""
    recovery: int
    """How many times the run was resumed after its process died, including this time."""
    limits: Limits | None = None
    """The new limits of the run; `None` if the limits do not change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundStarted(_OfRound):
    """A round begins."""

    why: str = ""
    """Why the round begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDelta(_OfRound):
    """A planner wrote a piece of plan text."""

    planner: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerStarted(_OfRound):
    """A planner is called."""

    planner: str
    reserved: Spend = Spend()
    """The maximum that the call may spend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerEnded(_OfRound):
    """A planner's call has ended; its text may or may not be the plan."""

    proposal: Proposal
    wait: float | None = None
    """Seconds until the retry of a failed call; `None` if the call is not retried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReady(_OfRound):
    """The round's plan is complete and valid."""

    plan: Plan
    actions: tuple[int, ...] = ()
    """Indices of the steps that are actions."""
    planner: str
    """The planner that wrote the plan; `user` if the caller gave it."""
    why: str = ""
    """Why the planner chose this plan, if it says so."""
    is_fallback: bool = False
    """Whether the fallback planner wrote the plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a person may answer to the question of a step."""

    choices: tuple[str, ...] = ()
    """The possible answers; empty for any text."""
    returns: dict[str, Any] | None = None
    """The JSON schema of the answer; `None` for any text."""
    until: float | None = None
    """When the time to answer ends, in seconds of Unix time; `None` for never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAsked(_OfRound):
    """The run waits for a person.

    It waits for an approval of its plan, of one action, or of a fan-out above `Policy.ask_above`, or for an
    answer to the question of a step.
    """

    plan: Plan
    step: int | None = None
    """The step of the action, the fan-out or the question; `None` for the whole plan."""
    path: str = ""
    """The name of this step inside of maps and blocks; see `Outcome.path`."""
    is_fan_out: bool = False
    action: str = ""
    """The key of the action, the items of the fan-out, or the question; empty for the whole plan."""
    asked: str = ""
    """The arguments of the action, the number and the price of the items, or the text of the question; empty
    for the whole plan."""
    question: Question | None = None
    """What may be answered; `None` for an approval."""

    @property
    def name(self) -> str:
        """The name of the step."""
        return self.path or str(self.step)

    @property
    def left(self) -> float:
        """The seconds that are left to answer; infinity without a deadline."""
        until = None if self.question is None else self.question.until
        return inf if until is None else until - time()

    @property
    def is_late(self) -> bool:
        """Whether the time to answer is over."""
        return self.left <= 0

    @property
    def told(self) -> str:
        """What waits for what, in words."""
        what = "the plan" if self.step is None else f"step {self.name}"
        return f"{what} waits for {'approval' if self.question is None else 'an answer'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalGiven(_OfRound):
    """The plan, or one action, was approved or rejected, or a question was answered or not."""

    step: int | None = None
    """The step of the action or the question; `None` for the whole plan."""
    action: str = ""
    """The key of the action or the question; empty for the whole plan."""
    approved: bool
    answer: str | None = None
    """The answer to a question; `None` for an approval, and for a question that gets no answer."""
    arguments: str | None = None
    """What an approved action is asked to do instead; `None` if it was not changed."""
    plan: Plan | None = None
    """The changed plan; `None` if the plan was not changed, or was rejected."""
    again: bool = False
    """Whether the planner writes another plan after the rejection, and is shown `why`."""
    by: str = ""
    """The person or program that decided."""
    why: str = ""
    """The reason of the decision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FanOut(_OfStep):
    """Items of a map, or a further turn of a loop, are about to start; recorded items are not counted."""

    path: str = ""
    """The name of the map or the loop inside of maps and blocks; see `Outcome.path`."""
    kind: Literal["items", "turn"]
    count: int
    """The number of items; 1 for a turn."""
    known: int = 0
    """The number of items of the map that are known so far, with those that are recorded; 0 for a turn."""
    expected: Spend
    """What they, and the maps over their outputs, are expected to need: by the latest answers of their
    workers, and without answers the least. A loop counts with all its turns."""
    worst: Spend
    """What they need at most."""
    first: tuple[str, ...] = ()
    """The first items, shortened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionDecided(_OfStep):
    """A person said whether an action was carried out."""

    done: bool
    action: str = ""
    """`Action.key`: actions of two plans may have the same step. Empty for the latest action of the step."""
    by: str = ""
    """The person or program that decided."""
    why: str = ""
    """The reason of the decision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted(_OfCall):
    """A step's worker is called. Each retry is another `StepStarted`."""

    path: str = ""
    """The name of an execution inside of a map or a block; see `Outcome.path`."""
    worker: str
    """The step's worker, or its fallback."""
    subtask: str
    reserved: Spend = Spend()
    """The maximum that the call may spend."""
    action: str = ""
    """Hash of the worker and the arguments of an action: see `Action.key`. Empty for other steps."""
    asked: str = ""
    """The arguments of the action; empty for other steps."""
    nests: bool = False
    """Whether the action is a nested run, whose own actions are in its own record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailed(_OfCall):
    """A call of a step's worker failed, and the step continues with another call."""

    call: Call
    wait: float | None = None
    """Seconds until the next call; `None` if a host left the call and runs the step again later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDelta(_OfCall):
    """A step's worker wrote a piece of its output."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEnded(_OfCall):
    """A step has ended, or will not run."""

    outcome: Outcome
    key: str = ""
    """Hash of the step's input, with which a resumed run finds the outcome; empty without a journal."""
    took: Action | None = None
    """The action that the step takes, or waits for, because an equal one was begun before; else `None`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerDelta(_Event):
    """A piece of the answer.

    If the attempt fails, discard its pieces: the next attempt starts the answer again, with
    another `attempt`. `Result.answer` is the whole text.
    """

    round: int | None = None
    """Round, step and attempt that wrote the piece."""
    step: int | None = None
    attempt: int | None = None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedRunEnded(_OfCall):
    """A nested run has ended or stopped. Only runs with a journal have this event."""

    nested: str
    """The id of the nested run."""
    records: int
    """Number of records of the nested run."""
    hash: str
    """Hash of the nested run's last record, with which the hash chain of this run covers the nested run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRunEnded(_OfCall):
    """A run that a worker's code started has ended or stopped. The journal of this run does not record it."""

    nested: str
    """The id of the run."""
    status: str
    """The status of its result; `stopped` if it has no result."""
    calls: int
    """Number of its calls of workers and planners, which count against the limits of this run."""
    steps: int
    """Number of steps that it started, which count against the limits of this run."""
    actions: tuple[Action, ...] = ()
    """Its actions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(_Event):
    """The run has ended, or (`waiting`) can be resumed."""

    result: Result
    cost: float | None = None
    """Cost of the run in USD; `None` when unknown. A journal record has no rounds to compute it from."""
    answer_key: str = ""
    """The hash of asker and answer, by which a later turn finds the labels of the answer; empty for a nested
    run, and without an answer."""

    @classmethod
    def of(cls, result: Result) -> "RunEnded":
        """Return the event for a run with this result."""
        return cls(run_id=result.run_id, at=result.seconds, result=result, cost=result.cost)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStopped(_Event):
    """The run was cancelled, or an error ended it; it can be resumed."""

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
    | FanOut
    | ActionDecided
    | StepStarted
    | StepDelta
    | AttemptFailed
    | StepEnded
    | AnswerDelta
    | NestedRunEnded
    | WorkerRunEnded
    | RunEnded
    | RunStopped
)
"""Any event of a run."""
PIECES = (PlanDelta, StepDelta, AnswerDelta)
"""Events that are not recorded, because a later event has the whole text."""
