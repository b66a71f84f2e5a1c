"""The client of the MCP SDK, version 1 or 2, with a user who answers questions.

async with connect(stdio_of("podium", "mcp"), user=approves) as client:
wire = await client.call("ask", question="…")
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import mcp
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult
from servers.mcp_server import IS_OLD

MODES = ["only"] if IS_OLD else ["legacy", "auto"]
"""The ways to negotiate the version of the protocol."""
User = Callable[[str], dict[str, Any]]
"""Answers a question with an `ElicitResult` as JSON data."""


@dataclass
class Client:
    """A connected client."""

    session: Any
    notes: list[tuple[float, float | None, str | None]] = field(default_factory=list)
    """Progress notifications."""

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool, and return its result as JSON data."""
        result = await self.session.call_tool(tool, arguments, progress_callback=self._note)
        wire: dict[str, Any] = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        return wire

    async def tools(self) -> list[str]:
        """Return the names of the tools."""
        return [tool.name for tool in (await self.session.list_tools()).tools]

    async def _note(self, progress: float, total: float | None, message: str | None) -> None:
        self.notes.append((progress, total, message))


def approves(message: str) -> dict[str, Any]:
    """Approve all plans."""
    return {"action": "accept", "content": {"approve": True}}


def declines(message: str) -> dict[str, Any]:
    """Refuse all plans."""
    return {"action": "accept", "content": {"approve": False, "why": "too dear"}}


def dismisses(message: str) -> dict[str, Any]:
    """Dismiss the question."""
    return {"action": "cancel"}


def stdio_of(command: str, *args: str, env: dict[str, str] | None = None) -> Any:
    """Return the transport to a process."""
    return stdio_client(StdioServerParameters(command=command, args=list(args), env=env))


@asynccontextmanager
async def http_of(url: str, key: str = "") -> AsyncGenerator[Any, None]:
    """Return the transport to a URL."""
    make_client = import_module("mcp.shared._httpx_utils").create_mcp_http_client
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with make_client(headers=headers) as http, streamable_http_client(url, http_client=http) as streams:
        yield streams


@asynccontextmanager
async def connect(
    transport: AbstractAsyncContextManager[Any], *, user: User | None = None, mode: str = "auto"
) -> AsyncGenerator[Client, None]:
    """Connect to a server.

    Args:
        transport: the transport to the server.
        user: answers the questions of the server; `None` for a client without elicitation.
        mode: the way to negotiate the version of the protocol; version 1 has one way.
    """
    callback: Callable[..., Awaitable[Any]] | None = None
    if user is not None:
        answer = user

        async def elicit(context: Any, params: Any) -> ElicitResult:
            return ElicitResult.model_validate(answer(params.message))

        callback = elicit
    if IS_OLD:
        async with (
            transport as (read, write, *_),
            mcp.ClientSession(read, write, elicitation_callback=callback) as session,
        ):
            await session.initialize()
            yield Client(session)
    else:
        made: Any = getattr(mcp, "Client")  # noqa: B009 - version 1 does not have it
        async with made(transport, elicitation_callback=callback, mode=mode) as session:
            yield Client(session)
