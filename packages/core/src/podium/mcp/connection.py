"""The connection to an MCP server, which its workers share, and its faults."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar

import anyio

from podium.aio import PerLoop, shielded
from podium.errors import (
    PodiumError,
    WorkerBroken,
    WorkerError,
    WorkerFailed,
    WorkerRefused,
    WorkerTimeout,
    WorkerUnavailable,
)
from podium.hosts import worker_error
from podium.mcp.sdk import (
    Client,
    HttpFault,
    StderrTail,
    Transport,
    Watch,
    connect,
    error_code,
    is_closed,
    is_session_unknown,
)
from podium.workers.openai.errors import Origin, status_fault

_REFUSED = frozenset({-32600, -32601, -32602})
"""JSON-RPC codes: invalid request, unknown method, invalid arguments."""


class SessionLost(Exception):
    """The session ended before the server answered."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Facts about a failed call besides its exception."""

    name: str
    """The server's name."""
    seconds: float
    """Timeout of the call."""
    stderr: str
    """The last lines that the server's process wrote to stderr."""
    http: Sequence[HttpFault]
    """The error responses of the HTTP server during the call."""

    @property
    def who(self) -> str:
        """The name of the server in messages."""
        return f"MCP server {self.name!r}"

    @property
    def wrote(self) -> str:
        """The server's stderr output, as the end of a message."""
        return f"; it wrote: {self.quote(self.stderr)}" if self.stderr else ""

    def quote(self, text: str) -> str:
        """Return the beginning of a text from the server, on one printable line without secrets."""
        return Origin(self.who).quote(text)


def open_fault(error: Exception, seen: Seen) -> WorkerError:
    """Return the error for a session that could not be opened, so that no call was made.

    Args:
        error: the exception of the SDK.
        seen: other facts.
    """
    cause = _innermost(error)
    if isinstance(cause, FileNotFoundError | PermissionError | NotADirectoryError):
        return WorkerRefused(f"{seen.who} cannot be started: {cause}: check its command and its folder")
    if isinstance(cause, TimeoutError):
        return WorkerTimeout(f"{seen.who} did not start within {seen.seconds:g} s{seen.wrote}")
    fault: WorkerError
    if seen.http:
        fault = _http_fault(seen)
    elif error_code(cause) is not None or is_closed(cause) or isinstance(cause, SessionLost):
        fault = WorkerUnavailable(f"{seen.who} did not open a session: {_said(seen, cause)}{seen.wrote}")
    else:
        fault = worker_error(cause, seen.name)
    fault.maybe_paid = fault.acted = False
    return fault


def call_fault(error: Exception, seen: Seen) -> WorkerError:
    """Return the error for a call that failed.

    Args:
        error: the exception of the SDK.
        seen: other facts.
    """
    cause = _innermost(error)
    if isinstance(cause, TimeoutError):
        return WorkerTimeout(f"{seen.who} did not answer within {seen.seconds:g} s", maybe_paid=True)
    if seen.http or is_closed(cause) or isinstance(cause, SessionLost):
        return _connection_fault(cause, seen)
    if (code := error_code(cause)) is not None:
        kind = WorkerRefused if code in _REFUSED else WorkerFailed
        told = f"{seen.who} answered with error {code}: {_said(seen, cause)}"
        return kind(told, maybe_paid=kind is WorkerFailed)
    if isinstance(cause, RuntimeError | ValueError):  # an answer that its schema does not allow
        return WorkerBroken(f"{seen.who} sent an invalid answer: {_said(seen, cause)}", maybe_paid=True)
    return worker_error(cause, seen.name)


def _connection_fault(cause: BaseException, seen: Seen) -> WorkerError:
    if is_session_unknown(cause):
        return WorkerUnavailable(f"{seen.who} has ended the session; the next call opens a new one")
    if seen.http:
        return _http_fault(seen)
    if isinstance(cause, anyio.ClosedResourceError | anyio.BrokenResourceError):
        # The server may have read the call before it closed the connection.
        return WorkerUnavailable(f"{seen.who} has closed the connection{seen.wrote}", maybe_paid=True)
    why = None if cause.__cause__ is None else _innermost(cause.__cause__)
    if why is not None and not is_closed(why):
        return worker_error(why, seen.name)
    told = f"{seen.who} closed the connection before it answered{seen.wrote}"
    return WorkerBroken(told, maybe_paid=True)


def _http_fault(seen: Seen) -> WorkerError:
    status, headers = seen.http[-1]
    if status == HTTPStatus.NOT_FOUND:
        return WorkerRefused(f"{seen.who} answered 404: check its URL", status=status)
    lowered = {name.lower(): value for name, value in headers.items()}
    return status_fault(Origin(seen.who), status, lowered, b"")


def _innermost(error: BaseException) -> BaseException:
    """Return the exception inside nested groups of one exception."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _said(seen: Seen, error: BaseException) -> str:
    return seen.quote(str(error) or type(error).__name__)


T = TypeVar("T")
OPEN_SECONDS = 30.0
"""Timeout for the start of a server and its first answer, in seconds. npx and uvx may have to download the
server first.
"""
_CLOSE_SECONDS = 5.0
"""Timeout for the end of a server, in seconds. The SDK kills the process of a server before this time."""


class _Session:
    """One session. A task of its own keeps the session open, so that any other task may use and close it."""

    def __init__(self, name: str, transport: Transport) -> None:
        self.watch = Watch(StderrTail(name))
        self._client: Client | None = None
        self._error: Exception | None = None
        self._opened = anyio.Event()
        self._stop = anyio.Event()
        # Without the caller's context variables, because the session outlives the call that opens it.
        self._task = asyncio.create_task(self._hold(transport), context=Context())

    async def _hold(self, transport: Transport) -> None:
        try:
            async with connect(transport, self.watch) as client:
                self._client = client
                self._opened.set()
                await self._stop.wait()
        except Exception as error:  # noqa: BLE001 - users of the session raise it
            self._error = error
        finally:
            self.watch.ended.set()
            self._opened.set()

    async def opened(self) -> Client:
        """Return the client once the session is open.

        Raises:
            TimeoutError: the session did not open in time.
            Exception: any exception of the SDK.
        """
        with anyio.fail_after(OPEN_SECONDS):
            await self._opened.wait()
        if self._client is None:
            raise self._error or SessionLost
        return self._client

    async def run(self, call: Callable[[Client], Awaitable[T]]) -> T:
        """Await a call of the client.

        Raises:
            SessionLost: the session ended before the call; `__cause__` is the reason, if it is known.
            Exception: any exception of the SDK.
        """
        client = await self.opened()
        done: list[T] = []
        raised: Exception | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(self._cancel_at_end, group.cancel_scope)
            try:
                done.append(await call(client))
            except Exception as error:  # noqa: BLE001 - raised below, outside the group
                raised = error
            group.cancel_scope.cancel()
        if done:
            return done[0]
        if raised is not None:
            raise raised
        raise SessionLost from self._error

    async def _cancel_at_end(self, scope: anyio.CancelScope) -> None:
        await self.watch.ended.wait()
        scope.cancel()

    async def aclose(self) -> None:
        """End the session, and wait for its end."""
        self._stop.set()
        try:
            if self._client is not None:  # else it is still opening, which only a cancellation ends
                await asyncio.wait([self._task], timeout=_CLOSE_SECONDS)
        finally:
            if not self._task.done():
                self._task.cancel()
                await asyncio.wait([self._task], timeout=_CLOSE_SECONDS)


class Connection:
    """The session of one event loop with a server.

    Args:
        name: the server's name.
        transport: the transport to the server.
    """

    def __init__(self, name: str, transport: Transport) -> None:
        self._name = name
        self._transport = transport
        self._opening = anyio.Lock()
        self._session: _Session | None = None

    async def call(self, call: Callable[[Client], Awaitable[T]], *, seconds: float) -> T:
        """Await a call of the client, in the open session or in a new one.

        Args:
            call: the call.
            seconds: timeout for the answer.

        Raises:
            WorkerError: the server is unreachable, did not answer in time, or answered with an error.
        """
        session = await self._live()
        watch = session.watch
        known = len(watch.faults)
        try:
            with anyio.fail_after(seconds):
                return await session.run(call)
        except PodiumError:
            raise
        except Exception as error:  # the SDK raises many types; `call_fault` translates them
            if is_closed(error) or isinstance(error, SessionLost):
                await shielded(self._drop(session))
            seen = Seen(self._name, seconds, watch.stderr.last_lines, watch.faults[known:])
            raise call_fault(error, seen) from error

    async def aclose(self) -> None:
        """End the session, if one is open."""
        if self._session is not None:
            await self._drop(self._session)

    async def _live(self) -> _Session:
        """Return the open session; open one if there is none."""
        async with self._opening:
            if self._session is not None and self._session.watch.ended.is_set():
                await shielded(self._drop(self._session))
            if self._session is None:
                self._session = await self._open()
            return self._session

    async def _open(self) -> _Session:
        session = _Session(self._name, self._transport)
        try:
            await session.opened()
        except PodiumError:
            raise
        except BaseException as error:  # the session is closed after a cancellation, too
            await shielded(session.aclose())
            if not isinstance(error, Exception):
                raise
            watch = session.watch
            seen = Seen(self._name, OPEN_SECONDS, watch.stderr.last_lines, watch.faults)
            raise open_fault(error, seen) from error
        return session

    async def _drop(self, session: _Session) -> None:
        if self._session is session:
            self._session = None
        await session.aclose()


class SharedConnection(PerLoop[Connection]):
    """The connection to a server that all its workers share, one for each event loop.

    Args:
        name: the server's name.
        transport: the transport to the server.
        seconds: timeout for the answer to one call.
    """

    def __init__(self, name: str, transport: Transport, seconds: float) -> None:
        super().__init__()
        self.name = name
        self.transport = transport
        self._seconds = seconds

    async def request(self, call: Callable[[Client], Awaitable[T]]) -> T:
        """Call the server in this event loop's session.

        Raises:
            WorkerError: the server is unreachable, did not answer in time, or answered with an error.
        """
        async with self.opened() as connection:
            return await connection.call(call, seconds=self._seconds)

    async def _open(self) -> Connection:
        return Connection(self.name, self.transport)

    async def _close(self, part: Connection) -> None:
        await part.aclose()
