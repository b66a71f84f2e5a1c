"""Serves one conductor to an MCP client on stdio.

The import raises `ConfigError` if the SDK is not installed, or if its version is not 1.
"""

import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager, redirect_stdout, suppress
from math import inf
from typing import TYPE_CHECKING, Any, TextIO

import anyio
from pydantic import BaseModel, Field

from podium.aio.sync import events_of
from podium.conductor import Conductor
from podium.errors import ConfigError, PodiumError, QueryError, RunWaiting
from podium.hosts import result_metadata
from podium.hosts.progress import Maps
from podium.hosts.results import plan_lines
from podium.mcp.tools import Desk, ToolCall, ToolContext, new_server, tool_answer, tool_failure
from podium.run.approval import how_to_decide
from podium.run.replies import question_lines
from podium.types import Plan, Result
from podium.types.events import ApprovalAsked, Event, PlanReady, StepEnded, StepStarted
from podium.types.steps import step_at, worker_of

if TYPE_CHECKING:
    from mcp.server.fastmcp import FastMCP
    from mcp.types import CallToolResult

_USER = "the user of the MCP client"
Listen = Callable[[Event], None]


def make_server(conductor: Conductor, *, name: str = "podium") -> "FastMCP[Any]":
    """Return an MCP server for a conductor, a `FastMCP` of the SDK.

    Args:
        conductor: the conductor, which stays open while the server runs.
        name: the server's name.
    """

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncGenerator[None, None]:
        async with conductor:
            yield

    return new_server(_ConductorDesk(conductor), name, lifespan=lifespan)


class _ConductorDesk(Desk):
    """One conductor, for a client that may use it without a key."""

    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor
        self.acts = conductor.acts

    def models(self, _: ToolContext) -> Mapping[str, str]:
        return {self._conductor.card.name: self._conductor.card.description}

    def find(self, _: ToolContext, name: str | None) -> tuple[str, Conductor]:
        own = self._conductor.card.name
        if name not in (None, own):
            raise ConfigError(f"there is no model {name!r:.80}: the model is {own!r}")
        return own, self._conductor

    async def plan(self, call: ToolCall) -> Plan:
        return await self._conductor.plan(call.question, labels=call.labels)

    async def run(self, call: ToolCall, plan: Plan | None) -> "CallToolResult":
        """Run a query. While it waits for approval, ask the user of the client."""
        conductor, context, progress = self._conductor, call.context, _Progress(call.context)
        client = context.session.client_params
        asked = call.question if plan is None else plan
        result = await progress.of(lambda listen: conductor.run(asked, labels=call.labels, on_event=listen))
        run_id, wrong = result.run_id, ""
        while result.status == "waiting":
            asks = any(each.question is not None for each in progress.waiting)
            how = how_to_decide(run_id, asks=asks)
            if client is None or client.capabilities.elicitation is None:
                what = "a question waits for an answer" if asks else "the plan waits for approval"
                told = f"{what}, and this client cannot ask its user (it has no elicitation): {how}"
                return tool_failure(RunWaiting.code, told, result_metadata(result))
            found = await self._decide(context, run_id, progress.waiting, wrong)
            if found is None:
                told = f"nobody decided on what run {run_id} waits for: {how}"
                return tool_failure(RunWaiting.code, told, {"run_id": run_id})
            if not (wrong := found):
                result = await progress.of(lambda listen: conductor.resume(run_id, on_event=listen))
        metadata, failed = result_metadata(result), result.problem
        if failed is not None and result.status != "partial":
            return tool_failure(failed.code, f"run {run_id}: {failed.message}", metadata)
        return tool_answer({**metadata, "answer": result.answer})

    async def _decide(
        self, context: ToolContext, run_id: str, waiting: Sequence[ApprovalAsked], wrong: str
    ) -> str | None:
        """Ask the user for a decision, until its deadline, and record it.

        Returns:
            What is wrong with the answer, empty if the run can continue; `None` if nobody decided.
        """
        question = next((each for each in waiting if each.question is not None), None)
        told, decided = _question(waiting, self._conductor.pool.names), None
        if question is not None:
            told = "\n".join(filter(None, [wrong, *question_lines(question)]))
        with anyio.move_on_after(inf if question is None else question.left):
            decided = await context.elicit(told, Decision if question is None else Answer)
        if decided is None:
            return ""
        if decided.action == "cancel":
            return None
        given = decided.data if decided.action == "accept" else Decision(approve=False)
        facts: dict[str, Any] = {"answer": given.answer} if isinstance(given, Answer) else {}
        if isinstance(given, Decision):
            facts = {"approved": given.approve, "why": given.why}
        step = None if question is None else question.name
        try:
            await self._conductor.decide(run_id, **facts, action=step, by=_USER)
        except QueryError as error:
            return "" if question is not None and question.is_late else str(error)
        return ""

    def failure(self, error: Exception) -> "CallToolResult":
        if not isinstance(error, PodiumError):
            raise error
        return tool_failure(error.code, str(error), {})


class Decision(BaseModel):
    """The form in which the user of a client decides on a plan."""

    approve: bool = Field(description="Whether the plan may run.")
    why: str = Field(default="", description="The reason, if the plan may not run.")


class Answer(BaseModel):
    """The form in which the user of a client answers the question of a step."""

    answer: str


def _question(waiting: Sequence[ApprovalAsked], workers: Sequence[str]) -> str:
    steps = [asked for asked in waiting if asked.step is not None]
    if steps:
        lines = [
            f"{each.name}. {worker_of(step_at(each.plan.steps, each.name), workers)}: {each.asked}"
            for each in steps
        ]
        what = "items be started" if all(each.is_fan_out for each in steps) else "actions be carried out"
        return "\n".join([f"May these {what}?", *lines])
    lines = [line for asked in waiting for line in plan_lines(asked.plan, workers)]
    return "\n".join(["May this plan run?", *lines])


class _Progress:
    """Sends a progress notification when a plan is ready, and when a step starts or ends."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._run_id = ""
        self._ended = 0
        self._planned: int | None = None
        self._maps = Maps()
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
        self._maps.take(event)
        return self._maps.counts(event) or self._of_step(event)

    def _of_step(self, event: Event) -> str:
        match event:
            case PlanReady(plan=plan):
                self._planned = self._ended + len(plan.steps)
                return f"planned {len(plan.steps)} steps"
            case ApprovalAsked():
                self.waiting.append(event)
                return event.told
            case StepStarted() | StepEnded() if self._maps.is_in_map(event):
                pass
            case StepStarted(worker=worker, subtask=subtask):
                return f"step {self._maps.name(event)} ({worker}): {' '.join(subtask.split()):.100}"
            case StepEnded(outcome=outcome):
                self._ended += not outcome.path
                return f"step {outcome.name} ({outcome.worker}): {outcome.status}"
        return ""


async def serve_stdio(conductor: Conductor) -> None:
    """Serve the client at stdin and stdout until it closes stdin.

    Stdout carries only the protocol: the output of workers that print goes to stderr.

    Args:
        conductor: the conductor.
    """
    from mcp.server.stdio import stdio_server  # noqa: PLC0415 - with the SDK, which `podium.mcp.tools` checks

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
