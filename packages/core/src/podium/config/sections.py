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
    """URL of the API, with its path: `https://api.openai.com/v1`."""
    provider: str = DEFAULT_PROVIDER
    """Name from the table of providers; it decides how requests are written."""
    key_env: VariableName | None = None
    """Environment variable that holds the key."""
    timeouts: Annotated[Timeouts, AsTable(positive=True)] | None = None
    """Timeouts of each call; left out, those of the provider."""


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
    """USD per million tokens; left out, it is looked up for known models."""
    context_window: Count | None = None
    """Tokens of a prompt and its answer together; left out, it is looked up for known models."""
    labels: list[str] = Field(default_factory=list)
    """Labels that the policy refers to."""
    parts: list[str] = Field(default_factory=list)
    """Content parts that the model takes besides text: `image_url`, `input_audio`, `file`."""
    concurrency: Count | None = None
    """Calls at the same time; left out, there is no limit."""
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
    """Folder of the documents, relative to the file."""
    description: str | None = None
    """Shown to the planner; left out, it names the folder."""
    labels: list[str] = Field(default_factory=list)
    """Labels that the policy refers to."""


class GatherSection(Section):
    """`[workers.NAME]` of type `gather`: joins what earlier steps returned."""

    type: Literal["gather"]
    """Kind of the worker."""
    labels: list[str] = Field(default_factory=list)
    """Labels that the policy refers to."""


class McpSection(Section):
    """`[workers.NAME]` of type `mcp`: the tools of an MCP server, each a worker named `NAME.TOOL`.

    `command` starts the server, with `args`, `folder` and variables; `url` names one that runs, with
    headers. Keys come from this process's environment: `env_from` lists variables that the server's
    process gets too, `headers_env` gives the variable of each header.
    """

    type: Literal["mcp"]
    """Kind of the worker."""
    command: str | None = None
    """Program that starts the server, which then speaks MCP on stdio."""
    args: list[str] = Field(default_factory=list)
    """Arguments of `command`."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment variables of the server, with their values."""
    env_from: list[VariableName] = Field(default_factory=list)
    """Environment variables that the server gets from Podium's environment."""
    folder: str | None = None
    """Working folder of `command`, relative to the file."""
    url: str | None = None
    """URL of a server that speaks MCP over HTTP; in place of `command`."""
    headers: dict[str, str] = Field(default_factory=dict)
    """HTTP headers of each request."""
    headers_env: dict[str, VariableName] = Field(default_factory=dict)
    """HTTP headers whose values are in environment variables: the variable of each."""
    tools: list[str] | None = None
    """Names of the tools that become workers; left out, all tools do."""
    resources: list[str] = Field(default_factory=list)
    """URIs of the resources that become workers."""
    seconds: Seconds = 120.0
    """Longest call of a tool, in seconds."""
    price: PriceTable | None = None
    """USD per million tokens."""
    labels: list[str] = Field(default_factory=list)
    """Labels that the policy refers to."""


class A2aSection(Section):
    """`[workers.NAME]` of type `a2a`: a remote agent, whose card describes it unless the table does."""

    type: Literal["a2a"]
    """Kind of the worker."""
    url: str
    """URL of the agent."""
    headers: dict[str, str] = Field(default_factory=dict)
    """HTTP headers of each request."""
    headers_env: dict[str, VariableName] = Field(default_factory=dict)
    """HTTP headers whose values are in environment variables: the variable of each."""
    description: str | None = None
    """Shown to the planner; left out, the agent's card is."""
    seconds: Seconds = 300.0
    """Longest task of the agent, in seconds."""
    safe_to_repeat: bool = True
    """Whether a task that may have run is sent again."""
    price: PriceTable | None = None
    """USD per million tokens."""
    labels: list[str] = Field(default_factory=list)
    """Labels that the policy refers to."""


class ChatPlannerSection(Section):
    """`[planner]` of type `chat`, which is the default: a model writes the plan.

    It is named by `worker`, or by `endpoint` and `model` with what rules and prices go by.
    """

    type: Literal["chat"] = "chat"
    """Kind of the planner."""
    worker: str | None = None
    """Name of the worker whose model plans; in place of `endpoint` and `model`."""
    endpoint: str | None = None
    """Name of a table `[endpoints.NAME]`."""
    model: str | None = None
    """Name of the model at the endpoint."""
    price: PriceTable | None = None
    """USD per million tokens."""
    labels: list[str] | None = None
    """Labels of the planner, for the policy; left out, the worker's."""
    spelling: Spelling = "rows"
    """Spelling of the plans that the model is asked for."""
    show: Show = "cards"
    """Show the workers to the model with their cards, or by number only."""
    shuffle: bool = False
    """Whether each run shows the workers in another order."""
    examples: int | None = Field(default=None, ge=0, le=MAX_EXAMPLES)
    """Example plans in the prompt, 0 to 4; left out, 4 for `lists` and 2 otherwise."""
    constrain: bool = True
    """Whether the server is given a schema or grammar for the plan, where it takes one."""
    cache: bool = False
    """Whether the plan of a question is used again for the same workers."""
    sampling: SamplingTable = Sampling()
    """Sampling of each call."""
    fallback: Fallback | None = None
    """Planner that plans if this planner wrote no plan; the run is then partial."""


class RulePlannerSection(Section):
    """`[planner]` of type `rule`: plans without a model."""

    type: Literal["rule"]
    """Kind of the planner."""


class FixedPlannerSection(Section):
    """`[planner]` of type `fixed`: the same plan for every question."""

    type: Literal["fixed"]
    """Kind of the planner."""
    plan: str
    """File of the plan, relative to `podium.toml`, in any spelling."""
    fallback: Fallback | None = None
    """Planner that plans if the fixed plan is invalid; the run is then partial."""


class HostedSection(Section):
    """`[hosted]`: a remote conductor, which brings its own planner and workers.

    What is left out is as `HostedConductor` has it.
    """

    endpoint: str
    """Name of a table `[endpoints.NAME]`."""
    model: str | None = None
    """Name of the hosted conductor."""
    api: Api | None = None
    """API of the endpoint; left out, the conductor's default."""
    effort: Effort | None = None
    """Reasoning effort; left out, the server's default."""
    max_tokens: Count | None = None
    """Most tokens of an answer."""
    price: PriceTable | None = None
    """USD per million tokens."""
    seconds: Seconds | None = None
    """Longest run, in seconds."""


class ConductorSection(Section):
    """`[conductor]`: how the run is directed."""

    direct: bool = False
    """Whether a short question without parts goes to one worker, with no call of the planner."""
    show_question: bool = True
    """Whether workers are shown the question besides their subtask."""
    accept: str | None = None
    """Name of the worker that judges each answer; a further round follows while it rejects the answer."""
    on_failure: OnFailure = "note"
    """Reaction to a failed step: run its dependents with a note, skip them, plan again, or end the run."""
    cache: Literal["off", "run", "memory", "shared"] = "off"
    """Reuse of answers: none, within a run, within the process, or in the database of the journal."""


class RuleSection(Section):
    """`[[policy.rules]]`: where data that carries a label may not go, or may only go."""

    label: str
    """Label of the data."""
    never: list[str] = Field(default_factory=list)
    """Names or labels of workers and planners that the data never reaches."""
    only: list[str] = Field(default_factory=list)
    """Names or labels of the only workers and planners that the data may reach."""


class PinSection(Section):
    """`[[policy.pins]]`: who does steps whose subtask has these words."""

    words: str
    """Words of a subtask."""
    worker: str
    """Name or label of the worker that does such steps."""


class PolicySection(Section):
    """`[policy]`: what plans may do. Where workers are named, a label of theirs will do."""

    allowed: list[str] = Field(default_factory=list)
    """Workers that may do steps; left out, all may."""
    denied: list[str] = Field(default_factory=list)
    """Workers and planners that are never called."""
    required: list[str] = Field(default_factory=list)
    """Each of these workers must do a step that the answer depends on."""
    regions: list[str] = Field(default_factory=list)
    """Labels of regions; a worker without one of them is never called. Left out, all are allowed."""
    apart: list[list[str]] = Field(default_factory=list)
    """Pairs of workers that never work in the same plan."""
    steps: Count | None = None
    """Most steps of a plan; left out, `plan_steps` of `[limits]` holds."""
    rules: list[RuleSection] = Field(default_factory=list)
    """Rules about labels, as tables `[[policy.rules]]`."""
    pins: list[PinSection] = Field(default_factory=list)
    """Kinds of step that go to one worker, as tables `[[policy.pins]]`."""
    approve: Literal["later"] | None = None
    """With `"later"`, each plan waits for `podium approve`."""


class JournalSection(Section):
    """`[journal]`: where runs are recorded; by default a file in the user's state folder.

    What is left out is as `SqlJournal` has it.
    """

    off: bool = False
    """Whether nothing is recorded."""
    path: str | None = None
    """SQLite file, relative to the file; left out, it is in the state folder."""
    url: str | None = None
    """URL of a database: `postgresql://host/runs`."""
    url_env: VariableName | None = None
    """Environment variable that holds the URL of a database."""
    synchronous: Literal["full", "normal"] | None = None
    """When SQLite flushes to the disk: `full` at each commit, `normal` less often."""
    lease: Seconds | None = None
    """Seconds for which a process holds a run without renewing its lease."""
    patience: Seconds | None = None
    """Seconds for which a failing database is retried."""
    max_recoveries: Annotated[int, Field(ge=0)] | None = None
    """Crashes after which a run is dead."""


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
    """Servers, by name."""
    workers: dict[str, WorkerSection] = Field(default_factory=dict)
    """Workers, by name."""
    planner: PlannerSection | None = None
    """The planner."""
    hosted: HostedSection | None = None
    """A hosted conductor, in place of workers and planner."""
    limits: Annotated[Limits, AsTable(positive=True, zero=("unpriced",))] = Limits()
    """Limits of each run."""
    conductor: ConductorSection = ConductorSection()
    """Options of the conductor."""
    retry: Annotated[Retry, AsTable()] = Field(default_factory=Retry)
    """Retries, fallbacks and hedges."""
    policy: PolicySection = PolicySection()
    """The policy."""
    journal: JournalSection = JournalSection()
    """The journal."""
