"""Listens on an address, and serves an ASGI application until a signal stops the process."""

import socket
from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from podium.errors import ConfigError
from podium_server.http.protocol import bounded_protocol
from podium_server.settings import ServerSection

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
    """Return a listening socket.

    Raises:
        ConfigError: the address cannot be used.
    """
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

    Args:
        app: the application.
        bounds: the limits.
        stop: refuses new requests and ends the running ones; its argument says whether to hurry.
    """

    def __init__(self, app: ASGIApp, bounds: ServerSection, stop: Stop) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=bounded_protocol(bounds),
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
