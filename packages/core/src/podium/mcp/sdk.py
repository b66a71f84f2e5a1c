"""Wraps the client of the MCP SDK, for versions 1 and 2 of the SDK, and its transports."""

import asyncio
import logging
import os
import sys
from asyncio import CancelledError
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, Self, TextIO
from urllib.parse import urlsplit

import anyio
from pydantic import AnyUrl

from podium.errors import ConfigError, install_hint
from podium.secrets import register


@dataclass(frozen=True, slots=True)
class Stdio:
    """A server that Podium starts as a process, with stdin and stdout as its connection.

    The process gets only the environment variables that the SDK passes on (such as `PATH` and `HOME`), and
    the variables in `env`. Its stderr goes to the logger `podium.mcp`; errors quote its last lines.

    Raises:
        ConfigError: the command is empty.
    """

    command: str
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Environment variables for the process. Their values are secrets."""
    folder: Path | None = None
    """The working folder of the process; `None` for the current folder."""

    def __post_init__(self) -> None:
        if not self.command.strip():
            raise ConfigError("the command of an MCP server is empty: name the program that starts it")
        for value in self.env.values():
            register(value)


@dataclass(frozen=True, slots=True)
class StreamableHttp:
    """A server at a URL that supports MCP's streamable HTTP.

    Raises:
        ConfigError: the URL is not an HTTP URL, or contains a user name or password.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """HTTP headers of every request, such as `Authorization`. Their values are secrets."""

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
        except ValueError:  # its message quotes a part of the URL
            parts = urlsplit("")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError("the URL of an MCP server is not an http(s) URL with a host")
        if parts.username is not None or parts.password is not None:
            raise ConfigError(
                "the URL of an MCP server has a user name or password: leave them out and use headers"
            )
        for value in self.headers.values():
            register(value)
            register(value.rpartition(" ")[2])


Transport = Stdio | StreamableHttp


_KEPT = 2000
"""Maximum characters to keep."""
_LOG = logging.getLogger("podium.mcp")


class StderrTail:
    """Reads the stderr of a process.

    Args:
        name: the server's name, for the log records.
    """

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
                self._kept = (self._kept + text)[-_KEPT:]
                for line in text.splitlines():
                    _LOG.info("server %r: %s", self._name, line)
            loop.remove_reader(reading)  # the process closed it


HttpFault = tuple[int, Mapping[str, str]]
"""The status and the headers of a response."""

_MOST_PAGES: Final = 100
"""Maximum pages of a list; more are an error of the server."""
_CONNECT, _WRITE = 10.0, 30.0
"""Timeouts to connect and to send a request, in seconds. The caller limits the wait for the answer."""
_CANCEL_SECONDS: Final = 1.0
_CONNECTION_CLOSED: Final = -32000


def sdk_version() -> int:
    """Return the major version of the SDK.

    Raises:
        ConfigError: the SDK is not installed.
    """
    try:
        return int(version("mcp").partition(".")[0])
    except PackageNotFoundError as error:
        raise ConfigError(f"MCP needs the package mcp: {install_hint('core[mcp]')}") from error


class Client:
    """A session with a server.

    Args:
        session: the SDK's `ClientSession`.
        high_level: the SDK's `Client` of version 2; `None` with version 1.
    """

    def __init__(self, session: Any, high_level: Any = None) -> None:
        self._session = session
        self._high_level = high_level
        self._types = import_module("mcp.types")

    def has(self, capability: str) -> bool:
        """Return whether the server has a capability: `tools` or `resources`."""
        source = self._session if self._high_level is None else self._high_level
        found = source.get_server_capabilities() if self._high_level is None else source.server_capabilities
        return getattr(found, capability, None) is not None

    async def tools(self) -> list[dict[str, Any]]:
        """Return all tools of the server."""
        return await self._all("list_tools", "tools")

    async def resources(self) -> list[dict[str, Any]]:
        """Return all resources of the server."""
        return await self._all("list_resources", "resources")

    async def templates(self) -> list[dict[str, Any]]:
        """Return all templates of resources of the server."""
        return await self._all("list_resource_templates", "resourceTemplates")

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool. If the call is cancelled, the server is notified."""
        if self._high_level is not None:
            return _wire(await self._high_level.call_tool(name, arguments))
        number = self._session._request_id  # noqa: SLF001 - version 1 does not notify the server of a cancellation
        try:
            return _wire(await self._session.call_tool(name, arguments))
        except CancelledError:
            with anyio.move_on_after(_CANCEL_SECONDS, shield=True):
                await self._cancel(number)
            raise

    async def read_resource(self, uri: str) -> dict[str, Any]:
        """Return the contents of a resource."""
        if self._high_level is not None:
            return _wire(await self._high_level.read_resource(uri))
        return _wire(await self._session.read_resource(AnyUrl(uri)))

    async def _all(self, method: str, key: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            params = None if cursor is None else self._types.PaginatedRequestParams(cursor=cursor)
            page = _wire(await getattr(self._session, method)(params=params))
            found += page[key]
            cursor = page.get("nextCursor")
            if cursor is None:
                return found
        raise ValueError(f"the server sent more than {_MOST_PAGES} pages of {key}")

    async def _cancel(self, number: int) -> None:
        types = self._types
        params = types.CancelledNotificationParams(requestId=number, reason="the caller cancelled the call")
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            await self._session.send_notification(
                types.ClientNotification(types.CancelledNotification(params=params))
            )


class Watch:
    """Observations of a session besides the SDK's results and exceptions.

    Args:
        stderr: reads the stderr of the server's process.
    """

    def __init__(self, stderr: StderrTail) -> None:
        self.stderr = stderr
        self.faults: list[HttpFault] = []
        """The error responses of an HTTP server; version 2 does not report their status."""
        self.ended = anyio.Event()
        """Set when the stream of messages from the server ends."""


@asynccontextmanager
async def connect(transport: Transport, watch: Watch) -> AsyncGenerator[Client, None]:
    """Open a session with a server.

    Args:
        transport: the transport to the server.
        watch: stores observations of the session.
    """
    is_old = sdk_version() < 2
    streams = _stdio(transport, watch) if isinstance(transport, Stdio) else _http(transport, watch)
    async with AsyncExitStack() as stack:
        if is_old:
            read, write = await stack.enter_async_context(streams)
            session = await stack.enter_async_context(import_module("mcp").ClientSession(read, write))
            await session.initialize()
            yield Client(session)
        else:
            client = import_module("mcp").Client(streams, mode="auto", cache=None)
            await stack.enter_async_context(client)
            yield Client(client.session, client)


class _Watched:
    """The stream of a server's messages, which reports its end."""

    def __init__(self, stream: Any, ended: anyio.Event) -> None:
        self._stream = stream
        self._ended = ended

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self._stream.__aexit__(*raised)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._stream.__anext__()
        except StopAsyncIteration:
            self._ended.set()
            raise


@asynccontextmanager
async def _stdio(transport: Stdio, watch: Watch) -> AsyncGenerator[tuple[Any, Any], None]:
    sdk = import_module("mcp.client.stdio")
    server = sdk.StdioServerParameters(
        command=transport.command,
        args=list(transport.args),
        env=dict(transport.env),
        cwd=transport.folder,
        encoding_error_handler="replace",
    )
    with watch.stderr.opened() as errlog:
        async with sdk.stdio_client(server, errlog=errlog) as (read, write):
            if errlog is not sys.stderr:
                errlog.close()  # the process has its own copy
            yield _Watched(read, watch.ended), write


@asynccontextmanager
async def _http(transport: StreamableHttp, watch: Watch) -> AsyncGenerator[tuple[Any, Any], None]:
    async def note(response: Any) -> None:
        if response.status_code >= HTTPStatus.BAD_REQUEST and response.request.method == "POST":
            watch.faults.append((response.status_code, dict(response.headers)))

    sdk = import_module("mcp.client.streamable_http")
    # The SDK uses httpx in version 1 and httpx2 in version 2.
    make_client = import_module("mcp.shared._httpx_utils").create_mcp_http_client
    async with make_client(headers=dict(transport.headers)) as http:
        http.timeout = (_CONNECT, None, _WRITE, _WRITE)
        http.event_hooks["response"].append(note)
        async with sdk.streamable_http_client(transport.url, http_client=http) as (read, write, *_):
            yield _Watched(read, watch.ended), write


def error_code(error: BaseException) -> int | None:
    """Return the code of an error response of the server; `None` for any other exception."""
    said = getattr(error, "error", None)
    code = getattr(said, "code", None)
    return code if type(error).__name__ in ("McpError", "MCPError") and isinstance(code, int) else None


def is_session_unknown(error: BaseException) -> bool:
    """Return whether the HTTP server does not know the session, as after a restart."""
    return error_code(error) is not None and "Session terminated" in str(error)


def is_closed(error: BaseException) -> bool:
    """Return whether an exception means that the session has ended."""
    if isinstance(error, anyio.ClosedResourceError | anyio.BrokenResourceError):
        return True
    return error_code(error) == _CONNECTION_CLOSED or is_session_unknown(error)


def _wire(model: Any) -> dict[str, Any]:
    data: dict[str, Any] = model.model_dump(by_alias=True, mode="json", exclude_none=True)
    return data
