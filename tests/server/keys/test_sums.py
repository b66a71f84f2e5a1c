"""What a key has spent is the sum of its runs' costs, whatever happens to processes and databases."""

import os
import signal
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import httpx2
import pytest
from server.keys.test_access import COST, caller_of, spent, stalling
from server.scene import ASKED, process, stalled, team, until
from servers.chat_server import ChatServer

from podium.aio import run_sync
from podium.journal import SqlJournal
from podium_server.keys import Ask, KeyAccess, KeyRules, KeyStore

NAMES = ("order 1", "order 2", "order 3")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock a database, so that nothing can write it."""
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        holder.execute("ROLLBACK")
        holder.close()


def ask(running: Any, token: str, name: str, seconds: float = 30) -> httpx2.Response:
    """Make a request with an idempotency key."""
    headers = {"x-api-key": token, "idempotency-key": name}
    body = {"model": "podium", "messages": ASKED}
    return httpx2.post(f"{running.url}/chat/completions", json=body, headers=headers, timeout=seconds)


def answered(running: Any, token: str, name: str) -> str:
    """Repeat a request until it is answered, and return the id of its run."""
    for _ in range(20):
        answer = ask(running, token, name)
        if answer.status_code == 200:
            assert answer.json()["usage"]["estimated"] is (name in NAMES)
            return str(answer.headers["x-podium-run-id"])
    raise AssertionError(answer.text)


def begin_and_kill(folder: Path, upstream: ChatServer, token: str) -> None:
    """Answer a request, begin three, and kill the server while their last workers are called."""
    with process(folder) as running, ThreadPoolExecutor() as threads:
        answered(running, token, "order 0")
        upstream.reply = stalled
        before = len(upstream.calls)
        calls = [threads.submit(ask, running, token, name) for name in NAMES]
        assert until(lambda: len(upstream.calls) == before + 9)
        os.kill(running.pid, signal.SIGKILL)
        running.wait(10)
        assert all(call.exception() is not None for call in calls)
    upstream.reply = team


def repeat(folder: Path, running: Any, token: str) -> set[str]:
    """Repeat all requests, twice and in parallel, while the database is locked for a time."""
    path = folder / "runs.db"
    with ThreadPoolExecutor() as threads:
        if path.exists():
            with locked(path):
                calls = [threads.submit(answered, running, token, name) for name in NAMES * 2]
                anyio.run(anyio.sleep, 1.0)
        else:
            calls = [threads.submit(answered, running, token, name) for name in NAMES * 2]
        return {call.result() for call in calls} | {answered(running, token, "order 0")}


def amounts(store: KeyStore, key_id: str) -> tuple[int, int, int]:
    """Return what the key has spent, in billionths of a dollar, its tokens, and the estimated ones."""
    days = run_sync(lambda: store.days(key_id, "2000"))
    tokens = sum(day.input_tokens + day.output_tokens for day in days)
    return sum(day.cost for day in days), tokens, sum(day.estimated_tokens for day in days)


def open_turns(store: KeyStore) -> int:
    """Return the number of requests that are not settled."""
    query = "SELECT 1 FROM podium_turns WHERE holder IS NOT NULL"
    return len(run_sync(lambda: store.transaction(lambda each: each.fetch(query), reads=True)))


@pytest.mark.long
@pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
def test_a_killed_server(folder: Path, url: str, upstream: ChatServer) -> None:
    """Its requests are settled; the repetitions of the client continue their runs, and pay only the rest."""
    store = KeyStore(url)
    key, token = run_sync(lambda: store.create("alice", KeyRules(day_cost=10.0, run_cost=1.0)))
    begin_and_kill(folder, upstream, token)
    assert open_turns(store) == 3
    with process(folder) as running:
        assert until(lambda: open_turns(store) == 0)
        ids = repeat(folder, running, token)
        headers = {"x-api-key": token}
        runs = [httpx2.get(f"{running.url}/runs/{run_id}", headers=headers).json() for run_id in ids]
        assert until(lambda: open_turns(store) == 0)
    assert len(runs) == 4
    assert {run["status"] for run in runs} == {"ok"}
    cost, tokens, estimated = amounts(store, key.key_id)
    assert cost == sum(round(run["cost"] * 1e9) for run in runs)
    assert tokens == sum(total(run["usage"]) for run in runs)
    assert estimated == sum(total(run["estimated_usage"]) for run in runs) > 0
    assert [run["usage_note"] is None for run in runs].count(True) == 1
    assert {call.body["model"] for call in upstream.calls[12:]} == {"two"}


def total(usage: Any) -> int:
    """Return the number of tokens."""
    return int(usage["input_tokens"] + usage["output_tokens"])


@pytest.mark.anyio
async def test_a_journal_that_cannot_be_read(tmp_path: Path) -> None:
    """A request that ended without a result keeps its reservation until the journal can be read."""
    journal, store = SqlJournal(tmp_path / "runs.db", patience=0.1), KeyStore(tmp_path / "keys.db")
    made, called = stalling()
    async with journal, store, KeyAccess(store, journal=journal) as access:
        caller = await caller_of(store, access, day_cost=1.0, run_cost=0.5)
        asked = Ask(model="m", conductor=made, run_id=uuid4().hex)

        async def request() -> None:
            async with access.admit(caller, asked) as admission:
                async for _ in made.stream("Why?", run_id=asked.run_id, **admission.options):
                    pass

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(request)
            await called.wait()
            with locked(tmp_path / "runs.db"):
                tasks.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    await anyio.sleep(0.5)
        assert await spent(store, caller) == COST
