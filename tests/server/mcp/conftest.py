"""A server with keys, for clients of MCP and A2A."""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from server.chat.conftest import CONFIG, upstream
from server.chat.test_completions import team
from servers.chat_server import STALL, Call, ChatServer, Reply
from servers.podium_server import Served, serving

from podium.aio import run_sync
from podium.journal import SqlJournal
from podium_server.keys import KeyAccess, KeyRules, KeyStore

__all__ = ["upstream"]


@pytest.fixture
def new_key(tmp_path: Path) -> Callable[..., str]:
    """Return a function that creates a key."""
    names, store = iter(range(100)), KeyStore(tmp_path / "runs.db")
    return lambda **rules: run_sync(lambda: store.create(f"key {next(names)}", KeyRules(**rules)))[1]


@pytest.fixture
def keyed(upstream: ChatServer, tmp_path: Path) -> Iterator[Served]:
    """Serve a team to callers with keys."""
    upstream.reply = team
    journal = SqlJournal(tmp_path / "runs.db")
    text = CONFIG.format(url=upstream.url, models="", server="drain_seconds = 5.0")
    with serving(text, tmp_path, KeyAccess(KeyStore(journal), journal=journal)) as running:
        yield running


def stalls(upstream: ChatServer) -> threading.Semaphore:
    """Let all calls stall, and return a semaphore that each call releases."""
    began = threading.Semaphore(0)

    def reply(call: Call) -> Reply:
        began.release()
        return Reply((STALL,))

    upstream.reply = reply
    return began


async def acquired(began: threading.Semaphore) -> None:
    """Wait for a call."""
    assert await anyio.to_thread.run_sync(partial(began.acquire, timeout=10))


async def hung_up(call: Call) -> None:
    """Wait until the connection of a call was closed."""
    for _ in range(250):
        if call.hung_up.is_set():
            break
        await anyio.sleep(0.02)
    assert call.hung_up.is_set()
