"""Answers requests of A2A clients."""

import json
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from podium_server.api.on_demand import OnDemand
from podium_server.http import Exchange
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
    """

    def __init__(self, turns: Turns, settings: ServerSection) -> None:
        self._turns = turns
        self._settings = settings
        self.server: OnDemand[AgentServer] = OnDemand(self._opened, "a2a")

    def _opened(self) -> "AbstractAsyncContextManager[AgentServer]":
        from podium_server.api.a2a.server import AgentServer  # noqa: PLC0415 - the import takes time and memory

        return AgentServer(self._turns, self._settings).opened()

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

        def leave() -> None:
            if _is_awaited(raw):
                work.scope.cancel()

        await exchange.forward(app, raw, {"podium.work": work}, on_gone=leave)


def _is_awaited(raw: bytes) -> bool:
    """Return whether a request waits for the answer, and cannot find its task again."""
    try:
        message: Any = json.loads(raw)
        wanted = (message.get("params") or {}).get("configuration") or {}
        is_sent = message.get("method") in ("SendMessage", "message/send")
        return is_sent and not wanted.get("returnImmediately") and wanted.get("blocking") is not False
    except (ValueError, RecursionError, AttributeError):
        return False
