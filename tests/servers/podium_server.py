"""Podium's own server on loopback, in a thread.

with serving(config_text, folder) as served:
...  # served.url, served.app
"""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import httpx2
from anthropic import Anthropic
from openai import OpenAI

from podium.aio import run_sync
from podium.config import load_config
from podium_server.app import App
from podium_server.http import HttpServer, listen, url_of
from podium_server.keys import Access, KeyRules, KeyStore


class Quick(HttpServer):
    """A server that begins and stops at once; uvicorn's own looks every 0.1 s whether it should stop."""

    def __init__(self, app: App) -> None:
        super().__init__(app.asgi(), app.settings, app.stop)
        self._app = app
        self._told = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.ready = threading.Event()
        """Set when the server answers."""

    async def main_loop(self) -> None:
        """Wait until the server is told to stop."""
        self._loop = asyncio.get_running_loop()
        await self.on_tick(0)
        self.ready.set()
        await self._told.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the requests, and then the connections."""
        await self._app.stop()
        for listener in self.servers:
            listener.close()
        for connection in self.server_state.connections.copy():
            connection.shutdown()

    def tell(self) -> None:
        """Have the server stop, from another thread; a second call does nothing."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(self._told.set)


@dataclass
class Served:
    """A running server."""

    app: App
    root: str
    """Its URL without a path."""
    server: Quick
    clients: list[OpenAI | Anthropic | httpx2.Client] = field(default_factory=list)
    """Clients that are closed with the server."""
    _numbers: Iterator[int] = field(default_factory=count)

    @property
    def url(self) -> str:
        """The base URL for clients of OpenAI's API."""
        return f"{self.root}/v1"

    def http(self, key: str | None = None) -> httpx2.Client:
        """Return a client of its routes under `/v1`."""
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        client = httpx2.Client(base_url=self.url, headers=headers, timeout=20)
        self.clients.append(client)
        return client

    def key(self, **rules: Any) -> str:
        """Create a key with these rules, and return its text."""
        assert self.app.journal is not None
        store, name = KeyStore(self.app.journal.url), f"key {next(self._numbers)}"
        return run_sync(lambda: store.create(name, KeyRules(**rules)))[1]

    def client(self, key: str = "no-key") -> OpenAI:
        """Return OpenAI's client for this server; it repeats no request."""
        client = OpenAI(base_url=self.url, api_key=key, max_retries=0, timeout=20)
        self.clients.append(client)
        return client


@contextmanager
def serving(config: str, folder: Path, access: Access | None = None) -> Iterator[Served]:
    """Serve a config from a folder in a thread until the block ends; without `access`, all are admitted."""
    path = folder / "podium.toml"
    path.write_text(config)
    app = App(load_config(path), access)
    listening = listen("127.0.0.1", 0)
    server = Quick(app)
    served = Served(app, url_of(listening), server)

    async def serve() -> None:
        async with app.opened():
            await server.serve([listening])

    thread = threading.Thread(target=lambda: anyio.run(serve))
    thread.start()
    server.ready.wait(10)
    try:
        yield served
    finally:
        for client in served.clients:
            client.close()
        server.tell()
        thread.join(20)
        listening.close()
