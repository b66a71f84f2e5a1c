"""Serves a conductor to MCP clients, on stdio or over streamable HTTP."""

import hmac
import io
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from ipaddress import ip_address
from typing import Any

import anyio

from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.hosted import HostedConductor
from podium.mcp.sdk import sdk_version
from podium.mcp.serving.conductor_server import make_server
from podium.mcp.serving.sdk_server import http_app
from podium.secrets import register


async def serve_stdio(conductor: Conductor | HostedConductor) -> None:
    """Serve the client at stdin and stdout until it closes stdin.

    Stdout carries only the protocol: the output of workers that print goes to stderr.

    Args:
        conductor: the conductor.

    Raises:
        ConfigError: the SDK is not installed.
    """
    server = make_server(conductor)
    with _stdout_kept():
        await server.run_stdio_async()


async def serve_http(
    conductor: Conductor | HostedConductor, *, host: str, port: int, key: str | None = None
) -> None:
    """Serve clients of streamable HTTP at the path `/mcp`, until the task is cancelled or interrupted.

    Args:
        conductor: the conductor.
        host: the host on which the server listens.
        port: the port on which it listens.
        key: the bearer token that clients must send; `None` for no token, which only loopback allows.

    Raises:
        ConfigError: the SDK is not installed, the key is missing although the host is not loopback, or the
            server cannot listen on the host and port.
    """
    if key is None and not _is_loopback(host):
        raise ConfigError(f"{host} is not loopback, and others could run queries at your cost: give a key")
    app = http_app(make_server(conductor, host=host), host)
    uvicorn = import_module("uvicorn")
    config = uvicorn.Config(
        app if key is None else _Guarded(app, key),
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=5,
    )
    with _listening(host, port) as listening:
        await _until_cancelled(uvicorn.Server(config), listening)


def _listening(host: str, port: int) -> socket.socket:
    """Return a listening socket, because uvicorn would exit the process if it cannot listen."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        raise ConfigError(f"cannot listen on {host} port {port}: {error.strerror or error}") from error


async def _until_cancelled(server: Any, listening: socket.socket) -> None:
    """Run a uvicorn server; after a cancellation, close its connections before returning."""

    async def serve() -> None:
        with anyio.CancelScope(shield=True):
            await server.serve(sockets=[listening])
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        try:
            await anyio.sleep_forever()
        finally:
            server.should_exit = True


class _Guarded:
    """An ASGI application that requires a key.

    Args:
        app: the application.
        key: the key.
    """

    def __init__(self, app: Any, key: str) -> None:
        register(key)
        self._app = app
        self._wanted = f"Bearer {key}".encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass on a request with the key; answer any other request with 401."""
        if scope["type"] != "lifespan":
            given = dict(scope.get("headers") or ()).get(b"authorization", b"")
            if scope["type"] != "http" or not hmac.compare_digest(given, self._wanted):
                headers = [(b"www-authenticate", b"Bearer"), (b"content-length", b"0")]
                await send({"type": "http.response.start", "status": 401, "headers": headers})
                await send({"type": "http.response.body", "body": b""})
                return
        await self._app(scope, receive, send)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


class _Stdout(io.TextIOWrapper):
    """Writes text to stderr; its buffer, which the SDK uses, is stdout."""

    def __init__(self, stdout: io.BufferedWriter) -> None:
        super().__init__(os.fdopen(os.dup(2), "wb"), encoding="utf-8", line_buffering=True)
        self._stdout = stdout

    @property
    def buffer(self) -> io.BufferedWriter:
        """The original stdout."""
        return self._stdout


@contextmanager
def _stdout_kept() -> Iterator[None]:
    """Keep stdout for the SDK, and redirect other output on it to stderr.

    Version 2 of the SDK does this itself.
    """
    if sdk_version() >= 2:
        yield
        return
    own, wire = sys.stdout, os.dup(1)
    os.dup2(2, 1)
    sys.stdout = _Stdout(os.fdopen(os.dup(wire), "wb"))
    try:
        yield
    finally:
        sys.stdout = own
        os.dup2(wire, 1)
        os.close(wire)
