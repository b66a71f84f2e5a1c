"""Servers whose runs are recorded: with and without API keys."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from server.chat.conftest import CONFIG, serve, served, upstream
from server.chat.test_completions import team
from server.keys.test_http import new_key, url
from servers.chat_server import ChatServer
from servers.podium_server import Served, serving

from podium.journal import SqlJournal
from podium_server.keys import KeyAccess, KeyStore

__all__ = ["new_key", "serve", "served", "upstream", "url"]

Http = Callable[..., httpx2.Client]


@pytest.fixture
def keyed(request: pytest.FixtureRequest, upstream: ChatServer, url: str, tmp_path: Path) -> Iterator[Served]:
    """Serve a team to callers with keys; a parameter is the text of `[server]`."""
    upstream.reply = team
    server = getattr(request, "param", "")
    text = CONFIG.format(url=upstream.url, models="", server=server).replace(
        'path = "runs.db"', f'url = "{url}"'
    )
    journal = SqlJournal(url)
    with serving(text, tmp_path, KeyAccess(KeyStore(journal), journal=journal)) as running:
        yield running


@pytest.fixture
def http() -> Iterator[Http]:
    """Return a function that makes a client of a server."""
    clients: list[httpx2.Client] = []

    def make(served: Served, key: str | None = None) -> httpx2.Client:
        headers: dict[str, Any] = {} if key is None else {"authorization": f"Bearer {key}"}
        clients.append(httpx2.Client(base_url=served.url, headers=headers, timeout=20))
        return clients[-1]

    yield make
    for client in clients:
        client.close()
