"""Joins the parts of the server: `create_app` returns the ASGI application for a config."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from podium.config import Config
from podium.journal import SqlJournal
from podium_server.api.chat import PATH as CHAT_PATH, ChatApi
from podium_server.api.endpoint import Endpoint, Handler, Service
from podium_server.api.keys import PATH as KEYS_PATH, KeysApi, OwnKeyApi, SessionApi
from podium_server.api.messages.route import COUNT_PATH, PATH as MESSAGES_PATH, MessagesApi
from podium_server.api.on_demand import OnDemand
from podium_server.api.openapi import PATH as OPENAPI_PATH, OpenApi, openapi_document
from podium_server.api.responses.route import PATH as RESPONSES_PATH, ResponsesApi
from podium_server.api.responses.stored import KIND as RESPONSE, Responses, ResponseWork
from podium_server.api.runs.actions import RunActions
from podium_server.api.runs.costs import PATH as SUMS_PATH, ForecastApi, SumsApi
from podium_server.api.runs.forms import KIND as RUN
from podium_server.api.runs.job import Deadlines, RunWork
from podium_server.api.runs.query import RunIndex
from podium_server.api.runs.route import PATH as RUNS_PATH, RunsApi
from podium_server.errors import ANTHROPIC_ERRORS, OPENAI_ERRORS, ErrorForm, Fault
from podium_server.health import Health, MetricsApi
from podium_server.jobs.jobs import Jobs
from podium_server.jobs.table import JobTable
from podium_server.keys import Access, KeyStore, NoKeys
from podium_server.models import Catalogue, ModelsApi, make_catalogue
from podium_server.record import Record
from podium_server.retention import Retention
from podium_server.settings import ServerSection
from podium_server.turn import Turns
from podium_server.viewer.viewer import PATH as VIEWER_PATH, Viewer


class Recorded:
    """The parts that need a journal."""

    def __init__(
        self,
        journal: SqlJournal,
        table: JobTable,
        turns: Turns,
        access: Access,
        service: Service,
        *,
        has_keys: bool,
    ) -> None:
        index = RunIndex(journal, table, has_keys=has_keys)
        self.responses = responses = Responses(journal, index, table)
        self.jobs = Jobs(
            table,
            {
                RUN: lambda job: RunWork(job, index=index, turns=turns, access=access),
                RESPONSE: lambda job: ResponseWork(
                    job, responses=responses, index=index, journal=journal, turns=turns, access=access
                ),
            },
            most=service.settings.background_runs,
            queued=service.settings.queued_runs,
            on_cancels=turns.running.cancel,
        )
        self.jobs.on_end = service.metrics.job_ended
        service.metrics.show_jobs(lambda: float(self.jobs.count))
        self.runs = RunsApi(index, table, access, service.stopping, turns.live, turns.catalogue)
        self.sums = SumsApi(table, has_keys=has_keys)
        self.forecast = ForecastApi(self.runs, index, journal)
        self.actions = RunActions(self.runs, self.jobs, turns, access, journal)
        self.deadlines = Deadlines(journal, table, self.actions.continue_late)


if TYPE_CHECKING:
    from podium_server.api.a2a import A2aApi
    from podium_server.api.mcp import McpApi

_ANSWER_SECONDS = 0.5
"""How long interrupted requests may take to send their errors when the server stops."""
_END_SECONDS = 5.0
"""How long cancelled requests and runs may take to record their ends. A working database needs less."""
_LOOK_SECONDS = 0.02
_CARD_PATH = "/.well-known/agent-card.json"
_A2A_PATH = "/a2a/{model:path}"


class App:
    """The parts of a server.

    Args:
        config: the config.
        access: admits requests; `None` admits all, so that only this machine may reach the server.

    Raises:
        ConfigError: see `podium_server.models.make_catalogue`.
    """

    def __init__(self, config: Config, access: Access | None = None) -> None:
        self._config = config
        self.settings = config.table("server", ServerSection) or ServerSection()
        self.journal: SqlJournal | None = config.journal()
        self.catalogue: Catalogue = make_catalogue(config, self.journal)
        self.has_keys = access is not None
        """Whether requests need an API key."""
        self._access = access or NoKeys(None if self.journal is None else KeyStore(self.journal))
        self._service = Service(self._access, self.settings, is_local=access is None)
        self._stopping = self._service.stopping
        table = None if self.journal is None else JobTable(self.journal)
        self._turns = Turns(self.catalogue, self._access, self.journal, None if table is None else table.ids)
        self._mcp = OnDemand(self._make_mcp, "mcp")
        self._a2a = OnDemand(self._make_a2a, "a2a")
        self._recorded: Recorded | None = None
        self._retention: Retention | None = None
        if self.journal is not None and table is not None:
            self._recorded = Recorded(
                self.journal, table, self._turns, self._access, self._service, has_keys=self.has_keys
            )
            if self.settings.keep_days is not None:
                self._retention = Retention(
                    self.journal,
                    config.shared_cache(),
                    self._access,
                    self.settings.keep_days,
                )

    def _make_mcp(self) -> "McpApi":
        from podium_server.api.mcp import McpApi  # noqa: PLC0415 - the import takes time and memory

        return McpApi(self._turns)

    def _make_a2a(self) -> "A2aApi":
        from podium_server.api.a2a import A2aApi  # noqa: PLC0415 - as above

        return A2aApi(self._turns, self.settings, self._stopping)

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None, None]:
        """Keep the connections open in the block; at its end, stop as `stop` does."""
        async with AsyncExitStack() as stack:
            if self.journal is not None:
                await stack.enter_async_context(self.journal)
            if self._turns.continuations.tables is not None:
                await stack.enter_async_context(self._turns.continuations.tables)
            if self._recorded is not None:
                await stack.enter_async_context(self._recorded.jobs.table)
            await stack.enter_async_context(self._access)
            await stack.enter_async_context(self.catalogue.opened())
            await stack.enter_async_context(self._mcp.opened())
            await stack.enter_async_context(self._a2a.opened())
            if self._recorded is not None:
                await stack.enter_async_context(self._recorded.jobs.opened())
                await stack.enter_async_context(self._recorded.deadlines.running())
            if self._retention is not None:
                await stack.enter_async_context(self._retention.running())
            try:
                yield
            finally:
                await self.stop()

    async def stop(self, is_forced: Callable[[], bool] = lambda: False) -> None:
        """Refuse new requests, let running ones end within `drain_seconds`, and end the others.

        Each of these gets the error of its API. Runs in the background return to the queue. A second call
        does nothing.

        Args:
            is_forced: returns whether running requests get no time.
        """
        if self._stopping.is_draining:
            return
        self._stopping.is_draining = True
        jobs = None if self._recorded is None else self._recorded.jobs
        if jobs is not None:
            jobs.drain()
        await self._idle(self.settings.drain_seconds, is_forced)
        self._stopping.end()
        if jobs is not None:
            jobs.stop()
        self._turns.running.stop()
        await self._idle(_ANSWER_SECONDS, is_forced)
        self._service.in_flight.cut()
        await self._idle(_END_SECONDS, is_forced)

    async def _idle(self, seconds: float, is_forced: Callable[[], bool]) -> None:
        """Wait until no request and no run is running, for at most some seconds."""
        in_flight, running, jobs = self._service.in_flight, self._turns.running, self._recorded
        with anyio.move_on_after(seconds):
            while in_flight.count or len(running) or not (jobs is None or jobs.jobs.is_idle):
                if is_forced():
                    return
                await anyio.sleep(_LOOK_SECONDS)

    def asgi(self) -> Starlette:
        """Return the ASGI application; its lifespan is `opened`."""
        refusals = {404: self._no_route, 405: self._no_route}
        return Starlette(routes=self._routes(), exception_handlers=refusals, lifespan=lambda _: self.opened())

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        endpoints = [route.endpoint for route in self._routes()]
        return openapi_document(each for each in endpoints if isinstance(each, Endpoint))

    def _routes(self) -> list[Route]:
        chat, models = ChatApi(self._turns), ModelsApi(self.catalogue)
        messages = MessagesApi(self._turns)
        session, viewer = SessionApi(self._access), Viewer()
        recorded = self._recorded
        table = None if recorded is None else recorded.jobs.table
        known = (None, None) if recorded is None else (recorded.responses, recorded.jobs)
        responses = ResponsesApi(self._turns, self._stopping, *known)
        health = Health(self.journal, self._access, self._stopping)
        card = self._a2a.handler("card", "Return the A2A card of a model, by default of the first.")
        routes = [
            self._route("GET", "/healthz", health.live, is_open=True),
            self._route("GET", "/readyz", health.ready, is_open=True),
            self._route("GET", "/", viewer.index, is_open=True),
            self._route("GET", f"{VIEWER_PATH}/{{file:path}}", viewer.file, is_open=True),
            self._route("POST", "/session", session.begin, is_open=True),
            self._route("GET", "/session", session.show, is_open=True),
            self._route("DELETE", "/session", session.end, is_open=True),
            self._route("GET", "/metrics", MetricsApi(self._service.metrics, table).show),
            self._route("GET", OPENAPI_PATH, OpenApi(self.openapi).show),
            self._route("GET", f"{KEYS_PATH}/self", OwnKeyApi(self._access).show),
            *self._of_keys(),
            self._route("GET", "/v1/models", models.list),
            self._route("GET", "/v1/models/{model:path}", models.show),
            self._route("POST", CHAT_PATH, chat.create),
            self._route("POST", RESPONSES_PATH, responses.create),
            self._route("GET", f"{RESPONSES_PATH}/{{response_id}}", responses.show),
            self._route("DELETE", f"{RESPONSES_PATH}/{{response_id}}", responses.delete),
            self._route("POST", f"{RESPONSES_PATH}/{{response_id}}/cancel", responses.cancel),
            self._route("GET", f"{RESPONSES_PATH}/{{response_id}}/input_items", responses.input_items),
            self._route("POST", MESSAGES_PATH, messages.create, errors=ANTHROPIC_ERRORS),
            self._route("POST", COUNT_PATH, messages.count, errors=ANTHROPIC_ERRORS),
            self._route("POST", "/mcp", self._mcp.handler("answer", "Let an MCP client call the models.")),
            self._route("GET", _CARD_PATH, card),
            self._route("GET", _A2A_PATH + _CARD_PATH, card),
            self._route("POST", _A2A_PATH, self._a2a.handler("answer", "Send a message to an A2A agent.")),
        ]
        if recorded is not None:
            run, own, actions = f"{RUNS_PATH}/{{run_id}}", recorded.runs, recorded.actions
            routes += [
                self._route("GET", RUNS_PATH, own.list),
                self._route("POST", RUNS_PATH, actions.create),
                self._route("GET", run, own.show),
                self._route("DELETE", run, actions.delete),
                self._route("GET", f"{run}/events", own.events),
                self._route("GET", f"{run}/prompts", own.prompts),
                self._route("POST", f"{run}/forecast", recorded.forecast.show),
                self._route("POST", f"{run}/approve", actions.approve),
                self._route("POST", f"{run}/decide", actions.decide),
                self._route("POST", f"{run}/refuse", actions.refuse),
                self._route("POST", f"{run}/edit", actions.edit),
                self._route("POST", f"{run}/cancel", actions.cancel),
                self._route("POST", f"{run}/resume", actions.resume),
                self._route("POST", f"{run}/replay", actions.replay),
                self._route("GET", SUMS_PATH, recorded.sums.show),
            ]
        return routes

    def _of_keys(self) -> list[Route]:
        keys, one = KeysApi(self._access, self.catalogue, self._config), f"{KEYS_PATH}/{{key}}"
        return [
            self._route("GET", KEYS_PATH, keys.list),
            self._route("POST", KEYS_PATH, keys.create),
            self._route("GET", f"{KEYS_PATH}/changes", keys.changes),
            self._route("GET", one, keys.show),
            self._route("POST", one, keys.update),
            self._route("DELETE", one, keys.revoke),
            self._route("POST", f"{one}/rotate", keys.rotate),
        ]

    def _route(
        self,
        method: str,
        path: str,
        handle: Handler,
        *,
        errors: ErrorForm = OPENAI_ERRORS,
        is_open: bool = False,
    ) -> Route:
        endpoint = Endpoint(self._service, method, path, handle, errors, is_open=is_open)
        return Route(path, endpoint, methods=[method])

    async def _no_route(self, request: Request, error: Exception) -> Response:
        """Answer a request whose path or method has no route."""
        status = error.status_code if isinstance(error, HTTPException) else 404
        known = "no such path" if status == 404 else f"the path does not support {request.method}"
        code = "unknown_url" if status == 404 else "method_not_allowed"
        record = Record(request.method, code=code)
        told = f"{known}: {request.url.path:.200}"
        fault = Fault(status=status, code=code, message=told, request_id=record.request_id)
        headers = dict((error.headers if isinstance(error, HTTPException) else None) or {})
        self._service.ended(record, status)
        form = ANTHROPIC_ERRORS if request.url.path.startswith(MESSAGES_PATH) else OPENAI_ERRORS
        if form.id_header is not None:
            headers[form.id_header] = record.request_id
        return JSONResponse(form.body(fault), status_code=status, headers=headers)


def create_app(config: Config, access: Access | None = None) -> Starlette:
    """Return the ASGI application for a config; see `App`."""
    return App(config, access).asgi()
