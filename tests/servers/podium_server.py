"""Podium's own server on loopback, in a thread.

with serving(config_text, folder) as served:
...  # served.url, served.app
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anthropic import Anthropic
from openai import OpenAI

from podium.config import load_config
from podium_server.app import App
from podium_server.http import HttpServer, listen, url_of
from podium_server.keys import Access


@dataclass
class Served:
    """A running server."""

    app: App
    root: str
    """Its URL without a path."""
    server: HttpServer
    clients: list[OpenAI | Anthropic] = field(default_factory=list)
    """Clients that are closed with the server."""

    @property
    def url(self) -> str:
        """The base URL for clients of OpenAI's API."""
        return f"{self.root}/v1"

    def client(self, key: str = "no-key") -> OpenAI:
        """Return OpenAI's client for this server; it repeats no request."""
        client = OpenAI(base_url=self.url, api_key=key, max_retries=0, timeout=20)
        self.clients.append(client)
        return client


@contextmanager
def serving(config: str, folder: Path, access: Access | None = None) -> Iterator[Served]:
    """Serve a config in a thread until the block ends.

    Args:
        config: the text of `podium.toml`.
        folder: the folder for the file.
        access: admits requests; `None` admits all.
    """
    path = folder / "podium.toml"
    path.write_text(config)
    app = App(load_config(path), access)
    listening = listen("127.0.0.1", 0)
    server = HttpServer(app.asgi(), app.settings, app.stop)
    served = Served(app, url_of(listening), server)
    ready = threading.Event()

    async def serve() -> None:
        async with app.opened():
            ready.set()
            await server.serve([listening])

    thread = threading.Thread(target=lambda: anyio.run(serve))
    thread.start()
    ready.wait(10)
    try:
        yield served
    finally:
        for client in served.clients:
            client.close()
        server.should_exit = True
        thread.join(20)
        listening.close()
