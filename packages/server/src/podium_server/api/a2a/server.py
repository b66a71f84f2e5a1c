"""The agents of the models, with the server of the A2A SDK."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from a2a.auth.user import User
from a2a.server.context import ServerCallContext
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import ServerCallContextBuilder, create_jsonrpc_routes
from starlette.requests import Request
from starlette.types import ASGIApp

from podium_server.api.a2a.agent import ModelAgent, Work
from podium_server.api.a2a.card import card_of
from podium_server.api.a2a.tasks import RecentTasks
from podium_server.api.sdks import tame_sdks
from podium_server.http import InFlight, Stopping
from podium_server.models import ServedModel
from podium_server.settings import ServerSection
from podium_server.turn import Turns

WORK = "podium.work"
"""The key of the `Work` of a request in the ASGI scope."""
_ANY_URL = "http://localhost/a2a"
"""The SDK reads no URL of the card; a request has the real one."""
_CLOSE_SECONDS = 5.0
"""How long cancelled tasks may take to record their ends when the server stops."""
_SECRETS = ("authorization", "x-api-key", "cookie")


class AgentServer:
    """The agents of the models.

    Args:
        turns: makes the turns.
        settings: the limits of the server.
        stopping: how far the stop of the server is.
    """

    def __init__(self, turns: Turns, settings: ServerSection, stopping: Stopping) -> None:
        tame_sdks()
        self._turns = turns
        self._in_flight = InFlight(settings.requests, stopping)
        self._handlers: list[DefaultRequestHandler] = []
        self._apps: dict[str, ASGIApp] = {}

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None, None]:
        """Run the agents in the block; at its end, cancel their tasks."""
        try:
            yield
        finally:
            with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                for handler in self._handlers:
                    await handler.aclose()

    def app(self, model: ServedModel) -> ASGIApp:
        """Return the ASGI application of a model's agent."""
        if model.name not in self._apps:
            tasks = RecentTasks()
            agent = ModelAgent(self._turns, model.name, tasks, self._in_flight)
            handler = DefaultRequestHandler(agent, tasks, card_of(model, _ANY_URL, needs_key=False))
            self._handlers.append(handler)
            (route,) = create_jsonrpc_routes(handler, "/", _Contexts(), enable_v0_3_compat=True)
            self._apps[model.name] = route.app
        return self._apps[model.name]


class _Contexts(ServerCallContextBuilder):
    """Makes the context of a call: its user is the caller, who sees no tasks of others."""

    def build(self, request: Request) -> ServerCallContext:
        work = request.scope[WORK]
        headers = {name: value for name, value in request.headers.items() if name not in _SECRETS}
        return ServerCallContext(user=_Owner(work), state={"work": work, "headers": headers})


class _Owner(User):
    def __init__(self, work: Work) -> None:
        self._caller = work.caller

    @property
    def is_authenticated(self) -> bool:
        return self._caller.key is not None

    @property
    def user_name(self) -> str:
        return self._caller.caller_id
