"""Answers requests of A2A clients."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from podium_server.api.json_rpc import part_of, read_message
from podium_server.api.on_demand import OnDemand
from podium_server.http import Exchange, Stopping
from podium_server.keys import Caller
from podium_server.settings import ServerSection
from podium_server.turn import Turns

if TYPE_CHECKING:
    from podium_server.api.a2a.server import AgentServer

CARD_PATH = "/.well-known/agent-card.json"
PATH = "/a2a/{model:path}"


class A2aApi:
    """`POST /a2a/MODEL`, and the cards of the agents.

    Args:
        turns: makes the turns.
        settings: the limits of the server.
        stopping: how far the stop of the server is.
    """

    def __init__(self, turns: Turns, settings: ServerSection, stopping: Stopping) -> None:
        self._turns = turns
        self._settings = settings
        self._stopping = stopping
        self.server: OnDemand[AgentServer] = OnDemand(self._opened, "a2a")

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator["AgentServer", None]:
        server = await anyio.to_thread.run_sync(self._make)
        async with server.opened():
            yield server

    def _make(self) -> "AgentServer":
        """Return the server. The first imports take seconds, in a thread."""
        from podium_server.api.a2a.server import AgentServer  # noqa: PLC0415 - the import takes time and memory

        return AgentServer(self._turns, self._settings, self._stopping)

    async def card(self, exchange: Exchange, caller: Caller) -> None:
        """Answer with the card of a model; without a name in the path, of the caller's first model."""
        await self.server.get()
        from podium_server.api.a2a.card import card_json, card_of  # noqa: PLC0415 - as above

        model = self._turns.find(caller, exchange.path_params.get("model"))
        url = f"{exchange.scheme}://{exchange.header('host')}/a2a/{model.name}"
        await exchange.json(card_json(card_of(model, url, needs_key=caller.key is not None)))

    async def answer(self, exchange: Exchange, caller: Caller) -> None:
        """Let the SDK answer a request.

        A client that waits for the answer and disconnects cancels its task. A task continues after the end of
        a stream, because its client can subscribe again, and after a request that does not wait.
        """
        server = await self.server.get()
        from podium_server.api.a2a.agent import Work  # noqa: PLC0415 - as above

        app = server.app(self._turns.find(caller, exchange.path_params["model"]))
        raw, work = await exchange.body(), Work(caller)
        is_awaited = _is_awaited(read_message(raw))

        def leave() -> None:
            if is_awaited:
                work.scope.cancel()

        await exchange.forward(app, raw, {"podium.work": work}, on_gone=leave)


def _is_awaited(message: Mapping[str, Any]) -> bool:
    """Return whether a request waits for the answer, and cannot find its task again."""
    if message.get("method") not in ("SendMessage", "message/send"):
        return False
    returns_now = part_of(message, "params", "configuration", "returnImmediately")
    return not returns_now and part_of(message, "params", "configuration", "blocking") is not False
