"""The events of a run are read from a replica that does not execute the run.

On PostgreSQL, followers look only when they are told of a change, because the time after which they look
anyway is longer than the timeouts of these tests. On SQLite, a process that commits itself may not see a
change by another process before this time.
"""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import httpx2
import psycopg
import pytest
from server.scene import ASKED, both, config, start, team, until
from servers.chat_server import Call, ChatServer, Reply
from servers.podium_server import serving

LISTENING = "SELECT {} FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"
Replicas = tuple[httpx2.Client, httpx2.Client]
POSTGRES = pytest.mark.parametrize("url", [pytest.param("postgres", marks=pytest.mark.long)], indirect=True)


@pytest.fixture
def replicas(url: str, upstream: ChatServer, tmp_path: Path, monkeypatch: Any) -> Iterator[Replicas]:
    """Serve two replicas that share a database; each executes one run in the background at a time."""
    if url.startswith("postgres"):
        monkeypatch.setattr("podium.journal.sql.changes.PERIOD", 600.0)
    text = config(upstream.url, url, server="background_runs = 1")
    with ExitStack() as stack:
        one, other = (stack.enter_context(serving(text, tmp_path)).http() for _ in range(2))
        yield one, other


@pytest.fixture
def released(upstream: ChatServer) -> Iterator[threading.Event]:
    """Let the last worker answer when the event is set."""
    released = threading.Event()

    async def reply(call: Call) -> Reply:
        if call.body["model"] == "two":
            await anyio.to_thread.run_sync(released.wait)
        return team(call)

    upstream.reply = reply
    yield released
    released.set()


def listening(url: str, what: str = "count(*)") -> Any:
    with psycopg.connect(url) as connection:
        ((found,),) = connection.execute(LISTENING.format(what)).fetchall()
        return found


def types_of(lines: Iterator[str], last: str) -> list[str]:
    """Read the events of a stream until one of some type, and return their types."""
    found: list[str] = []
    for line in lines:
        if line.startswith("event: "):
            found.append(line.removeprefix("event: "))
            if found[-1] == last:
                break
    return found


@both
def test_events_of_another_replica(replicas: Replicas, released: threading.Event) -> None:
    one, other = replicas
    run_id = start(one)["id"]
    with other.stream("GET", f"/runs/{run_id}/events") as stream:
        lines = stream.iter_lines()
        assert types_of(lines, "step_ended")[0] == "run_started"
        released.set()
        assert types_of(lines, "run_ended")[-1] == "run_ended"
        assert [line for line in lines if line.startswith("event")] == []


@POSTGRES
def test_events_after_a_lost_connection(replicas: Replicas, released: threading.Event, url: str) -> None:
    one, other = replicas
    run_id = start(one)["id"]
    with other.stream("GET", f"/runs/{run_id}/events") as stream:
        lines = stream.iter_lines()
        types_of(lines, "step_ended")
        assert listening(url, "count(pg_terminate_backend(pid))") == 2
        assert until(lambda: listening(url) == 2, 30)
        released.set()
        assert types_of(lines, "run_ended")[-1] == "run_ended"


@POSTGRES
def test_a_repetition(replicas: Replicas, released: threading.Event, upstream: ChatServer) -> None:
    """At another replica."""
    body = {"model": "podium", "messages": ASKED}
    headers = {"idempotency-key": "same"}
    with ThreadPoolExecutor() as threads:
        first = threads.submit(replicas[0].post, "/chat/completions", json=body, headers=headers)
        assert until(lambda: len(upstream.calls) == 3)
        second = threads.submit(replicas[1].post, "/chat/completions", json=body, headers=headers)
        time.sleep(0.1)
        released.set()
        answers = [first.result(), second.result()]
    assert [answer.headers.get("idempotent-replayed") for answer in answers] == [None, "true"]
    assert answers[0].json()["choices"] == answers[1].json()["choices"]
    assert len(upstream.calls) == 3
