"""The tables of `podium.toml`, one model for each kind: names, types and bounds."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from podium.budget.limits import Limits
from podium.config.section import (
    RECORD,
    Count,
    Names,
    PriceSection,
    SamplingSection,
    Seconds,
    Section,
    Usd,
    VariableName,
)
from podium.errors import ConfigError
from podium.execution.retry import OnFailure, Retry
from podium.plan_text.writer import Spelling
from podium.planners.chat import MAX_EXAMPLES, Show
from podium.planners.planner import Planner
from podium.policy import Ask, Pin, Policy, Rule
from podium.types.messages import Sampling
from podium.workers.command import Preset
from podium.workers.openai.chat import Api
from podium.workers.openai.endpoint import Endpoint
from podium.workers.openai.providers import DEFAULT_PROVIDER, Timeouts
from podium.workers.person import PERSON
from podium.workers.worker import Worker


class EndpointSection(Section):
    """`[endpoints.NAME]`: a server that speaks OpenAI's API."""

    base_url: str
    """URL of the API, with its path: `https://api.openai.com/v1`."""
    provider: str = DEFAULT_PROVIDER
    """Name of the provider, which decides how requests are written."""
    key_env: VariableName | None = None
    """Environment variable that holds the key."""
    timeouts: Annotated[Timeouts, RECORD] | None = None
    """Timeouts of each call; default: the provider's timeouts."""

    @model_validator(mode="after")
    def _is_endpoint(self) -> Self:
        try:
            Endpoint(self.base_url, provider=self.provider)
        except ConfigError as error:
            raise ValueError(str(error)) from error
        return self


class WorkerTable(Section):
    """The keys of all workers."""

    type: str
    """Kind of the worker."""
    labels: Names = ()
    """Labels that the policy refers to."""


class RemoteTable(WorkerTable):
    """The keys of all workers of a server."""

    headers: dict[str, str] = Field(default_factory=dict)
    """HTTP headers of each request."""
    headers_env: dict[str, VariableName] = Field(default_factory=dict)
    """HTTP headers, each with the environment variable of its value."""
    price: PriceSection | None = None
    """USD per million tokens."""


class ChatSection(WorkerTable):
    """`[workers.NAME]` of type `chat`, which is the default: a model behind an endpoint."""

    type: Literal["chat"] = "chat"
    endpoint: str
    """Name of a table `[endpoints.NAME]`."""
    model: str
    """Name of the model at the endpoint."""
    description: str = ""
    """Shown to the planner, which chooses workers by it."""
    price: PriceSection | None = None
    """USD per million tokens; default: the known price of the model."""
    context_window: Count | None = None
    """Maximum tokens of a prompt and its answer together; default: the known value of the model."""
    parts: Names = ()
    """Content parts that the model accepts besides text: `image_url`, `input_audio`, `file`."""
    concurrency: Count | None = None
    """Maximum concurrent calls; default: no limit."""
    memory: Literal["all", "question", "none"] | int = "all"
    """What of the conversation it is shown; a number stands for the question and so many messages before."""
    accept: str | None = None
    """Regular expression that a readable answer matches somewhere; another answer is asked for again."""
    free_errors: bool = False
    """Whether the server bills no call that it answers with an error of its own (5xx, without gateways)."""
    sampling: SamplingSection = SamplingSection()
    """Sampling of each call."""


class PlainSection(WorkerTable):
    """`[workers.NAME]` of a worker on this machine that has no further key."""

    type: Literal["calculator", "gather", "join", "vote"]
    """It computes arithmetic; or it gathers earlier outputs with their subtasks, joins or counts them."""


class DocumentsSection(WorkerTable):
    """`[workers.NAME]` of type `documents`: search in a folder of text and Markdown."""

    type: Literal["documents"]
    folder: str
    """Folder of the documents, relative to `podium.toml`."""
    description: str | None = None
    """Shown to the planner; default: a description that names the folder."""


class TeamSection(WorkerTable):
    """`[workers.NAME]` of type `conductor`: the conductor of another `podium.toml`, with its own team."""

    type: Literal["conductor"]
    config: str
    """File of the conductor, relative to this one, whose journal records its runs, too."""
    description: str
    """Shown to the planner, which chooses workers by it."""


class PersonSection(WorkerTable):
    """`[workers.NAME]` of type `person`: a person, for whose answers the run waits."""

    type: Literal["person"]
    description: str = PERSON
    """Shown to the planner."""
    choices: Names = ()
    """The possible answers; default: any text."""
    deadline: Seconds | None = None
    """Seconds from a question until `otherwise` stands for the answer; default: no limit."""
    otherwise: str | None = None
    """Answer after the deadline; without it the step then fails."""


class McpSection(RemoteTable):
    """`[workers.NAME]` of type `mcp`: the tools of an MCP server, each a worker named `NAME.TOOL`.

    `command` starts the server as a process, with `args`, `folder`, `env` and `env_from`; `url` is a running
    server, with `headers` and `headers_env`. API keys stay in Podium's environment: `env_from` passes
    variables on to the process, and `headers_env` names the variable of each header.
    """

    type: Literal["mcp"]
    command: str | None = None
    """Program that speaks MCP on stdio."""
    args: Names = ()
    """Arguments of `command`."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment variables of the server, with their values."""
    env_from: tuple[VariableName, ...] = ()
    """Environment variables that the server inherits from Podium's environment."""
    folder: str | None = None
    """Working folder of `command`, relative to `podium.toml`."""
    url: str | None = None
    """URL of a server that speaks MCP over HTTP; instead of `command`."""
    tools: Names | None = None
    """Names of the tools that become workers; default: all tools."""
    resources: Names = ()
    """URIs of the resources that become workers."""
    seconds: Seconds = 120.0
    """Timeout of a tool call, in seconds."""


class A2aSection(RemoteTable):
    """`[workers.NAME]` of type `a2a`: a remote agent."""

    type: Literal["a2a"]
    url: str
    """URL of the agent."""
    description: str | None = None
    """Shown to the planner; default: the description in the agent's card."""
    seconds: Seconds = 300.0
    """Timeout of a task, in seconds."""
    acts: bool | None = None
    """Whether a task is an action; default: what the agent's card says, else true."""


class CommandSection(WorkerTable):
    """`[workers.NAME]` of type `command`: a coding agent, or another program, that runs for each call.

    It gets `PATH`, `HOME`, `LANG` and `TMPDIR` of Podium's environment, `env` and `env_from`.
    """

    type: Literal["command"]
    preset: Preset | None = None
    """Coding agent that the program is; default: any program that writes its answer to stdout."""
    command: Names = ()
    """Program and its arguments; default: the program of the preset."""
    folder: str = ""
    """Working folder, relative to `podium.toml`; default: the folder of `podium.toml`."""
    worktree: bool = False
    """Whether each call works in its own git worktree, which is kept if the program changed something."""
    description: str = ""
    """Shown to the planner, which chooses workers by it."""
    most_cost: Usd | None = None
    """The most that a call may cost, in USD. Without it, a run with a limit of cost is refused."""
    price: PriceSection | None = None
    """USD per million tokens, for a program that reports its tokens and no cost."""
    concurrency: Count | None = None
    """Maximum concurrent calls; default: no limit."""
    memory: Literal["all", "question", "none"] | int = "all"
    """What of the conversation it is shown; a number stands for the question and so many messages before."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment variables of the program, with their values."""
    env_from: tuple[VariableName, ...] = ()
    """Environment variables that the program inherits from Podium's environment."""
    acts: bool = True
    """Whether a call is an action: it may change something, so it must not happen twice."""


class PlannerTable(Section):
    """The keys of all planners."""

    type: str
    """Kind of the planner."""


class ChatPlannerSection(PlannerTable):
    """`[planner]` of type `chat`, which is the default: a model writes the plan.

    The model is the model of `worker`, or `model` at `endpoint` with its own price and labels.
    """

    type: Literal["chat"] = "chat"
    worker: str | None = None
    """Name of the worker whose model plans; instead of `endpoint` and `model`."""
    endpoint: str | None = None
    """Name of a table `[endpoints.NAME]`."""
    model: str | None = None
    """Name of the model at the endpoint."""
    price: PriceSection | None = None
    """USD per million tokens."""
    labels: Names | None = None
    """Labels of the planner, for the policy; default: the worker's labels."""
    spelling: Spelling = "rows"
    """Format of the plans that the model writes."""
    show: Show = "cards"
    """Whether the prompt shows the workers with their cards, or by number only."""
    examples: int | None = Field(default=None, ge=0, le=MAX_EXAMPLES)
    """Number of example plans in the prompt, 0 to 4; default: 4 for `lists` and 2 otherwise."""
    reasons: bool = False
    """Whether the model writes the reason of each step, in a line that is not part of the plan."""
    workflows: bool = False
    """Whether the model is asked for workflows too: typed outputs, maps, conditions, blocks and loops."""
    constrain: bool = True
    """Whether requests have a schema or grammar for the plan, if the server supports it."""
    turns: Annotated[int, Field(ge=2)] | None = None
    """Maximum number of messages of a model that works turn by turn with tool calls; default: it plans."""
    native: bool = True
    """With `turns`, whether tools are sent and called in the fields of the API; otherwise in the text."""
    cache: bool = False
    """Whether the plan of a question is reused for the same workers."""
    sampling: SamplingSection = SamplingSection()
    """Sampling of each call."""
    fallback: Literal["rule"] | None = None
    """Fallback planner, used if this planner fails; the run is then partial."""


class RulePlannerSection(PlannerTable):
    """`[planner]` of type `rule`: plans without a model."""

    type: Literal["rule"]


class FixedPlannerSection(PlannerTable):
    """`[planner]` of type `fixed`: the same plan for every question."""

    type: Literal["fixed"]
    plan: str
    """File of the plan, relative to `podium.toml`; or a plan of `[plans]`: the question is its arguments."""
    fallback: Literal["rule"] | None = None
    """Fallback planner, used if the fixed plan is invalid; the run is then partial."""


class AddedPlanner(PlannerTable, ABC):
    """Base class of a table `[planner]` of another package, for an entry point in `podium.planners`."""

    fallback: Literal["rule"] | None = None
    """Fallback planner, used if this planner fails; the run is then partial."""

    @abstractmethod
    def build(self, folder: Path, workers: Sequence[str]) -> Planner:
        """Build the planner.

        Args:
            folder: the folder of `podium.toml`, to which paths are relative.
            workers: the names of the tables `[workers.NAME]`.

        Raises:
            ConfigError: a value is invalid. A message that begins with a key of the table gets its line.
        """

    def workers(self, folder: Path) -> Sequence[Worker]:  # noqa: ARG002 - for planners with a file
        """Return workers that the plans need besides those of the file, which is in this folder."""
        return ()


class HostedSection(Section):
    """`[hosted]`: a remote conductor, which has its own planner and workers."""

    endpoint: str
    """Name of a table `[endpoints.NAME]`."""
    model: str = "fugu"
    """Name of the hosted conductor."""
    api: Api = "responses"
    """API of the endpoint."""
    effort: Literal["high", "xhigh", "max"] | None = None
    """Reasoning effort; default: the server's default."""
    max_tokens: Count | None = None
    """Maximum tokens of an answer."""
    price: PriceSection | None = None
    """USD per million tokens."""
    seconds: Seconds = 7200.0
    """Timeout of a run, its step and its call, in seconds."""

    def sampling(self) -> Sampling:
        """Return the sampling of each call."""
        return Sampling(effort=self.effort, max_tokens=self.max_tokens)


class PoolSection(Section):
    """`[pool]`: measurements of the workers."""

    measured: str | None = None
    """File of measured rates, relative to `podium.toml`, which `podium evals tune` writes."""


class ConductorSection(Section):
    """`[conductor]`: options of the conductor."""

    direct: bool = False
    """Whether a short, simple question goes to one worker without a call of the planner."""
    show_question: bool = True
    """Whether workers see the question besides their subtask."""
    warm_prefix: bool = False
    """Whether the first item of a map is called alone, so that the prompt cache serves the others."""
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
    never: Names = ()
    """Names or labels of workers and planners that never get the data."""
    only: Names = ()
    """Names or labels of the only workers and planners that may get the data."""


class PinSection(Section):
    """`[[policy.pins]]`: the worker for steps whose subtask has these words."""

    words: str
    """Words of a subtask."""
    worker: str
    """Name of the worker for such steps."""


class PolicySection(Section):
    """`[policy]`: rules for plans. Every field with names of workers also accepts labels of workers."""

    allowed: Names = ()
    """Workers that plans may use; default: all workers."""
    denied: Names = ()
    """Workers and planners that are never called."""
    required: Names = ()
    """Workers each of which must have a step that the answer depends on."""
    regions: Names = ()
    """Region labels. A worker without one of them is never called; default: no restriction."""
    apart: tuple[Names, ...] = ()
    """Pairs of workers that must not be in the same plan."""
    steps: Count | None = None
    """Maximum steps of a plan; default: `plan_steps` of `[limits]`."""
    rules: tuple[RuleSection, ...] = ()
    """Rules for data with labels, as tables `[[policy.rules]]`."""
    pins: tuple[PinSection, ...] = ()
    """Workers for steps with certain words, as tables `[[policy.pins]]`."""
    labels: Names = ()
    """Labels of queries, which no worker has. With rules, other labels of a query are refused."""
    unknown: Names = ()
    """Labels of the assistant's messages in a conversation whose own labels are unknown; default: none."""
    tools: Names | None = None
    """Workers that may call the tools of a client; default: all that take tools."""
    approve: Literal["later"] | None = None
    """With `"later"`, each plan, or each action, waits for `podium decide`."""
    ask: Ask = "plans"
    """What needs the approval: plans, actions at their arguments, or only fan-outs above `ask_above`."""
    ask_above: dict[Literal["calls", "cost"], float] = Field(default_factory=dict)
    """Maximum calls and cost in USD of a run before items of a map, or a further turn, need the approval."""
    fan_out: Literal["fit"] | None = None
    """With `"fit"`, as many items of a map start as the limits allow."""

    def to_policy(self) -> Policy:
        """Return the policy; raise `ConfigError` if it is invalid."""
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


SingleSection = ChatSection | PlainSection | DocumentsSection | A2aSection | CommandSection | PersonSection
"""The tables of one worker."""
WorkerSection = Annotated[
    Annotated[ChatSection, Tag("chat")]
    | Annotated[PlainSection, Tag("calculator")]
    | Annotated[PlainSection, Tag("gather")]
    | Annotated[PlainSection, Tag("join")]
    | Annotated[PlainSection, Tag("vote")]
    | Annotated[DocumentsSection, Tag("documents")]
    | Annotated[McpSection, Tag("mcp")]
    | Annotated[A2aSection, Tag("a2a")]
    | Annotated[CommandSection, Tag("command")]
    | Annotated[PersonSection, Tag("person")]
    | Annotated[TeamSection, Tag("conductor")],
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
    limits: Annotated[Limits, RECORD] = Limits()
    """Limits of each run."""
    conductor: ConductorSection = ConductorSection()
    """Options of the conductor."""
    retry: Annotated[Retry, RECORD] = Field(default_factory=Retry)
    """Retries and fallbacks."""
    policy: PolicySection = PolicySection()
    """The policy."""
    plans: dict[str, str] = Field(default_factory=dict)
    """The files of saved plans, by the names of the plans."""
    journal: JournalSection = JournalSection()
    """The journal."""
