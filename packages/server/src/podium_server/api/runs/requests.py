"""The parameters and bodies of requests of the runs API, and its refusals."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from podium.conductor import Conductor
from podium.errors import PlanInvalid
from podium.hosts.completions import Body
from podium.run_state.state import for_pool
from podium.types import Plan
from podium_server.errors import ServerError
from podium_server.settings import Effort, check_limits


class NotWaiting(ServerError):
    """The run does not wait for an approval."""

    code = "not_waiting"


class NotCancellable(ServerError):
    """No server process has ended the run in time: another process may execute it."""

    code = "not_cancellable"


class NestedRun(ServerError):
    """The run is nested in another run, so it cannot be changed by itself."""

    code = "nested_run"
    status = 400


class NotBegun(ServerError):
    """The run failed, or was cancelled, before it began."""

    def __init__(self, error: Mapping[str, str]) -> None:
        super().__init__(error["message"])
        self.code = error["code"]


State = Literal["queued", "running", "stopped", "dead", "waiting", "ok", "partial", "failed", "damaged"]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Time = Annotated[float, Field(ge=0, lt=1e12)]


class ListQuery(Body):
    """The parameters of `GET /v1/runs`."""

    limit: Annotated[int, Field(ge=1, le=100)] = 20
    after: Annotated[Name | None, Field(description="`next` of the page before.")] = None
    model: Name | None = None
    status: Annotated[list[State], Field(default_factory=list, max_length=8)]
    label: Name | None = None
    search: Annotated[
        Name | None, Field(description="Runs with this text in the question, the model or the id.")
    ] = None
    key: Annotated[Name | None, Field(description="The id of an API key; needs the role `see`.")] = None
    since: Annotated[Time | None, Field(description="Runs that began then or later, in Unix time.")] = None
    until: Annotated[Time | None, Field(description="Runs that began then or earlier.")] = None


class EventsQuery(Body):
    """The parameters of `GET /v1/runs/{run_id}/events`."""

    after: Annotated[int, Field(ge=-1, lt=2**31)] = -1
    pieces: Annotated[bool, Field(description="Also pieces of texts, which are not recorded.")] = False


class PromptsQuery(Body):
    """The parameters of `GET /v1/runs/{run_id}/prompts`."""

    round: Annotated[int | None, Field(ge=1, lt=2**31, description="Only the steps of this round.")] = None
    step: Annotated[int | None, Field(ge=0, lt=2**31, description="Only the steps with this number.")] = None


def _check_seen(value: object) -> object:
    if isinstance(value, int) or value in ("previous", "outer"):
        return value
    told = "write the number of an earlier step, 'previous', or inside of a block 'outer'"
    raise PydanticCustomError("refused", "{told}", {"told": told})


class PlanStep(Body):
    """A step of a plan: a call of a worker with a subtask, or a block of `steps`."""

    worker: Annotated[int | str | None, Field(description="The name of a worker, or its number.")] = None
    subtask: Annotated[str | None, Field(min_length=1)] = None
    access: Annotated[
        list[Annotated[int | Literal["previous", "outer"], BeforeValidator(_check_seen)]],
        Field(description="The earlier steps that the worker sees."),
    ] = Field(default_factory=list)
    enough: int | None = None
    label: int | None = None
    returns: Annotated[
        dict[str, Any] | list[Any] | str | None,
        Field(description="The JSON schema of the output, or its short form."),
    ] = None
    each: Annotated[
        str | int | list[Any] | None, Field(description="The list for whose items the step runs.")
    ] = None
    item_name: Annotated[str | None, Field(alias="as", description="A name for the item.")] = None
    when: Annotated[dict[str, Any] | None, Field(description="The condition under which it runs.")] = None
    otherwise: Annotated[int | None, Field(alias="else", description="The step that stands for it.")] = None
    steps: Annotated[list["PlanStep"] | None, Field(max_length=1000)] = None
    until: Annotated[dict[str, Any] | None, Field(description="The condition that ends the turns.")] = None
    most: Annotated[int | None, Field(description="Maximum turns.")] = None
    plan: Annotated[Name | None, Field(description="The saved plan of which these are the `steps`.")] = None
    parameters: Annotated[dict[str, Any] | None, Field(description="Its parameters.")] = None
    args: Annotated[dict[str, Any] | None, Field(description="Its arguments.")] = None


class PlanBody(Body):
    """A plan. It may have all fields that a run shows."""

    steps: Annotated[list[PlanStep], Field(min_length=1, max_length=1000)]
    version: Annotated[int | None, Field(alias="schema")] = None
    query: Annotated[Any, Field(description="Ignored: the run has the query.")] = None
    planner: Annotated[Any, Field(description="Ignored.")] = None
    name: Annotated[Name | None, Field(description="The saved plan.")] = None
    parameters: Annotated[dict[str, Any] | None, Field(description="Its parameters.")] = None
    args: Annotated[dict[str, Any] | None, Field(description="Its arguments.")] = None

    def plan(self, workers: Sequence[str]) -> Plan:
        """Return the plan."""
        rows = [step.model_dump(exclude_none=True, by_alias=True) for step in self.steps]
        for index, row in enumerate(rows):
            _put_numbers(row, workers, index)
        saved = {"name": self.name, "parameters": self.parameters, "args": self.args}
        told = {name: value for name, value in saved.items() if value is not None}
        return Plan.from_json({"schema": 1 if self.version is None else self.version, **told, "steps": rows})


Changes = Annotated[dict[str, int | float], AfterValidator(check_limits), Field(max_length=20)]


class NewRun(Body):
    """The body of `POST /v1/runs`."""

    model: Name
    query: Annotated[
        str | Annotated[list[dict[str, Any]], Field(min_length=1, max_length=10_000)],
        Field(description="A question, or a conversation as in chat completions."),
    ]
    plan: PlanBody | None = None
    limits: Annotated[Changes | None, Field(description="Lower limits than those of the model.")] = None
    labels: Annotated[list[Name], Field(max_length=100)] = Field(default_factory=list)
    context: Annotated[dict[str, str], Field(max_length=100)] = Field(default_factory=dict)
    effort: Effort | None = None
    only_plans: Annotated[
        bool, Field(description="Wait for an approval of the plan, also if the policy does not ask for one.")
    ] = False


class ChangedRun(Body):
    """The body of `POST /v1/runs/{run_id}/resume`."""

    plan: Annotated[PlanBody | None, Field(description="Replaces the plan of the last round.")] = None
    limits: Annotated[Changes | None, Field(description="Replace limits of the run.")] = None
    refresh: Annotated[
        bool, Field(description="Also repeat steps that lacked an input which exists by now.")
    ] = False
    force: Annotated[bool, Field(description="Also resume a `dead` run.")] = False


class ReplayedRun(Body):
    """The body of `POST /v1/runs/{run_id}/replay`."""

    plan: Annotated[PlanBody | None, Field(description="Replaces the plan of the last round.")] = None
    step: Annotated[
        int | None,
        Field(ge=0, lt=2**31, description="Call this step, and all that depends on it, again."),
    ] = None
    round: Annotated[int | None, Field(ge=1, lt=2**31, description="Its round; null for the last.")] = None


class PlanToForecast(Body):
    """The body of `POST /v1/runs/{run_id}/forecast`."""

    plan: Annotated[PlanBody | None, Field(description="In place of the plan of the last round.")] = None


Why = Annotated[str, Field(max_length=10_000)]


StepName = Annotated[int, Field(ge=0, lt=2**31)] | Annotated[str, Field(max_length=1000)]
"""The number of a step, or its name inside of maps and blocks, as in `2[17]`."""


class Decision(Body):
    """The body of `POST /v1/runs/{run_id}/refuse`."""

    why: Why = ""
    action: Annotated[
        StepName | None,
        Field(description="What waits at this `step` or `path`; null for all that waits."),
    ] = None


class Approval(Decision):
    """The body of `POST /v1/runs/{run_id}/approve`."""

    arguments: Annotated[
        str | None,
        Field(max_length=1_000_000, description="What the action is to do instead; null for no change."),
    ] = None


class EditedPlan(Body):
    """The body of `POST /v1/runs/{run_id}/edit`."""

    why: Why = ""
    plan: PlanBody


class ActionEnd(Body):
    """The body of `POST /v1/runs/{run_id}/decide`."""

    why: Why = ""
    action: Annotated[
        StepName | None,
        Field(
            description="The `step`, `path` or `key` of the action, or both as in `2@KEY`; or the `step` or "
            "`path` of the question, null for the only one."
        ),
    ] = None
    round: Annotated[
        int | None, Field(ge=1, lt=2**31, description="Its round; null for the only one with an open end.")
    ] = None
    done: Annotated[
        bool | None, Field(description="Whether the action was carried out. If not, the run carries it out.")
    ] = None
    answer: Annotated[
        str | None, Field(max_length=1_000_000, description="Or the answer to the question of the step.")
    ] = None

    @model_validator(mode="after")
    def _says_one(self) -> Self:
        if (self.done is None) == (self.answer is None):
            raise PydanticCustomError("refused", "{told}", {"told": "give either `done` or `answer`"})
        if self.done is not None and self.action is None:
            raise PydanticCustomError("refused", "{told}", {"told": "`done` needs `action`, its step"})
        return self


class JobRequest(Body):
    """What to do with a run in the background."""

    kind: Literal["begin", "resume", "replay"]
    model: str
    query: list[dict[str, Any]]
    plan: dict[str, Any] | None = None
    limits: dict[str, int | float] = Field(default_factory=dict)
    labels: list[str] = Field(default_factory=list)
    context: dict[str, str] = Field(default_factory=dict)
    effort: Effort | None = None
    only_plans: bool = False
    refresh: bool = False
    force: bool = False
    of: str | None = None
    """The run that is replayed."""
    again: list[int] | None = None
    """The round and the step from which it is called again."""
    events: int = 0
    """The number of recorded events of the run before the request."""


def plan_of(
    body: PlanBody | None, conductor: Conductor, recorded: Sequence[str] | None = None
) -> dict[str, Any] | None:
    """Return a plan with the worker numbers of a conductor, as plain JSON."""
    if body is None:
        return None
    names = conductor.pool.names
    plan = body.plan(names if recorded is None else recorded)
    if recorded is not None:
        plan.fit(len(recorded), len(plan.calls), previous=True)
        plan = for_pool(plan, recorded, names)
    limits = conductor.limits
    plan.fit(len(names), limits.plan_steps, previous=recorded is not None)
    plan.check_types(conductor.pool.forms)
    plan.check_sizes(limits.items, limits.turns)
    return plan.to_json()


def _put_numbers(row: dict[str, Any], workers: Sequence[str], step: int) -> None:
    """Replace the names of workers, also inside of blocks, by their numbers."""
    if isinstance(row.get("worker"), str):
        row["worker"] = _number(row["worker"], workers, step)
    for inner in row.get("steps", ()):
        _put_numbers(inner, workers, step)


def _number(name: str, workers: Sequence[str], step: int) -> int:
    if name not in workers:
        known = ", ".join(workers)
        told = f"step {step} names the worker {name!r:.80}; the workers are {known}"
        raise PlanInvalid("unknown_worker", told, step=step)
    return workers.index(name)
