"""uvicorn's HTTP protocol with limits on the headers of a request: their size, and the time they take."""

from asyncio import BaseTransport, TimerHandle, Transport
from typing import ClassVar, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

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


def bounded_protocol(bounds: ServerSection) -> type[HttpToolsProtocol]:
    """Return the protocol class with the limits of a server."""
    return type("BoundedProtocol", (BoundedProtocol,), {"bounds": bounds})
