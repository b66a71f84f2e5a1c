"""Serves an ASGI application on loopback in a thread, and can have it answer with one status."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn


@dataclass
class Served:
    """A running server."""

    url: str
    status: int | None = None
    """The HTTP status of all answers; `None` for normal answers."""
    body: str = "no"
    """The body of answers with this status."""
    authorization: str = ""
    """The header `Authorization` of the latest request."""


def listen() -> tuple[socket.socket, str]:
    """Return a socket that listens, and its URL."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    return listening, f"http://127.0.0.1:{listening.getsockname()[1]}"


@contextmanager
def answering(app: Any, served: Served, listening: socket.socket) -> Iterator[None]:
    """Serve until the block ends."""

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            served.authorization = dict(scope["headers"]).get(b"authorization", b"").decode()
            if served.status is not None:
                await send({"type": "http.response.start", "status": served.status, "headers": []})
                await send({"type": "http.response.body", "body": served.body.encode()})
                return
        await app(scope, receive, send)

    config = uvicorn.Config(guarded, log_level="critical", timeout_graceful_shutdown=1, ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(10)
        listening.close()


@contextmanager
def serving_mcp(made: Any) -> Iterator[Served]:
    """Serve an MCP server of the SDK over streamable HTTP until the block ends."""
    listening, url = listen()
    served = Served(f"{url}/mcp")
    with answering(made.streamable_http_app(), served, listening):
        yield served
