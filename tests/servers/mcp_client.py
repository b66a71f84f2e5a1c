"""The client of the MCP SDK, with a user who answers questions.

async with connect(stdio_of("podium", "mcp"), user=approves) as client:
wire = await client.call("ask", question="…")
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CancelledNotification, CancelledNotificationParams, ClientNotification, ElicitResult

User = Callable[[str], dict[str, Any]]
"""Answers a question with an `ElicitResult` as JSON data."""


@dataclass
class Client:
    """A connected client."""

    session: ClientSession
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

    async def cancel_latest(self) -> None:
        """Tell the server that the latest request is cancelled, which the SDK does not do."""
        number = self.session._request_id - 1
        params = CancelledNotificationParams(requestId=number)
        await self.session.send_notification(ClientNotification(CancelledNotification(params=params)))

    async def _note(self, progress: float, total: float | None, message: str | None) -> None:
        self.notes.append((progress, total, message))


def approves(message: str) -> dict[str, Any]:
    """Approve all plans."""
    return {"action": "accept", "content": {"approve": True}}


def stdio_of(command: str, *args: str, env: dict[str, str] | None = None) -> Any:
    """Return the transport to a process."""
    return stdio_client(StdioServerParameters(command=command, args=list(args), env=env))


@asynccontextmanager
async def http_of(url: str, key: str = "") -> AsyncGenerator[Any, None]:
    """Return the transport to a URL."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with (
        httpx.AsyncClient(headers=headers, timeout=60) as http,
        streamable_http_client(url, http_client=http) as streams,
    ):
        yield streams


@asynccontextmanager
async def connect(
    transport: AbstractAsyncContextManager[Any], *, user: User | None = None
) -> AsyncGenerator[Client, None]:
    """Connect to a server, whose questions `user` answers; `None` is a client without elicitation."""

    async def elicit(context: Any, params: Any) -> ElicitResult:
        assert user is not None
        return ElicitResult.model_validate(user(params.message))

    callback = None if user is None else elicit
    async with (
        transport as (read, write, *_),
        ClientSession(read, write, elicitation_callback=callback) as session,
    ):
        await session.initialize()
        yield Client(session)
