"""Serves a conductor to MCP clients: the tools `ask`, `plan`, `run_plan`, on stdio or streamable HTTP."""

import hmac
import io
import json
import os
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, replace
from importlib import import_module
from ipaddress import ip_address
from math import inf
from typing import Annotated, Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream
from pydantic import BaseModel, Field

from podium.conductor import Conductor
from podium.errors import ConfigError, PodiumError, RunWaiting
from podium.hosted import HostedConductor
from podium.hosts import plan_lines, result_metadata
from podium.mcp.sdk import sdk_version
from podium.mcp.sdk_server import (
    Elicitation,
    add_tool,
    call_tool_result,
    close_schemas,
    http_app,
    new_server,
    tool_annotations,
)
from podium.plan_text import read_saved_plan
from podium.run.approval import how_to_decide
from podium.secrets import register, scrub
from podium.types import Plan, Result, read_query
from podium.types.events import ApprovalAsked, Event, PlanReady, StepEnded, StepStarted
from podium.types.result import Forecast, explain_forecast


def answer(result: Result) -> dict[str, Any]:
    """Return the result of a run: its answer as text, and its metadata as structured content.

    A run without an answer is an error. For a partial answer, a second text names the missing parts.
    """
    metadata = {**result_metadata(result), "answer": result.answer}
    facts = {name: metadata[name] for name in ("run_id", "status", "problem")}
    whole = {"structuredContent": metadata, "_meta": {"podium": facts}}
    if result.problem is None:
        return {"content": [_text(result.answer)], **whole}
    code, message = result.problem.code, result.problem.message
    if result.status == "partial":
        told = f"The answer is partial ({code}: {message})."
        return {"content": [_text(result.answer), _text(told)], **whole}
    return _error(code, f"run {result.run_id}: {message}", metadata)


def failure(error: PodiumError) -> dict[str, Any]:
    """Return an error as the failure of a tool, with its code."""
    return _error(error.code, str(error), {})


def refusal(code: str, message: str, result: Result) -> dict[str, Any]:
    """Return an error with the metadata of a run that has no answer."""
    return _error(code, message, result_metadata(result))


def plan_answer(plan: Plan, workers: Sequence[str], forecast: Forecast) -> dict[str, Any]:
    """Return a plan as text, and as structured content for `run_plan`.

    Args:
        plan: the plan.
        workers: the names of the pool's workers.
        forecast: the forecast of the plan.
    """
    rows = plan.to_json()
    for row in rows["steps"]:
        row["worker"] = workers[row["worker"]]
    lines = [*plan_lines(plan, workers), explain_forecast(forecast)]
    structured = {"plan": rows, "workers": list(workers), "forecast": asdict(forecast)}
    return {"content": [_text("\n".join(lines))], "structuredContent": structured}


def _error(code: str, message: str, metadata: dict[str, Any]) -> dict[str, Any]:
    clean = scrub(message)
    return {
        "content": [_text(f"{code}: {clean}")],
        "structuredContent": {**metadata, "code": code, "message": clean},
        "isError": True,
    }


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


Listen = Callable[[Event], None]
_Note = tuple[int, int | None, str]
"""Number of ended steps, number of planned steps, and a message."""


class Progress:
    """Sends a progress notification when a plan is ready, and when a step starts or ends.

    Args:
        context: the call's context, an object of the SDK.
    """

    def __init__(self, context: Any) -> None:
        self._context = context
        self._run_id = ""
        self._ended = 0
        self._planned = 0
        self.waiting: list[ApprovalAsked] = []
        """The approvals that the run has asked for since it began, or was resumed."""

    async def of(self, run: Callable[[Listen], Awaitable[Result]]) -> Result:
        """Await a run, and report its progress.

        Args:
            run: starts the run with the given listener.
        """
        self.waiting = []
        send, receive = anyio.create_memory_object_stream[_Note](inf)

        def listen(event: Event) -> None:
            if message := self._message(event):
                send.send_nowait((self._ended, self._planned or None, message))

        raised: Exception | None = None
        result: Result | None = None
        with send, receive:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._tell, receive)
                try:
                    result = await run(listen)
                except Exception as error:  # noqa: BLE001 - raised below, outside the group
                    raised = error
                send.close()
        if result is None:
            assert raised is not None
            raise raised
        return result

    async def _tell(self, notes: MemoryObjectReceiveStream[_Note]) -> None:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # the client disconnected
            async for ended, planned, message in notes:
                await self._context.report_progress(ended, planned, message)

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
            case _:
                return ""


_INSTRUCTIONS = (
    "A conductor answers a question: it writes a plan, and a team of workers runs it. `ask` does both. "
    "`plan` only writes the plan, so that it can be read or changed; `run_plan` runs a plan."
)
_USER = "the user of the MCP client"
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


class Decision(BaseModel):
    """The form in which the user of a client decides on a plan."""

    approve: bool = Field(description="Whether the plan may run.")
    why: str = Field(default="", description="The reason, if the plan may not run.")


def make_server(
    conductor: Conductor | HostedConductor, *, name: str = "podium", host: str = "127.0.0.1"
) -> Any:
    """Return an MCP server for a conductor: a `FastMCP` of the SDK, or in version 2 an `MCPServer`.

    A hosted conductor has only the tool `ask`.

    Args:
        conductor: the conductor, which stays open while the server runs.
        name: the server's name.
        host: the host on which the server listens, if it serves HTTP.

    Raises:
        ConfigError: the SDK is not installed.
    """

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncGenerator[None, None]:
        async with conductor:
            yield

    server = new_server(name, instructions=_INSTRUCTIONS, host=host, lifespan=lifespan)
    asks, reads = (tool_annotations({"readOnlyHint": each}) for each in (not conductor.acts, True))
    if isinstance(conductor, HostedConductor):
        add_tool(server, _HostedTools(conductor).ask, asks)
        close_schemas(server)
        return server
    tools = _Tools(conductor)
    add_tool(server, tools.ask, asks)
    add_tool(server, tools.plan, reads)
    add_tool(server, tools.run_plan, asks)
    close_schemas(server)
    return server


class _HostedTools:
    def __init__(self, conductor: HostedConductor) -> None:
        self._conductor = conductor

    async def ask(self, question: Question, context: Any) -> Any:
        """Answer a question. A remote conductor writes a plan and runs it."""

        async def run(_: Listen) -> Result:
            return await self._conductor.run(question)

        try:
            return call_tool_result(answer(await Progress(context).of(run)))
        except PodiumError as error:
            return call_tool_result(failure(error))


class _Tools:
    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    async def ask(self, question: Question, context: Any, labels: Labels = None) -> Any:
        """Answer a question: write a plan, and let a team of workers run it."""

        async def run(listen: Listen) -> Result:
            return await self._conductor.run(question, labels=labels or (), on_event=listen)

        return await self._answered(context, run)

    async def plan(self, question: Question, context: Any, labels: Labels = None) -> Any:  # noqa: ARG002 - all tools have it
        """Plan a question without running the plan. The structured content has the plan for `run_plan`."""
        try:
            made = await self._conductor.plan(question, labels=labels or ())
            told = plan_answer(made, self._conductor.pool.names, self._conductor.forecast(made))
        except PodiumError as error:
            told = failure(error)
        return call_tool_result(told)

    async def run_plan(
        self, plan: SavedPlan, context: Any, question: Question = "", labels: Labels = None
    ) -> Any:
        """Run a plan, for its own question or for another one."""

        async def run(listen: Listen) -> Result:
            asked = self._read(plan, question)
            return await self._conductor.run(asked, labels=labels or (), on_event=listen)

        return await self._answered(context, run)

    def _read(self, plan: dict[str, Any], question: str) -> Plan:
        """Return the plan, with the new question if one is given."""
        read = read_saved_plan(
            json.dumps(plan), self._conductor.pool.names, self._conductor.limits.plan_steps
        )
        return replace(read, query=read_query(question)) if question else read

    async def _answered(self, context: Any, run: Callable[[Listen], Awaitable[Result]]) -> Any:
        """Run a query. If its plan waits for approval, ask the user of the client."""
        progress, user = Progress(context), Elicitation(context)
        try:
            decided = user.answered(Decision)
            if decided is None:
                result = await progress.of(run)
            else:
                run_id, action, form = decided
                if action == "cancel":
                    return call_tool_result(_undecided(run_id))
                result = await self._decided(progress, run_id, form)
            while result.status == "waiting":
                if not user.is_supported:
                    return call_tool_result(_refused(result))
                question = _question(progress.waiting, self._conductor.pool.names)
                if user.repeats_calls:
                    return user.asking(question, Decision, result.run_id)
                action, form = await user.ask(question, Decision)
                if action == "cancel":
                    return call_tool_result(_undecided(result.run_id))
                result = await self._decided(progress, result.run_id, form)
        except PodiumError as error:
            return call_tool_result(failure(error))
        return call_tool_result(answer(result))

    async def _decided(self, progress: Progress, run_id: str, form: BaseModel | None) -> Result:
        """Record the decision on a plan, and continue the run."""
        decision = form if isinstance(form, Decision) else Decision(approve=False)
        await self._conductor.decide(run_id, approved=decision.approve, by=_USER, why=decision.why)
        return await progress.of(lambda listen: self._conductor.resume(run_id, on_event=listen))


def _question(waiting: Sequence[ApprovalAsked], workers: Sequence[str]) -> str:
    steps = [(asked.step, asked.plan.steps, asked.asked) for asked in waiting if asked.step is not None]
    if steps:
        lines = [f"{step}. {workers[plan[step].worker]}: {asked}" for step, plan, asked in steps]
        return "\n".join(["May these actions be carried out?", *lines])
    lines = [line for asked in waiting for line in plan_lines(asked.plan, workers)]
    return "\n".join(["May this plan run?", *lines])


def _refused(result: Result) -> dict[str, Any]:
    told = "the plan waits for approval, and this client cannot ask its user (it has no elicitation)"
    return refusal(RunWaiting.code, f"{told}: {how_to_decide(result.run_id)}", result)


def _undecided(run_id: str) -> dict[str, Any]:
    told = f"nobody decided on the plan of run {run_id}: continue with `podium resume {run_id} --approve`"
    return {
        "content": [{"type": "text", "text": f"waiting: {told}"}],
        "structuredContent": {"code": "waiting", "message": told, "run_id": run_id},
        "isError": True,
    }


async def serve_stdio(conductor: Conductor | HostedConductor) -> None:
    """Serve the client at stdin and stdout until it closes stdin.

    Stdout carries only the protocol: the output of workers that print goes to stderr.

    Args:
        conductor: the conductor.

    Raises:
        ConfigError: the SDK is not installed.
    """
    server = make_server(conductor)
    with _stdout_kept():
        await server.run_stdio_async()


async def serve_http(
    conductor: Conductor | HostedConductor, *, host: str, port: int, key: str | None = None
) -> None:
    """Serve clients of streamable HTTP at the path `/mcp`, until the task is cancelled or interrupted.

    Args:
        conductor: the conductor.
        host: the host on which the server listens.
        port: the port on which it listens.
        key: the bearer token that clients must send; `None` for no token, which only loopback allows.

    Raises:
        ConfigError: the SDK is not installed, the key is missing although the host is not loopback, or the
            server cannot listen on the host and port.
    """
    if key is None and not _is_loopback(host):
        raise ConfigError(f"{host} is not loopback, and others could run queries at your cost: give a key")
    app = http_app(make_server(conductor, host=host), host)
    uvicorn = import_module("uvicorn")
    config = uvicorn.Config(
        app if key is None else _Guarded(app, key),
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=5,
    )
    with _listening(host, port) as listening:
        await _until_cancelled(uvicorn.Server(config), listening)


def _listening(host: str, port: int) -> socket.socket:
    """Return a listening socket, because uvicorn would exit the process if it cannot listen."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        raise ConfigError(f"cannot listen on {host} port {port}: {error.strerror or error}") from error


async def _until_cancelled(server: Any, listening: socket.socket) -> None:
    """Run a uvicorn server; after a cancellation, close its connections before returning."""

    async def serve() -> None:
        with anyio.CancelScope(shield=True):
            await server.serve(sockets=[listening])
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        try:
            await anyio.sleep_forever()
        finally:
            server.should_exit = True


class _Guarded:
    """An ASGI application that requires a key.

    Args:
        app: the application.
        key: the key.
    """

    def __init__(self, app: Any, key: str) -> None:
        register(key)
        self._app = app
        self._wanted = f"Bearer {key}".encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass on a request with the key; answer any other request with 401."""
        if scope["type"] != "lifespan":
            given = dict(scope.get("headers") or ()).get(b"authorization", b"")
            if scope["type"] != "http" or not hmac.compare_digest(given, self._wanted):
                headers = [(b"www-authenticate", b"Bearer"), (b"content-length", b"0")]
                await send({"type": "http.response.start", "status": 401, "headers": headers})
                await send({"type": "http.response.body", "body": b""})
                return
        await self._app(scope, receive, send)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


class _Stdout(io.TextIOWrapper):
    """Writes text to stderr; its buffer, which the SDK uses, is stdout."""

    def __init__(self, stdout: io.BufferedWriter) -> None:
        super().__init__(os.fdopen(os.dup(2), "wb"), encoding="utf-8", line_buffering=True)
        self._stdout = stdout

    @property
    def buffer(self) -> io.BufferedWriter:
        """The original stdout."""
        return self._stdout


@contextmanager
def _stdout_kept() -> Iterator[None]:
    """Keep stdout for the SDK, and redirect other output on it to stderr.

    Version 2 of the SDK does this itself.
    """
    if sdk_version() >= 2:
        yield
        return
    own, wire = sys.stdout, os.dup(1)
    os.dup2(2, 1)
    sys.stdout = _Stdout(os.fdopen(os.dup(wire), "wb"))
    try:
        yield
    finally:
        sys.stdout = own
        os.dup2(wire, 1)
        os.close(wire)
