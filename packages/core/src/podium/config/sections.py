"""The tables of `podium.toml`, one model for each kind: names, types and bounds."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field as RecordField, dataclass, fields, is_dataclass
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Discriminator, Field, GetCoreSchemaHandler, Tag, create_model
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from podium.budget.limits import Limits
from podium.errors import ConfigError
from podium.execution.retry import OnFailure, Retry
from podium.hosted import Api, Effort
from podium.plan_text.writer import Spelling
from podium.planners.chat import MAX_EXAMPLES, Show
from podium.policy import Ask, Pin, Policy, Rule
from podium.types.messages import Sampling
from podium.workers.openai.providers import DEFAULT_PROVIDER, Timeouts
from podium.workers.worker import Price


class Section(BaseModel):
    """A table of the file. Unknown keys are errors, and types are not converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class AsTable:
    """Marks a field whose value is a dataclass, written as a table.

    Args:
        positive: whether numbers must be above 0; otherwise 0 is allowed too.
        zero: fields that may be 0 although `positive` is true.
        omit: fields that are not keys of the table.
    """

    positive: bool = False
    zero: tuple[str, ...] = ()
    omit: tuple[str, ...] = ()

    def __get_pydantic_core_schema__(self, record: type[Any], handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of a table with the fields of the dataclass, which builds the dataclass.

        It writes a dataclass as this table.
        """
        section = create_model(record.__name__, __base__=Section, **self._keys(record))

        def build(table: Section) -> Any:
            try:
                return record(**{name: getattr(table, name) for name in type(table).model_fields})
            except ConfigError as error:
                raise PydanticCustomError("refused", "{told}", {"told": str(error)}) from error

        def written(value: Any) -> dict[str, Any]:
            return {name: getattr(value, name) for name in section.model_fields}

        return core_schema.no_info_after_validator_function(
            build,
            handler.generate_schema(section),
            serialization=core_schema.plain_serializer_function_ser_schema(written),
        )

    def _keys(self, record: type[Any]) -> dict[str, Any]:
        return {
            field.name: (self._kind(field), _default(field))
            for field in fields(record)
            if field.name not in self.omit
        }

    def _kind(self, field: RecordField[Any]) -> Any:
        bound = Field(gt=0) if self.positive and field.name not in self.zero else Field(ge=0)
        is_number = field.type in (int, float, int | None, float | None)
        return Annotated[field.type, bound] if is_number else _written(field.type)


def _written(kind: Any) -> Any:
    """Return the type to validate: lists for tuples and sets, tables for dataclasses."""
    origin, args = get_origin(kind), get_args(kind)
    if origin in (tuple, frozenset):
        return Annotated[kind, Field(strict=False)]  # the items stay strict
    if origin is Sequence:
        return list.__class_getitem__(args[0])
    if origin is Mapping:
        return dict.__class_getitem__((args[0], _written(args[1])))
    if origin in (Union, UnionType):
        return Union[tuple(_written(arg) for arg in args)]  # noqa: UP007 - built from a list
    return Annotated[kind, AsTable()] if is_dataclass(kind) else kind


def _default(field: RecordField[Any]) -> Any:
    if field.default is not MISSING:
        return field.default
    return ... if field.default_factory is MISSING else Field(default_factory=field.default_factory)


SamplingTable = Annotated[Sampling, AsTable(omit=("stop", "constraint"))]
PriceTable = Annotated[Price, AsTable(omit=("tiers",))]
Fallback = Literal["rule"]
Count = Annotated[int, Field(gt=0)]
Seconds = Annotated[float, Field(gt=0)]
# The pattern rejects most API keys that are written here by mistake.
VariableName = Annotated[str, Field(pattern="^[A-Z_][A-Z0-9_]*$")]


class EndpointSection(Section):
    """`[endpoints.NAME]`: a server that speaks OpenAI's API."""

    base_url: str
    """URL of the API, with its path: `https://api.openai.com/v1`."""
    provider: str = DEFAULT_PROVIDER
    """Name of the provider, which decides how requests are written."""
    key_env: VariableName | None = None
    """Environment variable that holds the key."""
    timeouts: Annotated[Timeouts, AsTable(positive=True)] | None = None
    """Timeouts of each call; default: the provider's timeouts."""


class ChatSection(Section):
    """`[workers.NAME]` of type `chat`, which is the default: a model behind an endpoint."""

    type: Literal["chat"] = "chat"
    """Kind of the worker."""
    endpoint: str
    """Name of a table `[endpoints.NAME]`."""
    model: str
    """Name of the model at the endpoint."""
    description: str = ""
    """Shown to the planner, which chooses workers by it."""
    price: PriceTable | None = None
    """USD per million tokens; default: the known price of the model."""
    context_window: Count | None = None
    """Maximum tokens of a prompt and its answer together; default: the known value of the model."""
    labels: list[str] = Field(default_factory=list)
    """Labels that the policy refers to."""
    parts: list[str] = Field(default_factory=list)
    """Content parts that the model accepts besides text: `image_url`, `input_audio`, `file`."""
    concurrency: Count | None = None
    """Maximum concurrent calls; default: no limit."""
    free_errors: bool = False
    """Whether the server bills no call that it answers with an error of its own (5xx, without gateways)."""
    sampling: SamplingTable = Sampling()
    """Sampling of each call."""


class CalculatorSection(Section):
    """`[workers.NAME]` of type `calculator`: arithmetic on this machine."""

    type: Literal["calculator"]
    """Kind of the worker."""
    labels: list[str] = Field(default_factory=list)
    """Labels that the policy refers to."""


class DocumentsSection(Section):
    """`[workers.NAME]` of type `documents`: search in a folder of text and Markdown."""

    type: Literal["documents"]
    """Kind of the worker."""
    folder: str
    """Folder of the documents, relative to `podium.toml`."""
    description: str | None = None
    """Shown to the planner; default: a description that names the folder."""
    labels: list[str] = Field(default_factory=list)
    """Labels that the policy refers to."""


class GatherSection(Section):
    """`[workers.NAME]` of type `gather`: joins the outputs of earlier steps."""

    type: Literal["gather"]
    """Kind of the worker."""
    labels: list[str] = Field(default_factory=list)
    """Labels that the policy refers to."""


class McpSection(Section):
    """`[workers.NAME]` of type `mcp`: the tools of an MCP server, each a worker named `NAME.TOOL`.

    `command` starts the server as a process, with `args`, `folder`, `env` and `env_from`; `url` is a running
    server, with `headers` and `headers_env`. API keys stay in Podium's environment: `env_from` passes
    variables on to the process, and `headers_env` names the variable of each header.
    """

    type: Literal["mcp"]
    """Kind of the worker."""
    command: str | None = None
    """Program that speaks MCP on stdio."""
    args: list[str] = Field(default_factory=list)
    """Arguments of `command`."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment variables of the server, with their values."""
    env_from: list[VariableName] = Field(default_factory=list)
    """Environment variables that the server inherits from Podium's environment."""
    folder: str | None = None
    """Working folder of `command`, relative to `podium.toml`."""
    url: str | None = None
    """URL of a server that speaks MCP over HTTP; instead of `command`."""
    headers: dict[str, str] = Field(default_factory=dict)
    """HTTP headers of each request."""
    headers_env: dict[str, VariableName] = Field(default_factory=dict)
    """HTTP headers, each with the environment variable of its value."""
    tools: list[str] | None = None
    """Names of the tools that become workers; default: all tools."""
    resources: list[str] = Field(default_factory=list)
    """URIs of the resources that become workers."""
    seconds: Seconds = 120.0
    """Timeout of a tool call, in seconds."""
    price: PriceTable | None = None
    """USD per million tokens."""
    labels: list[str] = Field(default_factory=list)
    """Labels that the policy refers to."""


class A2aSection(Section):
    """`[workers.NAME]` of type `a2a`: a remote agent."""

    type: Literal["a2a"]
    """Kind of the worker."""
    url: str
    """URL of the agent."""
    headers: dict[str, str] = Field(default_factory=dict)
    """HTTP headers of each request."""
    headers_env: dict[str, VariableName] = Field(default_factory=dict)
    """HTTP headers, each with the environment variable of its value."""
    description: str | None = None
    """Shown to the planner; default: the description in the agent's card."""
    seconds: Seconds = 300.0
    """Timeout of a task, in seconds."""
    acts: bool | None = None
    """Whether a task of the agent is an action: it may change something, so it must not happen twice.

    Default: what the agent's card says, else true.
    """
    price: PriceTable | None = None
    """USD per million tokens."""
    labels: list[str] = Field(default_factory=list)
    """Labels that the policy refers to."""


class ChatPlannerSection(Section):
    """`[planner]` of type `chat`, which is the default: a model writes the plan.

    The model is the model of `worker`, or `model` at `endpoint` with its own price and labels.
    """

    type: Literal["chat"] = "chat"
    """Kind of the planner."""
    worker: str | None = None
    """Name of the worker whose model plans; instead of `endpoint` and `model`."""
    endpoint: str | None = None
    """Name of a table `[endpoints.NAME]`."""
    model: str | None = None
    """Name of the model at the endpoint."""
    price: PriceTable | None = None
    """USD per million tokens."""
    labels: list[str] | None = None
    """Labels of the planner, for the policy; default: the worker's labels."""
    spelling: Spelling = "rows"
    """Format of the plans that the model writes."""
    show: Show = "cards"
    """Whether the prompt shows the workers with their cards, or by number only."""
    shuffle: bool = False
    """Whether each run lists the workers in another order."""
    examples: int | None = Field(default=None, ge=0, le=MAX_EXAMPLES)
    """Number of example plans in the prompt, 0 to 4; default: 4 for `lists` and 2 otherwise."""
    reasons: bool = False
    """Whether the model writes the reason of each step, in a line that is not part of the plan."""
    constrain: bool = True
    """Whether requests have a schema or grammar for the plan, if the server supports it."""
    cache: bool = False
    """Whether the plan of a question is reused for the same workers."""
    sampling: SamplingTable = Sampling()
    """Sampling of each call."""
    fallback: Fallback | None = None
    """Fallback planner, used if this planner fails; the run is then partial."""


class RulePlannerSection(Section):
    """`[planner]` of type `rule`: plans without a model."""

    type: Literal["rule"]
    """Kind of the planner."""


class FixedPlannerSection(Section):
    """`[planner]` of type `fixed`: the same plan for every question."""

    type: Literal["fixed"]
    """Kind of the planner."""
    plan: str
    """File of the plan, relative to `podium.toml`, in any format."""
    fallback: Fallback | None = None
    """Fallback planner, used if the fixed plan is invalid; the run is then partial."""


class HostedSection(Section):
    """`[hosted]`: a remote conductor, which has its own planner and workers.

    `HostedConductor` defines the defaults.
    """

    endpoint: str
    """Name of a table `[endpoints.NAME]`."""
    model: str | None = None
    """Name of the hosted conductor."""
    api: Api | None = None
    """API of the endpoint; default: the default of `HostedConductor`."""
    effort: Effort | None = None
    """Reasoning effort; default: the server's default."""
    max_tokens: Count | None = None
    """Maximum tokens of an answer."""
    price: PriceTable | None = None
    """USD per million tokens."""
    seconds: Seconds | None = None
    """Timeout of a run, in seconds."""


class PoolSection(Section):
    """`[pool]`: measurements of the workers."""

    measured: str | None = None
    """File of measured rates, relative to `podium.toml`, which `podium calibrate` writes."""


class ConductorSection(Section):
    """`[conductor]`: options of the conductor."""

    direct: bool = False
    """Whether a short, simple question goes to one worker without a call of the planner."""
    show_question: bool = True
    """Whether workers see the question besides their subtask."""
    accept: str | None = None
    """Name of the worker that judges each answer; if it rejects the answer, another round follows."""
    on_failure: OnFailure = "note"
    """Reaction to a failed step: run its dependents with a note, skip them, plan again, or end the run."""
    cache: Literal["off", "run", "memory", "shared"] = "off"
    """Reuse of answers: none, within a run, within the process, or in the database of the journal."""


class RuleSection(Section):
    """`[[policy.rules]]`: the workers and planners that may read data with a label."""

    label: str
    """Label of the data."""
    never: list[str] = Field(default_factory=list)
    """Names or labels of workers and planners that never get the data."""
    only: list[str] = Field(default_factory=list)
    """Names or labels of the only workers and planners that may get the data."""


class PinSection(Section):
    """`[[policy.pins]]`: the worker for steps whose subtask has these words."""

    words: str
    """Words of a subtask."""
    worker: str
    """Name of the worker for such steps."""


class PolicySection(Section):
    """`[policy]`: rules for plans. Every field with names of workers also accepts labels of workers."""

    allowed: list[str] = Field(default_factory=list)
    """Workers that plans may use; default: all workers."""
    denied: list[str] = Field(default_factory=list)
    """Workers and planners that are never called."""
    required: list[str] = Field(default_factory=list)
    """Workers each of which must have a step that the answer depends on."""
    regions: list[str] = Field(default_factory=list)
    """Region labels. A worker without one of them is never called; default: no restriction."""
    apart: list[list[str]] = Field(default_factory=list)
    """Pairs of workers that must not be in the same plan."""
    steps: Count | None = None
    """Maximum steps of a plan; default: `plan_steps` of `[limits]`."""
    rules: list[RuleSection] = Field(default_factory=list)
    """Rules for data with labels, as tables `[[policy.rules]]`."""
    pins: list[PinSection] = Field(default_factory=list)
    """Workers for steps with certain words, as tables `[[policy.pins]]`."""
    labels: list[str] = Field(default_factory=list)
    """Labels of queries, which no worker has. With rules, other labels of a query are refused."""
    unknown: list[str] = Field(default_factory=list)
    """Labels of the assistant's messages in a conversation whose own labels are unknown; default: none."""
    approve: Literal["later"] | None = None
    """With `"later"`, each plan, or each action, waits for `podium decide`."""
    ask: Ask = "plans"
    """What needs the approval: each plan (`"plans"`), or each action at its arguments (`"actions"`)."""

    def to_policy(self) -> Policy:
        """Return the policy.

        Raises:
            ConfigError: the policy is invalid.
        """
        said = self.model_dump(exclude_unset=True, exclude={"rules", "pins"})
        rules = [Rule(rule.label, never=rule.never, only=rule.only) for rule in self.rules]
        pins = [Pin(pin.words, pin.worker) for pin in self.pins]
        return Policy(**said, rules=rules, pins=pins)


class JournalSection(Section):
    """`[journal]`: the database that records runs; default: a file in the user's state folder.

    `SqlJournal` defines the other defaults.
    """

    off: bool = False
    """Whether runs are not recorded."""
    path: str | None = None
    """SQLite file, relative to `podium.toml`; default: a file in the user's state folder."""
    url: str | None = None
    """URL of a database: `postgresql://host/runs`."""
    url_env: VariableName | None = None
    """Environment variable with the URL of a database."""
    synchronous: Literal["full", "normal"] | None = None
    """When SQLite flushes to the disk: `full` at each commit, `normal` less often."""
    lease: Seconds | None = None
    """Seconds after which another process may continue a run whose lease was not renewed."""
    patience: Seconds | None = None
    """Seconds for which a failing database is retried."""
    max_recoveries: Annotated[int, Field(ge=0)] | None = None
    """Number of crashes after which a run is not continued."""


def _type_of(table: object) -> object:
    return table.get("type", "chat") if isinstance(table, Mapping) else "chat"


WorkerSection = Annotated[
    Annotated[ChatSection, Tag("chat")]
    | Annotated[CalculatorSection, Tag("calculator")]
    | Annotated[DocumentsSection, Tag("documents")]
    | Annotated[GatherSection, Tag("gather")]
    | Annotated[McpSection, Tag("mcp")]
    | Annotated[A2aSection, Tag("a2a")],
    Discriminator(_type_of),
]
PlannerSection = Annotated[
    Annotated[ChatPlannerSection, Tag("chat")]
    | Annotated[RulePlannerSection, Tag("rule")]
    | Annotated[FixedPlannerSection, Tag("fixed")],
    Discriminator(_type_of),
]


OWN_PLANNERS = ("chat", "rule", "fixed")
"""The types of `[planner]` that need no other package."""


class Sections(Section):
    """The content of `podium.toml`."""

    endpoints: dict[str, EndpointSection] = Field(default_factory=dict)
    """Servers, by name."""
    workers: dict[str, WorkerSection] = Field(default_factory=dict)
    """Workers, by name."""
    pool: PoolSection = PoolSection()
    """Measurements of the workers."""
    planner: PlannerSection | None = None
    """The planner."""
    hosted: HostedSection | None = None
    """A hosted conductor, instead of workers and planner."""
    limits: Annotated[Limits, AsTable(positive=True, zero=("unpriced",))] = Limits()
    """Limits of each run."""
    conductor: ConductorSection = ConductorSection()
    """Options of the conductor."""
    retry: Annotated[Retry, AsTable()] = Field(default_factory=Retry)
    """Retries and fallbacks."""
    policy: PolicySection = PolicySection()
    """The policy."""
    journal: JournalSection = JournalSection()
    """The journal."""
