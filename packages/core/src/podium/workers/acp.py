"""Agents that speak the Agent Client Protocol on their stdin and stdout, by the official SDK."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import acp
import anyio
from acp.schema import AllowedOutcome, DeniedOutcome, PermissionOption, RequestPermissionResponse
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from podium.errors import AgentFailed, AgentRejected, WorkerBroken, WorkerError
from podium.secrets import Boundary
from podium.usage import Usage
from podium.workers.openai.errors import quoted
from podium.workers.process import MOST_BYTES, Report, read_tail

_AUTH_REQUIRED = -32000
"""The code of the protocol for an agent without credentials."""


async def converse(process: Process, prompt: str, folder: Path, worker: str, *, may_act: bool) -> Report:
    """Let an agent answer a prompt in a new session, and return its report.

    Args:
        process: the agent.
        prompt: the prompt.
        folder: the working folder of the session.
        worker: the name of the worker.
        may_act: whether the agent gets the permissions for which it asks.
    """
    client: Any = _Client(may_act=may_act)
    report, errors, raised, who = Report(), bytearray(), None, f"worker {worker!r}"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read_tail, process, errors)
        connection = acp.connect_to_agent(client, _Lines(process))
        try:
            with Boundary(who, partial(WorkerBroken, maybe_paid=True), is_library=True):
                report = await _prompt(connection, client, prompt, folder, who)
        except WorkerError as error:  # the task group would wrap it
            raised = error
        finally:
            with anyio.CancelScope(shield=True):
                await connection.close()
        tasks.cancel_scope.cancel()
    if raised is not None:
        tail = errors.decode("utf-8", "replace").strip()
        raised.args = (f"{raised}: {quoted(tail)}" if tail else str(raised),)
        raise raised
    return report


async def _prompt(connection: Any, client: Any, prompt: str, folder: Path, who: str) -> Report:
    is_asked = False
    try:
        await connection.initialize(protocol_version=acp.PROTOCOL_VERSION)
        session = await connection.new_session(cwd=str(folder), mcp_servers=[])
        is_asked = True
        done = await connection.prompt(session_id=session.session_id, prompt=[acp.text_block(prompt)])
    except acp.RequestError as error:
        kind = AgentRejected if error.code == _AUTH_REQUIRED else AgentFailed
        told = f"{who} failed: {quoted(f'{error} {error.data or str()}')}"
        raise kind(told, maybe_paid=is_asked) from error
    usage = None
    if (told := done.usage) is not None:
        cached, thought = told.cached_read_tokens or 0, told.thought_tokens or 0
        read = told.input_tokens + cached + (told.cached_write_tokens or 0)
        usage = Usage(read, told.output_tokens + thought, cached, thought)
    if done.stop_reason != "end_turn":
        told = f"{who} stopped: {done.stop_reason}"
        raise AgentFailed(told, maybe_paid=True, usage=usage, cost=client.cost)
    return Report(client.text, usage, client.cost, denied=", ".join(sorted(client.denied)))


class _Client:
    """Collects what an agent tells, and answers its requests for permissions."""

    def __init__(self, *, may_act: bool) -> None:
        self._may_act = may_act
        self._is_working = False
        self.text = ""
        """What it said after its last tool call."""
        self.cost: float | None = None
        self.denied: set[str] = set()

    async def session_update(self, update: Any, **_: Any) -> None:
        """Keep the text and the cost."""
        match update.session_update:
            case "agent_message_chunk" if update.content.type == "text":
                self.text = ("" if self._is_working else self.text) + update.content.text
                self._is_working = False
            case "tool_call" | "tool_call_update":
                self._is_working = True
            case "usage_update" if update.cost is not None and update.cost.currency == "USD":
                self.cost = update.cost.amount

    async def request_permission(
        self, tool_call: Any, options: list[PermissionOption], **_: Any
    ) -> RequestPermissionResponse:
        """Choose an option for this call only."""
        wanted = "allow_once" if self._may_act else "reject_once"
        found = next((option.option_id for option in options if option.kind == wanted), None)
        if found is None or not self._may_act:
            self.denied.add(tool_call.title or "a tool")
        if found is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=found))


class _Lines:
    """The messages of an agent: a line of JSON each."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin = process.stdin
        self._lines = BufferedByteReceiveStream(process.stdout)

    async def send(self, message: dict[str, Any]) -> None:
        """Write a message."""
        await self._stdin.send(json.dumps(message).encode() + b"\n")

    async def receive(self) -> dict[str, Any] | None:
        """Read a message; `None` at the end."""
        while True:
            try:
                line = await self._lines.receive_until(b"\n", MOST_BYTES)
            except (anyio.EndOfStream, anyio.IncompleteRead, anyio.DelimiterNotFound):
                return None
            if line.startswith(b"{"):  # else a word of the program
                message: dict[str, Any] = json.loads(line)
                return message

    async def close(self) -> None:
        """Do nothing: the process ends with the call."""
