"""Serves a conductor to MCP clients: the tools `ask`, `plan`, `run_plan`, on stdio.

The import raises `ConfigError` if the SDK is not installed, or if its version is not 1.
"""

import json
import logging
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager, redirect_stdout, suppress
from dataclasses import asdict, replace
from typing import Annotated, Any, TextIO

import anyio
from pydantic import BaseModel, Field

from podium.aio.sync import events_of
from podium.conductor import Conductor
from podium.errors import PodiumError, RunWaiting
from podium.hosts import result_metadata
from podium.hosts.results import plan_lines
from podium.mcp.workers import check_sdk
from podium.plan_text import read_saved_plan
from podium.run.approval import how_to_decide
from podium.secrets import scrub
from podium.types import Plan, Result
from podium.types.events import ApprovalAsked, Event, PlanReady, StepEnded, StepStarted
from podium.types.messages import read_query
from podium.types.result import explain_forecast

try:
    from mcp.server.fastmcp import Context, FastMCP
    from mcp.server.stdio import stdio_server
    from mcp.types import CallToolResult, ToolAnnotations
except ImportError:
    check_sdk()
    raise

_INSTRUCTIONS = (
    "A conductor answers a question: it writes a plan, and a team of workers runs it. `ask` does both. "
    "`plan` only writes the plan, so that it can be read or changed; `run_plan` runs a plan."
)
_USER = "the user of the MCP client"
_Context = Context[Any, Any, Any]
Question = Annotated[str, Field(description="The question, with all information that the answer needs.")]
Labels = Annotated[
    list[str] | None, Field(description="Labels of the question, for the rules of the policy.")
]
SavedPlan = Annotated[
    dict[str, Any],
    Field(
        description="A plan in the form that `plan` returns: steps with worker (a name), subtask and access."
    ),
]
Listen = Callable[[Event], None]


def new_server(
    name: str,
    tools: Iterable[tuple[Callable[..., Awaitable[CallToolResult]], bool]],
    *,
    instructions: str,
    **settings: Any,
) -> FastMCP[Any]:
    """Return a server with tools. Unknown arguments of a call are an error; by default the SDK ignores them.

    Args:
        name: the server's name.
        tools: the tools, each with whether a call changes nothing outside. A tool is an async function whose
            arguments and docstring describe it to clients; the SDK passes the call's context to its argument
            of the type `Context`.
        instructions: the description of the server for clients.
        settings: further arguments of `FastMCP`.
    """
    root, handler = logging.getLogger(), logging.NullHandler()
    root.addHandler(handler)  # else the SDK configures the logging of the application
    try:
        server: FastMCP[Any] = FastMCP(name, instructions=instructions, log_level="WARNING", **settings)
    finally:
        root.removeHandler(handler)
    for tool, reads_only in tools:
        server.add_tool(tool, annotations=ToolAnnotations(readOnlyHint=reads_only), structured_output=False)
    for made in server._tool_manager.list_tools():  # noqa: SLF001 - the SDK has no public API for this
        model = made.fn_metadata.arg_model
        model.model_config["extra"] = "forbid"
        model.model_rebuild(force=True)
        made.parameters = model.model_json_schema(by_alias=True)
    return server


def tool_answer(facts: Mapping[str, Any]) -> CallToolResult:
    """Return the answer of a run as the result of a tool; if it is incomplete, a second text says why.

    Args:
        facts: the structured content, as JSON data: `answer`, `run_id`, `status`, `problem` and others.
    """
    texts, problem = [facts["answer"]], facts["problem"]
    if problem is not None:
        texts.append(f"The answer is incomplete ({problem['code']}: {problem['message']}).")
    run = {name: facts[name] for name in ("run_id", "status", "problem")}
    return _result(texts, structuredContent=facts, _meta={"podium": run})


def tool_failure(code: str, message: str, facts: Mapping[str, Any]) -> CallToolResult:
    """Return an error as the result of a tool.

    Args:
        code: the error's code.
        message: the error's message.
        facts: more structured content, as JSON data.
    """
    clean = scrub(message)
    told = {**facts, "code": code, "message": clean}
    return _result([f"{code}: {clean}"], structuredContent=told, isError=True)


def _result(texts: Iterable[str], **more: Any) -> CallToolResult:
    return CallToolResult.model_validate(
        {"content": [{"type": "text", "text": text} for text in texts], **more}
    )


def _answered(result: Result) -> CallToolResult:
    metadata = result_metadata(result)
    if result.problem is not None and result.status != "partial":
        return tool_failure(result.problem.code, f"run {result.run_id}: {result.problem.message}", metadata)
    return tool_answer({**metadata, "answer": result.answer})


def make_server(conductor: Conductor, *, name: str = "podium") -> FastMCP[Any]:
    """Return an MCP server for a conductor, a `FastMCP` of the SDK.

    Args:
        conductor: the conductor, which stays open while the server runs.
        name: the server's name.
    """

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncGenerator[None, None]:
        async with conductor:
            yield

    own, reads_only = _Tools(conductor), not conductor.acts
    return new_server(
        name,
        [(own.ask, reads_only), (own.plan, True), (own.run_plan, reads_only)],
        instructions=_INSTRUCTIONS,
        lifespan=lifespan,
    )


class _Tools:
    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    async def ask(self, question: Question, context: _Context, labels: Labels = None) -> CallToolResult:
        """Answer a question: write a plan, and let a team of workers run it."""

        async def run(listen: Listen) -> Result:
            return await self._conductor.run(question, labels=labels or (), on_event=listen)

        return await self._run(context, run)

    async def plan(self, question: Question, labels: Labels = None) -> CallToolResult:
        """Plan a question without running the plan. The structured content has the plan for `run_plan`."""
        names = self._conductor.pool.names
        try:
            made = await self._conductor.plan(question, labels=labels or ())
            forecast = self._conductor.forecast(made)
        except PodiumError as error:
            return tool_failure(error.code, str(error), {})
        told = "\n".join([*plan_lines(made, names), explain_forecast(forecast)])
        facts = {"plan": made.to_json(names), "workers": list(names), "forecast": asdict(forecast)}
        return _result([told], structuredContent=facts)

    async def run_plan(
        self, plan: SavedPlan, context: _Context, question: Question = "", labels: Labels = None
    ) -> CallToolResult:
        """Run a plan, for its own question or for another one."""
        conductor = self._conductor

        async def run(listen: Listen) -> Result:
            read = read_saved_plan(json.dumps(plan), conductor.pool.names, conductor.limits.plan_steps)
            asked: Plan = replace(read, query=read_query(question)) if question else read
            return await conductor.run(asked, labels=labels or (), on_event=listen)

        return await self._run(context, run)

    async def _run(self, context: _Context, run: Callable[[Listen], Awaitable[Result]]) -> CallToolResult:
        """Run a query. While it waits for approval, ask the user of the client."""
        conductor, progress = self._conductor, _Progress(context)
        client = context.session.client_params
        try:
            result = await progress.of(run)
            run_id = result.run_id
            while result.status == "waiting":
                if client is None or client.capabilities.elicitation is None:
                    lack = "this client cannot ask its user (it has no elicitation)"
                    told = f"the plan waits for approval, and {lack}: {how_to_decide(run_id)}"
                    return tool_failure(RunWaiting.code, told, result_metadata(result))
                decided = await context.elicit(_question(progress.waiting, conductor.pool.names), Decision)
                if decided.action == "cancel":
                    told = f"nobody decided on the plan of run {run_id}: {how_to_decide(run_id)}"
                    return tool_failure(RunWaiting.code, told, {"run_id": run_id})
                given = decided.data if decided.action == "accept" else Decision(approve=False)
                await conductor.decide(run_id, approved=given.approve, by=_USER, why=given.why)
                result = await progress.of(lambda listen: conductor.resume(run_id, on_event=listen))
        except PodiumError as error:
            return tool_failure(error.code, str(error), {})
        return _answered(result)


class Decision(BaseModel):
    """The form in which the user of a client decides on a plan."""

    approve: bool = Field(description="Whether the plan may run.")
    why: str = Field(default="", description="The reason, if the plan may not run.")


def _question(waiting: Sequence[ApprovalAsked], workers: Sequence[str]) -> str:
    steps = [(asked.step, asked.plan.steps, asked.asked) for asked in waiting if asked.step is not None]
    if steps:
        lines = [f"{step}. {workers[plan[step].worker]}: {asked}" for step, plan, asked in steps]
        return "\n".join(["May these actions be carried out?", *lines])
    lines = [line for asked in waiting for line in plan_lines(asked.plan, workers)]
    return "\n".join(["May this plan run?", *lines])


class _Progress:
    """Sends a progress notification when a plan is ready, and when a step starts or ends."""

    def __init__(self, context: _Context) -> None:
        self._context = context
        self._run_id = ""
        self._ended = 0
        self._planned: int | None = None
        self.waiting: list[ApprovalAsked] = []
        """The approvals that the run has asked for since it began, or was resumed."""

    async def of(self, run: Callable[[Listen], Awaitable[Result]]) -> Result:
        """Await a run with its listener, and report its progress."""
        self.waiting = []
        ended: list[Result] = []

        async def emitting(listen: Listen) -> None:
            ended.append(await run(listen))

        async with aclosing(events_of(emitting)) as events:
            async for event in events:
                if message := self._message(event):
                    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # the client left
                        await self._context.report_progress(self._ended, self._planned, message)
        return ended[0]

    def _message(self, event: Event) -> str:
        """Return the message for an event; empty for events without one and for nested runs."""
        self._run_id = self._run_id or event.run_id
        if event.run_id != self._run_id:
            return ""
        match event:
            case PlanReady(plan=plan):
                self._planned = self._ended + len(plan.steps)
                return f"planned {len(plan.steps)} steps"
            case ApprovalAsked():
                self.waiting.append(event)
                return f"{'the plan' if event.step is None else f'step {event.step}'} waits for approval"
            case StepStarted(step=step, worker=worker, subtask=subtask):
                return f"step {step} ({worker}): {' '.join(subtask.split()):.100}"
            case StepEnded(outcome=outcome):
                self._ended += 1
                return f"step {outcome.step} ({outcome.worker}): {outcome.status}"
        return ""


async def serve_stdio(conductor: Conductor) -> None:
    """Serve the client at stdin and stdout until it closes stdin.

    Stdout carries only the protocol: the output of workers that print goes to stderr.

    Args:
        conductor: the conductor.
    """
    server = make_server(conductor)._mcp_server  # noqa: SLF001 - `run_stdio_async` takes no stdout
    with _own_stdout() as stdout:
        async with stdio_server(stdout=anyio.wrap_file(stdout)) as (read, write):
            await server.run(read, write, server.create_initialization_options())


@contextmanager
def _own_stdout() -> Iterator[TextIO]:
    """Yield stdout for the protocol; other output on it goes to stderr in the block."""
    wire = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr), os.fdopen(os.dup(wire), "w", encoding="utf-8") as stdout:
            yield stdout
    finally:
        os.dup2(wire, 1)
        os.close(wire)
