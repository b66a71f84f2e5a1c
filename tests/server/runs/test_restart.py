"""Runs in the background survive the end of their process."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from server.scene import ended, post, process, stalled, start, team, until
from servers.chat_server import Call, ChatServer, Reply, says

pytestmark = pytest.mark.long


@pytest.fixture
def upstream() -> Iterator[ChatServer]:
    """Serve the models behind the workers; the last worker never answers."""
    with ChatServer(stalled).in_thread() as server:
        yield server


def client_of(running: Any, key: str = "none") -> httpx2.Client:
    """Return a client of a process."""
    return httpx2.Client(base_url=running.url, headers={"x-api-key": key}, timeout=20)


def begun(client: httpx2.Client, upstream: ChatServer) -> str:
    """Start a run, and return its id when its last worker is called."""
    before = len(upstream.calls)
    run_id: str = start(client)["id"]
    assert until(lambda: len(upstream.calls) == before + 3)
    return run_id


def test_a_process_that_stops(folder: Path, upstream: ChatServer) -> None:
    """It releases the run after `drain_seconds`, and the next start finishes it; a cancelled run stays so."""
    with process(folder) as running, client_of(running) as client:
        run_id, cancelled = begun(client, upstream), begun(client, upstream)
        post(client, cancelled, "cancel", 200)
        running.send_signal(signal.SIGTERM)
        assert running.wait(20) == 0
    upstream.reply = team
    with process(folder) as running, client_of(running) as client:
        run = ended(client, run_id)
        assert client.get(f"/runs/{cancelled}").json()["status"] == "stopped"
    assert (run["status"], run["answer"]) == ("ok", "the answer")


def test_a_server_that_stops_waits_for_its_runs(folder: Path, upstream: ChatServer) -> None:
    """A run that ends within `drain_seconds` is not interrupted."""

    def slow(call: Call) -> Reply:
        return says(call, "the answer", delay=0.4) if call.body["model"] == "two" else team(call)

    upstream.reply = slow
    with process(folder) as running, client_of(running) as client:
        run_id = begun(client, upstream)
        running.send_signal(signal.SIGTERM)
        assert running.wait(20) == 0
    with process(folder) as running, client_of(running) as client:
        run = client.get(f"/runs/{run_id}").json()
    assert (run["status"], run["recoveries"]) == ("ok", 0)
    assert len(upstream.calls) == 3
