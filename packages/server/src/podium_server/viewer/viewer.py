"""The viewer: serves its files, and runs over a journal for one person, who changes nothing.

The files are public: they have no data. The page reads the runs API with the session of its user.
"""

import hmac
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import cache
from hashlib import sha256
from importlib.resources import files

from starlette.applications import Starlette
from starlette.routing import Route

from podium.journal import SqlJournal
from podium_server.api.endpoint import Endpoint, Handler, Service
from podium_server.api.keys import SessionState
from podium_server.api.runs.costs import PATH as SUMS_PATH, SumsApi
from podium_server.api.runs.query import RunIndex
from podium_server.api.runs.route import PATH as RUNS_PATH, RunsApi
from podium_server.http import BadRequest, Exchange
from podium_server.jobs.table import JobTable
from podium_server.keys import Caller, KeyInvalid, NoKeys
from podium_server.models import Catalogue
from podium_server.settings import ServerSection
from podium_server.turn import LivePieces

PATH = "/viewer"
_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
_HEADERS = {
    "cache-control": "no-cache",
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


class Viewer:
    """`GET /` and `GET /viewer/{file}`."""

    async def index(self, exchange: Exchange, _: Caller) -> None:
        """Send the page of the viewer."""
        await self._send(exchange, "index.html")

    async def file(self, exchange: Exchange, _: Caller) -> None:
        """Send a file of the viewer."""
        await self._send(exchange, str(exchange.path_params["file"]))

    async def _send(self, exchange: Exchange, name: str) -> None:
        found = static_files().get(name)
        if found is None:
            raise BadRequest(f"the viewer has no file {name!r:.100}", status=404, code="unknown_url")
        tag = f'"{sha256(found).hexdigest()[:24]}"'
        headers = {**_HEADERS, "etag": tag}
        is_known = tag in (exchange.header("if-none-match") or "")
        kind = _TYPES[name.rpartition(".")[2]]
        await exchange.whole(
            b"" if is_known else found, kind, status=304 if is_known else 200, headers=headers
        )


@cache
def static_files() -> dict[str, bytes]:
    """Return the files of the viewer by their paths; no other file of the machine can be asked for."""
    root = files("podium_server") / "viewer" / "static"
    found = {each.name: each.read_bytes() for each in root.iterdir() if each.is_file()}
    vendor = root / "vendor"
    return found | {f"vendor/{each.name}": each.read_bytes() for each in vendor.iterdir() if each.is_file()}


_TOKEN_BYTES = 32


class TokenAccess(NoKeys):
    """Needs a token, because other users of the machine can reach its loopback addresses, too."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def authenticate(self, token: str | None) -> Caller:
        """Return the local caller."""
        if not hmac.compare_digest((token or "").encode(), self._token.encode()):
            raise KeyInvalid(
                "the token of the address is missing: use the address that `podium show --open` wrote"
            )
        return Caller()


class Reader:
    """A server of the viewer that shows recorded runs to the holder of its token."""

    def __init__(self, journal: SqlJournal, catalogue: Catalogue) -> None:
        self.settings = ServerSection()
        self.token = secrets.token_urlsafe(_TOKEN_BYTES)
        access = TokenAccess(self.token)
        self._journal = journal
        self._table = JobTable(journal)
        self._service = Service(access, self.settings, is_local=True)
        index = RunIndex(journal, self._table, has_keys=False)
        stopping = self._service.stopping
        self._sums = SumsApi(self._table, has_keys=False)
        self._runs = RunsApi(index, self._table, access, stopping, LivePieces(), catalogue)

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None, None]:
        """Keep the connections to the database open in the block."""
        async with self._journal, self._table:
            yield

    async def stop(self, is_forced: Callable[[], bool] = lambda: False) -> None:
        """End the streams of events."""
        del is_forced
        self._service.stopping.is_draining = True
        self._service.stopping.end()
        self._service.in_flight.cut()

    def path(self, run_id: str) -> str:
        """Return the path of the page of a run; the token is in its fragment, which browsers do not send."""
        return f"/#/open/{self.token}/runs/{run_id}"

    def asgi(self) -> Starlette:
        """Return the ASGI application."""
        viewer, runs, run = Viewer(), self._runs, f"{RUNS_PATH}/{{run_id}}"
        return Starlette(
            routes=[
                self._route("/", viewer.index, is_open=True),
                self._route(f"{PATH}/{{file:path}}", viewer.file, is_open=True),
                self._route("/session", _session),
                self._route(RUNS_PATH, runs.list),
                self._route(run, runs.show),
                self._route(f"{run}/events", runs.events),
                self._route(f"{run}/prompts", runs.prompts),
                self._route(SUMS_PATH, self._sums.show),
            ]
        )

    def _route(self, path: str, handle: Handler, *, is_open: bool = False) -> Route:
        return Route(path, Endpoint(self._service, "GET", path, handle, is_open=is_open), methods=["GET"])


async def _session(exchange: Exchange, _: Caller) -> None:
    """Tell the viewer that it cannot change runs."""
    await exchange.json(SessionState(state="open", reads_only=True).model_dump())
