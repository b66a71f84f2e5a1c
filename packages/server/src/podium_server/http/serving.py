"""Listens on an address, serves an ASGI application with limits, and stops in order."""

import socket
from asyncio import BaseTransport, TimerHandle, Transport
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address
from types import FrameType
from typing import ClassVar, cast

import anyio
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from podium.errors import ConfigError
from podium_server.errors import NO_RETRY, ServerError
from podium_server.settings import ServerSection

_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


ABORT = "podium.abort"
"""The extension of the ASGI scope with a function that drops the connection."""


class HeadersTooLarge(Exception):
    """The headers of a request are too large."""


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits on the headers."""

    bounds: ClassVar[ServerSection]
    _late: TimerHandle | None = None
    """Closes the connection if the headers of the next request do not arrive in time."""
    _received = 0
    """Bytes of the headers so far, and of data that arrived with them."""
    _has_head = False

    def connection_made(self, transport: BaseTransport) -> None:
        """Wait for the first request."""
        super().connection_made(cast("Transport", transport))
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse the data; refuse headers that are too large."""
        self._received += len(data)
        super().data_received(data)
        if not self._has_head and self._received > self.bounds.header_bytes:
            self._refuse()

    def on_message_begin(self) -> None:
        """Wait for the headers of a request."""
        super().on_message_begin()
        self.scope["extensions"] = {ABORT: {"abort": self.transport.abort}}
        self._has_head = False
        self._await_head()

    def on_headers_complete(self) -> None:
        """Start the request."""
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > self.bounds.header_bytes:
            raise HeadersTooLarge  # the parser stops, and uvicorn calls `send_400_response`
        self._stop_waiting()
        self._has_head, self._received = True, 0
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Expect the next request."""
        super().on_message_complete()
        self._received = 0

    def send_400_response(self, msg: str) -> None:
        """Refuse an invalid request."""
        size = sum(len(name) + len(value) for name, value in self.headers or ())
        if not self._has_head and size > self.bounds.header_bytes:
            self._refuse()
        else:
            super().send_400_response(msg)

    def _refuse(self) -> None:
        self.transport.write(_TOO_LARGE)
        self.transport.close()

    def _await_head(self) -> None:
        self._stop_waiting()
        self._late = self.loop.call_later(self.bounds.read_seconds, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


class ServerStopping(ServerError):
    """The server stops, so that it cannot answer the request."""

    code = "server_stopping"
    status = 503

    def __init__(self, message: str, *, repeats: bool = True, run_id: str | None = None) -> None:
        super().__init__(message)
        self.repeats = repeats
        self.run_id = run_id
        self.knows_actions = run_id is None

    @property
    def headers(self) -> Mapping[str, str]:
        """Send the client to another server, if it should repeat the request."""
        retry = {"retry-after": "1", "x-should-retry": "true"} if self.repeats else NO_RETRY
        return {**retry, "connection": "close"}


class Stopping:
    """How far the stop of a server is."""

    def __init__(self) -> None:
        self.is_draining = False
        """Whether the server begins no more requests."""
        self._is_over = False
        self._waiting: dict[object, Callable[[], object]] = {}

    def refuse(self) -> None:
        """Raise `ServerStopping` if the server begins no more requests."""
        if self.is_draining:
            raise ServerStopping("the server is stopping: repeat the request")

    def end(self) -> None:
        """End the time for running requests."""
        self._is_over = True
        for wake in list(self._waiting.values()):
            wake()

    @contextmanager
    def waking(self, wake: Callable[[], object]) -> Iterator[None]:
        """Call `wake` when the time for running requests is over: at the end of this time, or at once."""
        if self._is_over:
            wake()
        waiting = object()
        self._waiting[waiting] = wake
        try:
            yield
        finally:
            del self._waiting[waiting]

    def check(self) -> None:
        """Raise `ServerStopping` if the time for running requests is over."""
        if self._is_over:
            raise ServerStopping("the server is stopping: repeat the request")


class ServerBusy(ServerError):
    """The server has too many requests at this time."""

    code = "server_busy"
    status = 503
    headers: Mapping[str, str] = {"retry-after": "1"}


class InFlight:
    """The requests that run at the same time."""

    def __init__(self, most: int, stopping: Stopping) -> None:
        self._most = most
        self._stopping = stopping
        self._scopes: set[anyio.CancelScope] = set()

    @property
    def count(self) -> int:
        """The number of running requests."""
        return len(self._scopes)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count a request in the block."""
        self._stopping.refuse()
        if self.count >= self._most:
            raise ServerBusy(f"the server is busy: {self._most} requests are running")
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                yield
            finally:
                self._scopes.discard(scope)
        if scope.cancelled_caught:
            told = "the server has stopped before the request ended, which may have taken effect"
            raise ServerStopping(told, repeats=False)

    def cut(self) -> None:
        """Cancel the requests that are still running."""
        for scope in self._scopes:
            scope.cancel()


Stop = Callable[[Callable[[], bool]], Awaitable[None]]
_IDLE_SECONDS = 75
"""Time for which a connection without a request stays open."""


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server on this address."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=1024)
    except OSError as error:
        told = f"cannot listen on {host} port {port}: {error.strerror or error}"
        raise ConfigError(f"{told}: choose another with --host and --port") from error


def url_of(listening: socket.socket) -> str:
    """Return the URL of a server on this socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class HttpServer(uvicorn.Server):
    """A server that stops in order on SIGTERM and SIGINT.

    It answers until `stop` has returned. A second SIGINT shortens the stop.
    """

    def __init__(self, app: ASGIApp, bounds: ServerSection, stop: Stop) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=type("BoundedProtocol", (BoundedProtocol,), {"bounds": bounds}),
                ws="none",
                lifespan="off",
                log_level="critical",  # the application reports its own failures
                access_log=False,
                server_header=False,
                timeout_keep_alive=_IDLE_SECONDS,
                timeout_graceful_shutdown=1,
            )
        )
        self._stop = stop

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin the stop; uvicorn raises the first signal again at its end."""
        super().handle_exit(sig, frame)
        del self._captured_signals[1:]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the requests, and then the connections."""
        await self._stop(lambda: self.force_exit)
        await super().shutdown(sockets)
