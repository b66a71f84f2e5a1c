"""Answers requests of MCP clients.

The server has no sessions. A session only has an id, so that a client can cancel a call: it names the call
in a request of its own.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import anyio
import anyio.to_thread

from podium_server.api.json_rpc import part_of, read_message
from podium_server.api.on_demand import OnDemand
from podium_server.http import Exchange
from podium_server.keys import Caller
from podium_server.turn import Turns

if TYPE_CHECKING:
    from podium.mcp import ToolServer

PATH = "/mcp"
_SESSION = "mcp-session-id"
_INSTRUCTIONS = (
    "Each model answers a question with a team: it writes a plan, and workers run the plan. `ask` asks a "
    "model; `list_models` lists the models."
)


class McpApi:
    """`POST /mcp`: streamable HTTP without sessions.

    Args:
        turns: makes the turns.
    """

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self.server: OnDemand[Any] = OnDemand(self._opened, "mcp")
        """The ASGI application of the MCP SDK."""
        self._running: dict[tuple[str, str | None, object], anyio.CancelScope] = {}
        """The running requests, by caller, session and id."""

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[Any, None]:
        server = await anyio.to_thread.run_sync(self._make)
        async with server.opened() as app:
            yield app

    def _make(self) -> "ToolServer":
        """Return the server. The first imports take seconds, in a thread."""
        from podium.mcp import ToolServer  # noqa: PLC0415 - the import takes time and memory
        from podium_server.api.mcp.tools import Tools  # noqa: PLC0415 - as above
        from podium_server.api.sdks import tame_sdks  # noqa: PLC0415 - as above

        tame_sdks()
        server, tools = ToolServer("podium", instructions=_INSTRUCTIONS), Tools(self._turns)
        server.add(tools.ask, reads_only=not tools.acts)
        server.add(tools.list_models, reads_only=True)
        return server

    async def answer(self, exchange: Exchange, caller: Caller) -> None:
        """Let the SDK answer a request."""
        app = await self.server.get()
        raw = await exchange.body()
        message = read_message(raw)
        session, method = exchange.header(_SESSION), message.get("method")
        if method == "notifications/cancelled":
            self._cancel(caller, session, part_of(message, "params", "requestId"))
        headers = {_SESSION: uuid4().hex} if method == "initialize" else {}
        place = caller.caller_id, session, str(message.get("id"))
        with anyio.CancelScope() as scope:
            self._running[place] = scope
            try:
                await exchange.forward(app, raw, {"podium.caller": caller}, headers=headers)
            finally:
                if self._running.get(place) is scope:
                    del self._running[place]
        if scope.cancelled_caught:
            await exchange.end()

    def _cancel(self, caller: Caller, session: str | None, number: object) -> None:
        """Cancel a call, as the client asks; without a session, the call is unknown."""
        scope = self._running.get((caller.caller_id, session, str(number)))
        if session is not None and scope is not None:
            scope.cancel()
