"""The tools of Podium for MCP clients: `ask`, `plan`, `run_plan`, `list_models`.

The import raises `ConfigError` if the SDK is not installed, or if its version is not 1.
"""

import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

from pydantic import Field, ValidationError

from podium import __version__
from podium.conductor import Conductor
from podium.errors import QueryError
from podium.hosts.results import plan_lines
from podium.mcp.workers import check_sdk
from podium.plan_text.edits import read_saved_plan
from podium.plan_text.saved import SavedPlan
from podium.secrets import scrub
from podium.types import Plan
from podium.types.forecast import explain_forecast
from podium.types.messages import read_query

try:
    from mcp.server.fastmcp import Context, FastMCP
    from mcp.server.fastmcp.exceptions import ToolError
    from mcp.types import CallToolResult, Tool, ToolAnnotations
except ImportError:
    check_sdk()
    raise

_INSTRUCTIONS = (
    "Each model answers a question with a team: it writes a plan, and workers run it. `ask` does both. "
    "`plan` only writes the plan, so that it can be read or changed; `run_plan` runs a plan. "
    "`list_models` lists the models."
)
ToolContext = Context[Any, Any, Any]
Question = Annotated[str, Field(description="The question, with all information that the answer needs.")]
Labels = Annotated[
    list[str] | None, Field(description="Labels of the question, for the rules of the policy.")
]
Model = Annotated[
    str | None, Field(description="The model that answers, of `list_models`; by default the first.")
]
WrittenPlan = Annotated[
    dict[str, Any],
    Field(
        description="A plan in the form that `plan` returns: steps with worker (a name), subtask and access."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call of a tool that plans or runs."""

    context: ToolContext
    model: str
    """The name of the model."""
    conductor: Conductor
    """The conductor of the model."""
    question: str
    """The question; with a plan, empty for the question of the plan."""
    labels: Sequence[str]


class Desk(ABC):
    """Carries out the calls of the tools: it knows the models, who may use them, and who pays."""

    acts: bool
    """Whether a model may act; see `Worker.acts`."""

    @abstractmethod
    def models(self, context: ToolContext, /) -> Mapping[str, str]:
        """Return the names of the models that the client may use, each with its description."""

    @abstractmethod
    def find(self, context: ToolContext, name: str | None, /) -> tuple[str, Conductor]:
        """Return the name and the conductor of a model; with `None`, of the first."""

    @abstractmethod
    async def plan(self, call: ToolCall) -> Plan:
        """Plan the question; exceptions go to `failure`."""

    @abstractmethod
    async def run(self, call: ToolCall, plan: Plan | None) -> CallToolResult:
        """Answer the question, or run a plan, and report the progress; exceptions go to `failure`."""

    @abstractmethod
    def failure(self, error: Exception) -> CallToolResult:
        """Return an error as the result of a tool, or raise it."""


class _Tools:
    """The tools; their arguments and docstrings describe them to clients."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def ask(
        self, question: Question, context: ToolContext, labels: Labels = None, model: Model = None
    ) -> CallToolResult:
        """Answer a question: write a plan, and let a team of workers run it."""

        async def run(call: ToolCall) -> CallToolResult:
            return await self._desk.run(call, None)

        return await self._told(context, model, question, labels, run)

    async def plan(
        self, question: Question, context: ToolContext, labels: Labels = None, model: Model = None
    ) -> CallToolResult:
        """Plan a question without running the plan. The structured content has the plan for `run_plan`."""
        return await self._told(context, model, question, labels, self._plan)

    async def run_plan(
        self,
        plan: WrittenPlan,
        context: ToolContext,
        question: Question = "",
        labels: Labels = None,
        model: Model = None,
    ) -> CallToolResult:
        """Run a plan, for its own question or for another one."""

        async def run(call: ToolCall) -> CallToolResult:
            conductor = call.conductor
            read = read_saved_plan(json.dumps(plan), conductor.pool.names, conductor.limits.plan_steps)
            asked = replace(read, query=read_query(question)) if question else read
            return await self._desk.run(call, asked)

        return await self._told(context, model, question, labels, run)

    async def list_models(self, context: ToolContext) -> CallToolResult:
        """List the models that can answer questions."""
        models = [{"name": name, "description": told} for name, told in self._desk.models(context).items()]
        told = "\n".join(f"{model['name']}: {model['description']}" for model in models)
        return _result([told], structuredContent={"models": models})

    async def _plan(self, call: ToolCall) -> CallToolResult:
        names, made = call.conductor.pool.names, await self._desk.plan(call)
        forecast = call.conductor.forecast(made)
        told = "\n".join([*plan_lines(made, names), explain_forecast(forecast)])
        facts = {"plan": made.to_json(names), "workers": list(names), "forecast": asdict(forecast)}
        return _result([told], structuredContent=facts)

    async def _told(
        self,
        context: ToolContext,
        model: str | None,
        question: str,
        labels: Sequence[str] | None,
        carry_out: Callable[[ToolCall], Awaitable[CallToolResult]],
    ) -> CallToolResult:
        try:
            name, conductor = self._desk.find(context, model)
            return await carry_out(
                ToolCall(
                    context=context, model=name, conductor=conductor, question=question, labels=labels or ()
                )
            )
        except Exception as error:  # noqa: BLE001 - the desk knows its exceptions
            return self._desk.failure(error)


class _Server(FastMCP[Any]):
    """Has a tool for each saved plan, and answers wrong arguments in words."""

    desk: Desk

    def _plans(self) -> Mapping[str, SavedPlan]:
        """Return the saved plans of the first model, by the names of their tools."""
        _, conductor = self.desk.find(self.get_context(), None)
        return {f"plan_{name}": plan for name, plan in conductor.plans.items()}

    async def list_tools(self) -> list[Tool]:
        """Return the tools."""
        hint = ToolAnnotations(readOnlyHint=not self.desk.acts)
        plans = [
            Tool(name=name, description=plan.description, inputSchema=plan.schema, annotations=hint)
            for name, plan in self._plans().items()
        ]
        return [*await super().list_tools(), *plans]

    async def _run_plan(self, plan: SavedPlan, arguments: dict[str, Any]) -> CallToolResult:
        context = self.get_context()
        try:
            name, conductor = self.desk.find(context, None)
            made, asked = plan.plan(plan.arguments(arguments), conductor.pool.names), json.dumps(arguments)
            call = ToolCall(context=context, model=name, conductor=conductor, question=asked, labels=())
            return await self.desk.run(call, replace(made, query=read_query(asked)))
        except Exception as error:  # noqa: BLE001 - the desk knows its exceptions
            return self.desk.failure(error)

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        if name.startswith("plan_") and (plan := self._plans().get(name)) is not None:
            return await self._run_plan(plan, arguments)
        try:
            return await super().call_tool(name, arguments)
        except ToolError as error:
            cause = error.__cause__
            if not isinstance(cause, ValidationError) or cause.title != f"{name}Arguments":
                raise
            properties = next(t.inputSchema["properties"] for t in await self.list_tools() if t.name == name)
            told = "; ".join(_complaint(each) for each in cause.errors())
            told = f"wrong arguments of {name}: {told}; its arguments are {', '.join(properties)}"
            return tool_failure(QueryError.code, told, {})


def _complaint(error: Mapping[str, Any]) -> str:
    argument = ".".join(map(str, error["loc"]))
    match error["type"]:
        case "missing":
            return f"{argument!r} is missing"
        case "extra_forbidden":
            return f"{argument!r} is unknown"
    return f"{argument!r} is {error['input']!r:.80}: {error['msg']}".replace("Input should be", "it must be")


def new_server(desk: Desk, name: str, **settings: Any) -> FastMCP[Any]:
    """Return a server with the tools, which refuse unknown arguments; by default the SDK ignores them."""
    root, handler = logging.getLogger(), logging.NullHandler()
    root.addHandler(handler)  # else the SDK configures the logging of the application
    try:
        server = _Server(name, instructions=_INSTRUCTIONS, log_level="WARNING", **settings)
    finally:
        root.removeHandler(handler)
    server.desk = desk
    server._mcp_server.version = __version__  # noqa: SLF001 - else it is the version of the SDK
    tools, only_reads = _Tools(desk), not desk.acts
    hints: Mapping[Callable[..., Any], bool] = {
        tools.ask: only_reads,
        tools.plan: True,
        tools.run_plan: only_reads,
        tools.list_models: True,
    }
    for tool, reads in hints.items():
        server.add_tool(tool, annotations=ToolAnnotations(readOnlyHint=reads), structured_output=False)
    for made in server._tool_manager.list_tools():  # noqa: SLF001 - the SDK has no public API for this
        model = made.fn_metadata.arg_model
        model.model_config["extra"] = "forbid"
        model.model_rebuild(force=True)
        made.parameters = model.model_json_schema(by_alias=True)
    return server


def tool_answer(facts: Mapping[str, Any]) -> CallToolResult:
    """Return the answer of a run as the result of a tool; if it is incomplete, a second text says why."""
    texts, problem = [facts["answer"]], facts["problem"]
    if problem is not None:
        texts.append(f"The answer is incomplete ({problem['code']}: {problem['message']}).")
    run = {name: facts[name] for name in ("run_id", "status", "problem")}
    return _result(texts, structuredContent=facts, _meta={"podium": run})


def tool_failure(code: str, message: str, facts: Mapping[str, Any]) -> CallToolResult:
    """Return an error as the result of a tool."""
    clean = scrub(message)
    told = {**facts, "code": code, "message": clean}
    return _result([f"{code}: {clean}"], structuredContent=told, isError=True)


def _result(texts: Iterable[str], **more: Any) -> CallToolResult:
    return CallToolResult.model_validate(
        {"content": [{"type": "text", "text": text} for text in texts], **more}
    )
