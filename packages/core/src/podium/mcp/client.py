"""The session with an MCP server, which its workers share: its transports, its calls and its faults."""

import asyncio
import logging
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from contextvars import Context
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Literal, TextIO, TypeVar

import anyio
from mcp import ClientSession, McpError, StdioServerParameters, stdio_client, types
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from pydantic import AnyUrl, BaseModel

from podium.aio.calls import shielded
from podium.errors import (
    WorkerBroken,
    WorkerError,
    WorkerFailed,
    WorkerRefused,
    WorkerTimeout,
    WorkerUnavailable,
)
from podium.hosts.errors import worker_error
from podium.workers.openai.errors import quoted, status_fault

T = TypeVar("T")
_LOG = logging.getLogger("podium.mcp")
_OPEN_SECONDS: Final = 30.0
"""Timeout for the start of a server and its first answer: npx and uvx may have to download the server."""
_CLOSE_SECONDS: Final = 5.0
"""Timeout for the end of a session. The SDK kills the process of a server before this time."""
_OPENING_SECONDS: Final = 1.0
"""How long the end of a session waits for its start."""
_CANCEL_SECONDS: Final = 1.0
_HTTP_TIMEOUTS: Final = (10.0, None, 30.0, 30.0)
"""To connect, read, write and get a connection. `Connection.call` limits the wait for an answer."""
_MOST_PAGES: Final = 100
_MOST_STDERR: Final = 2000
_REFUSED = frozenset({types.INVALID_REQUEST, types.METHOD_NOT_FOUND, types.INVALID_PARAMS})


class StderrTail:
    """Logs the stderr of a server's process, and keeps its end."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._kept = ""

    @property
    def last_lines(self) -> str:
        """The last lines that the process wrote; empty if it wrote none."""
        return "\n".join(self._kept.strip().splitlines()[-5:])

    @contextmanager
    def opened(self) -> Iterator[TextIO]:
        """Yield the stderr file for the process; the caller closes it after the start of the process."""
        if sys.platform == "win32":  # its event loop cannot wait for a pipe
            yield sys.stderr
            return
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        loop = asyncio.get_running_loop()
        loop.add_reader(reading, self._read, reading, loop)
        try:
            with os.fdopen(writing, "w", encoding="utf-8") as file:
                yield file
        finally:
            self._read(reading, loop)
            loop.remove_reader(reading)
            os.close(reading)

    def _read(self, reading: int, loop: asyncio.AbstractEventLoop) -> None:
        with suppress(BlockingIOError):
            while data := os.read(reading, 65536):
                text = data.decode(errors="replace")
                self._kept = (self._kept + text)[-_MOST_STDERR:]
                for line in text.splitlines():
                    _LOG.info("server %r: %s", self._name, line)
            loop.remove_reader(reading)  # the process closed it


@asynccontextmanager
async def stdio_streams(
    command: str, args: Sequence[str], env: Mapping[str, str], folder: Path | None, stderr: StderrTail
) -> AsyncGenerator[tuple[Any, Any], None]:
    """Start a server as a process, and yield the streams of messages from and to it."""
    server = StdioServerParameters(
        command=command, args=list(args), env=dict(env), cwd=folder, encoding_error_handler="replace"
    )
    with stderr.opened() as errlog:
        async with stdio_client(server, errlog=errlog) as streams:
            if errlog is not sys.stderr:
                errlog.close()  # the process has its own copy
            yield streams


@asynccontextmanager
async def http_streams(
    url: str, headers: Mapping[str, str], _: StderrTail
) -> AsyncGenerator[tuple[Any, Any], None]:
    """Yield the streams of messages from and to a server at a URL."""
    async with (
        create_mcp_http_client(headers=dict(headers)) as http,
        streamable_http_client(url, http_client=http) as (read, write, _session_id),
    ):
        http.timeout = _HTTP_TIMEOUTS
        yield read, write


class Client:
    """Calls a server over the SDK's session. Results are JSON data in the form of MCP."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session

    async def listed(self, kind: Literal["tools", "resources", "resourceTemplates"]) -> list[dict[str, Any]]:
        """Return what the server has of a kind."""
        session = self._session
        if getattr(session.get_server_capabilities(), "tools" if kind == "tools" else "resources") is None:
            return []
        lists: Mapping[str, Callable[..., Awaitable[BaseModel]]] = {
            "tools": session.list_tools,
            "resources": session.list_resources,
            "resourceTemplates": session.list_resource_templates,
        }
        found: list[dict[str, Any]] = []
        params: types.PaginatedRequestParams | None = None
        for _ in range(_MOST_PAGES):
            page = _wire(await lists[kind](params=params))
            found += page[kind]
            if (cursor := page.get("nextCursor")) is None:
                return found
            params = types.PaginatedRequestParams(cursor=cursor)
        raise ValueError(f"the server sent more than {_MOST_PAGES} pages of {kind}")

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool. If the call is cancelled, the server is notified, which the SDK does not do."""
        number = self._session._request_id  # noqa: SLF001 - the SDK has no public API for this
        try:
            return _wire(await self._session.call_tool(name, arguments))
        except asyncio.CancelledError:
            params = types.CancelledNotificationParams(requestId=number, reason="the caller has cancelled it")
            told = types.ClientNotification(types.CancelledNotification(params=params))
            with (
                suppress(anyio.ClosedResourceError, anyio.BrokenResourceError),
                anyio.move_on_after(_CANCEL_SECONDS, shield=True),
            ):
                await self._session.send_notification(told)
            raise

    async def read_resource(self, uri: str) -> dict[str, Any]:
        """Return the contents of a resource."""
        return _wire(await self._session.read_resource(AnyUrl(uri)))


def _wire(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


class _SessionLost(Exception):
    """The session ended before the server answered."""


Connect = Callable[[StderrTail], AbstractAsyncContextManager[tuple[Any, Any]]]


class _Session:
    """One session. A task of its own keeps the session open, so that any other task may use and close it."""

    def __init__(self, name: str, connect: Connect) -> None:
        self.stderr = StderrTail(name)
        self.error: Exception | None = None
        """Why the session ended; `None` if it is open or ended without an exception."""
        self._client: Client | None = None
        self._write: Any = None
        self._opened = anyio.Event()
        self._stop = anyio.Event()
        self._calls = set[anyio.CancelScope]()
        # Without the caller's context variables, because the session outlives the call that opens it.
        self._task = asyncio.create_task(self._hold(connect), context=Context())

    async def _hold(self, connect: Connect) -> None:
        try:
            async with (
                connect(self.stderr) as (read, self._write),
                ClientSession(read, self._write) as session,
            ):
                await session.initialize()
                self._client = Client(session)
                self._opened.set()
                await self._stop.wait()
        except Exception as error:  # noqa: BLE001 - users of the session raise it
            self.error = error
        finally:
            self._opened.set()
            for scope in self._calls:
                scope.cancel()

    @property
    def is_open(self) -> bool:
        """Whether the session can take calls: the SDK closes its stream when the server has ended."""
        return not self._task.done() and self._write.statistics().open_send_streams > 0

    async def opened(self) -> Client:
        """Return the client once the session is open; an exception of the SDK is raised."""
        with anyio.fail_after(_OPEN_SECONDS):
            await self._opened.wait()
        if self._client is None:
            raise self.error or _SessionLost
        return self._client

    async def run(self, call: Callable[[Client], Awaitable[T]]) -> T:
        """Await a call of the client, at most until the end of the session."""
        client = await self.opened()
        with anyio.CancelScope() as scope:
            self._calls.add(scope)
            try:
                return await call(client)
            finally:
                self._calls.discard(scope)
        raise _SessionLost

    async def aclose(self) -> None:
        """End the session, and wait for its end."""
        self._stop.set()
        try:
            # The SDK leaves a task behind if it is cancelled while it opens a session, so it gets a moment.
            seconds = _OPENING_SECONDS if self._client is None else _CLOSE_SECONDS
            await asyncio.wait([self._task], timeout=seconds)
        finally:
            if not self._task.done():
                self._task.cancel()
                await asyncio.wait([self._task], timeout=_CLOSE_SECONDS)


class Connection:
    """The session of one event loop with a server; after its end, the next call opens a new one."""

    def __init__(self, name: str, connect: Connect) -> None:
        self._name = name
        self._connect = connect
        self._opening = anyio.Lock()
        self._session: _Session | None = None

    async def call(self, call: Callable[[Client], Awaitable[T]], *, seconds: float) -> T:
        """Await a call of the client, or raise `WorkerError`."""
        session = await self._live()
        try:
            with anyio.fail_after(seconds):
                return await session.run(call)
        except Exception as error:  # the SDK raises many types; `_call_fault` translates them
            cause: Exception = error
            if _is_closed(error):
                await shielded(self._drop(session))
                if session.error is not None and not _is_closed(session.error):
                    cause = session.error
            raise _call_fault(cause, _Seen(self._name, seconds, session.stderr)) from error

    async def aclose(self) -> None:
        """End the session, if one is open."""
        if self._session is not None:
            await self._drop(self._session)

    async def _live(self) -> _Session:
        async with self._opening:
            if self._session is not None and not self._session.is_open:
                await shielded(self._drop(self._session))
            if self._session is None:
                self._session = await self._open()
            return self._session

    async def _open(self) -> _Session:
        session = _Session(self._name, self._connect)
        try:
            await session.opened()
        except BaseException as error:  # the session is closed after a cancellation, too
            await shielded(session.aclose())
            if not isinstance(error, Exception):
                raise
            raise _open_fault(error, _Seen(self._name, _OPEN_SECONDS, session.stderr)) from error
        return session

    async def _drop(self, session: _Session) -> None:
        if self._session is session:
            self._session = None
        await session.aclose()


class _Seen:
    """Facts about a failed call besides its exception: the server, the timeout and its stderr."""

    def __init__(self, name: str, seconds: float, stderr: StderrTail) -> None:
        self.name = name
        self.seconds = seconds
        self.who = f"MCP server {name!r}"
        wrote = stderr.last_lines
        self.wrote = f"; it wrote: {quoted(wrote)}" if wrote else ""

    def said(self, error: BaseException) -> str:
        return quoted(str(error) or type(error).__name__)


def _open_fault(error: Exception, seen: _Seen) -> WorkerError:
    """Return the error for a session that could not be opened, so that no call was made."""
    cause, who = _innermost(error), seen.who
    fault: WorkerError
    if isinstance(cause, FileNotFoundError | PermissionError | NotADirectoryError):
        fault = WorkerRefused(f"{who} cannot be started: {cause}: check its command and its folder")
    elif isinstance(cause, TimeoutError):
        fault = WorkerTimeout(f"{who} did not start within {seen.seconds:g} s{seen.wrote}")
    elif _is_unknown(cause):
        fault = WorkerRefused(f"{who} answered 404: check its URL", status=HTTPStatus.NOT_FOUND)
    elif isinstance(cause, McpError) or _is_closed(cause):
        fault = WorkerUnavailable(f"{who} did not open a session: {seen.said(cause)}{seen.wrote}")
    else:
        fault = _call_fault(cause, seen)
    fault.maybe_paid = fault.acted = False
    return fault


def _call_fault(error: BaseException, seen: _Seen) -> WorkerError:
    """Return the error for a call that failed."""
    cause, who = _innermost(error), seen.who
    fault: WorkerError
    match cause:
        case TimeoutError():
            fault = WorkerTimeout(f"{who} did not answer within {seen.seconds:g} s", maybe_paid=True)
        case _ if (response := getattr(cause, "response", None)) is not None:  # an HTTP error status
            fault = status_fault(who, response.status_code, response.headers, b"")
        case _ if _is_unknown(cause):
            fault = WorkerUnavailable(f"{who} has ended the session; the next call opens a new one")
        case anyio.ClosedResourceError() | anyio.BrokenResourceError():  # the server may have read the call
            fault = WorkerUnavailable(f"{who} has closed the connection{seen.wrote}", maybe_paid=True)
        case _ if _is_closed(cause):
            told = f"{who} closed the connection before it answered{seen.wrote}"
            fault = WorkerBroken(told, maybe_paid=True)
        case McpError(error=types.ErrorData(code=code)):
            kind = WorkerRefused if code in _REFUSED else WorkerFailed
            told = f"{who} answered with error {code}: {seen.said(cause)}"
            fault = kind(told, maybe_paid=kind is WorkerFailed)
        case RuntimeError() | ValueError():  # an answer that its schema does not allow
            fault = WorkerBroken(f"{who} sent an invalid answer: {seen.said(cause)}", maybe_paid=True)
        case _:
            fault = worker_error(cause, seen.name)
    return fault


def _innermost(error: BaseException) -> BaseException:
    """Return the exception inside nested groups of one exception."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _is_unknown(error: BaseException) -> bool:
    """Return whether the HTTP server answered 404, for which the SDK has this error."""
    return isinstance(error, McpError) and "Session terminated" in str(error)


def _is_closed(error: BaseException) -> bool:
    """Return whether an exception means that the session has ended."""
    match _innermost(error):
        case _SessionLost() | anyio.ClosedResourceError() | anyio.BrokenResourceError():
            return True
        case McpError(error=types.ErrorData(code=code)) as cause:
            return code == types.CONNECTION_CLOSED or _is_unknown(cause)
    return False
