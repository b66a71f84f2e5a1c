"""The tables of `podium.toml`: one model for each kind.

It owns names, types and bounds. It knows no file, no environment and no part that is built
from a table.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from podium.budget.limits import Limits
from podium.config.tables import AsTable, Section
from podium.execution.retry_policy import OnFailure, Retry
from podium.hosted import Api, Effort
from podium.plan_text.writer import Spelling
from podium.planners.planner_prompt import MAX_EXAMPLES, Show
from podium.types.messages import Sampling
from podium.workers.openai.providers import DEFAULT_PROVIDER
from podium.workers.openai.timeouts import Timeouts
from podium.workers.worker import Price

SamplingTable = Annotated[Sampling, AsTable(omit=("stop", "constraint"))]
PriceTable = Annotated[Price, AsTable(omit=("tiers",))]
Fallback = Literal["rule"]
Count = Annotated[int, Field(gt=0)]
Seconds = Annotated[float, Field(gt=0)]
# A key that is put here by mistake rarely looks like the name of a variable.
VariableName = Annotated[str, Field(pattern="^[A-Z_][A-Z0-9_]*$")]


class EndpointSection(Section):
    """`[endpoints.NAME]`: a server that speaks OpenAI's API."""

    base_url: str
    provider: str = DEFAULT_PROVIDER
    key_env: VariableName | None = None
    timeouts: Annotated[Timeouts, AsTable(positive=True)] | None = None


class ChatSection(Section):
    """`[workers.NAME]` of type `chat`, which is the default: a model behind an endpoint."""

    type: Literal["chat"] = "chat"
    endpoint: str
    model: str
    description: str = ""
    price: PriceTable | None = None
    context_window: Count | None = None
    labels: list[str] = Field(default_factory=list)
    parts: list[str] = Field(default_factory=list)
    concurrency: Count | None = None
    sampling: SamplingTable = Sampling()


class CalculatorSection(Section):
    """`[workers.NAME]` of type `calculator`: arithmetic on this machine."""

    type: Literal["calculator"]
    labels: list[str] = Field(default_factory=list)


class DocumentsSection(Section):
    """`[workers.NAME]` of type `documents`: search in a folder of text and Markdown."""

    type: Literal["documents"]
    folder: str
    description: str | None = None
    labels: list[str] = Field(default_factory=list)


class GatherSection(Section):
    """`[workers.NAME]` of type `gather`: joins what earlier steps returned."""

    type: Literal["gather"]
    labels: list[str] = Field(default_factory=list)


class McpSection(Section):
    """`[workers.NAME]` of type `mcp`: the tools of an MCP server, each a worker named `NAME.TOOL`.

    `command` starts the server, with `args`, `folder` and variables; `url` names one that runs, with
    headers. Keys come from this process's environment: `env_from` lists variables that the server's
    process gets too, `headers_env` gives the variable of each header.
    """

    type: Literal["mcp"]
    command: str | None = None
    args: list[str] = Field(default_factory=list)
    env: dict[str, str] = Field(default_factory=dict)
    env_from: list[VariableName] = Field(default_factory=list)
    folder: str | None = None
    url: str | None = None
    headers: dict[str, str] = Field(default_factory=dict)
    headers_env: dict[str, VariableName] = Field(default_factory=dict)
    tools: list[str] | None = None
    resources: list[str] = Field(default_factory=list)
    seconds: Seconds = 120.0
    price: PriceTable | None = None
    labels: list[str] = Field(default_factory=list)


class A2aSection(Section):
    """`[workers.NAME]` of type `a2a`: a remote agent, whose card describes it unless the table does."""

    type: Literal["a2a"]
    url: str
    headers: dict[str, str] = Field(default_factory=dict)
    headers_env: dict[str, VariableName] = Field(default_factory=dict)
    description: str | None = None
    seconds: Seconds = 300.0
    safe_to_repeat: bool = True
    price: PriceTable | None = None
    labels: list[str] = Field(default_factory=list)


class ChatPlannerSection(Section):
    """`[planner]` of type `chat`, which is the default: a model writes the plan.

    It is named by `worker`, or by `endpoint` and `model` with what rules and prices go by.
    """

    type: Literal["chat"] = "chat"
    worker: str | None = None
    endpoint: str | None = None
    model: str | None = None
    price: PriceTable | None = None
    labels: list[str] | None = None
    spelling: Spelling = "rows"
    show: Show = "cards"
    shuffle: bool = False
    examples: int | None = Field(default=None, ge=0, le=MAX_EXAMPLES)
    constrain: bool = True
    cache: bool = False
    sampling: SamplingTable = Sampling()
    fallback: Fallback | None = None


class RulePlannerSection(Section):
    """`[planner]` of type `rule`: plans without a model."""

    type: Literal["rule"]


class FixedPlannerSection(Section):
    """`[planner]` of type `fixed`: the same plan for every question."""

    type: Literal["fixed"]
    plan: str
    fallback: Fallback | None = None


class HostedSection(Section):
    """`[hosted]`: a remote conductor, which brings its own planner and workers.

    What is left out is as `HostedConductor` has it.
    """

    endpoint: str
    model: str | None = None
    api: Api | None = None
    effort: Effort | None = None
    max_tokens: Count | None = None
    price: PriceTable | None = None
    seconds: Seconds | None = None


class ConductorSection(Section):
    """`[conductor]`: how the run is directed."""

    direct: bool = False
    show_question: bool = True
    accept: str | None = None
    on_failure: OnFailure = "note"
    cache: Literal["off", "run", "memory", "shared"] = "off"


class RuleSection(Section):
    """`[[policy.rules]]`: where data that carries a label may not go, or may only go."""

    label: str
    never: list[str] = Field(default_factory=list)
    only: list[str] = Field(default_factory=list)


class PinSection(Section):
    """`[[policy.pins]]`: who does steps whose subtask has these words."""

    words: str
    worker: str


class PolicySection(Section):
    """`[policy]`: what plans may do. Where workers are named, a label of theirs will do."""

    allowed: list[str] = Field(default_factory=list)
    denied: list[str] = Field(default_factory=list)
    required: list[str] = Field(default_factory=list)
    regions: list[str] = Field(default_factory=list)
    apart: list[list[str]] = Field(default_factory=list)
    steps: Count | None = None
    rules: list[RuleSection] = Field(default_factory=list)
    pins: list[PinSection] = Field(default_factory=list)
    approve: Literal["later"] | None = None


class JournalSection(Section):
    """`[journal]`: where runs are recorded; by default a file in the user's state folder.

    What is left out is as `SqlJournal` has it.
    """

    off: bool = False
    path: str | None = None
    url: str | None = None
    url_env: VariableName | None = None
    synchronous: Literal["full", "normal"] | None = None
    lease: Seconds | None = None
    patience: Seconds | None = None
    max_recoveries: Annotated[int, Field(ge=0)] | None = None


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


class Sections(Section):
    """The whole file."""

    endpoints: dict[str, EndpointSection] = Field(default_factory=dict)
    workers: dict[str, WorkerSection] = Field(default_factory=dict)
    planner: PlannerSection | None = None
    hosted: HostedSection | None = None
    limits: Annotated[Limits, AsTable(positive=True, zero=("unpriced",))] = Limits()
    conductor: ConductorSection = ConductorSection()
    retry: Annotated[Retry, AsTable()] = Field(default_factory=Retry)
    policy: PolicySection = PolicySection()
    journal: JournalSection = JournalSection()
