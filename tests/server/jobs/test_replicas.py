"""Replicas share one PostgreSQL with queued runs, and some of them are killed."""

import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest
from server.chat.conftest import CONFIG
from server.chat.test_bounds import until
from server.chat.test_completions import team
from server.test_serve import process
from servers.chat_server import Call, ChatServer, Reply, says

RUNS = 60
KILLS = 3
SLOTS = 4


def slow(call: Call) -> Reply:
    """Reply as the team; the last worker takes some time."""
    return says(call, "the answer", delay=1.0) if call.body["model"] == "two" else team(call)


@pytest.fixture
def upstream() -> Iterator[ChatServer]:
    """Serve the models behind the workers."""
    with ChatServer(slow).in_thread() as server:
        yield server


@pytest.mark.long
@pytest.mark.skipif("SOAK" not in os.environ, reason="it takes minutes: run `make soak`")
def test_killed_replicas(tmp_path: Path, upstream: ChatServer, postgres_url: str) -> None:
    """Each run ends with its answer; only calls that were in flight at a kill are made again."""
    text = CONFIG.format(url=upstream.url, models="", server=f"background_runs = {SLOTS}")
    (tmp_path / "podium.toml").write_text(text.replace('path = "runs.db"', f'url = "{postgres_url}"'))
    chance = random.Random(7)  # noqa: S311 - which replica is killed
    with ExitStack() as stack:
        replicas = [stack.enter_context(process(tmp_path)) for _ in range(3)]
        client = stack.enter_context(httpx2.Client(base_url=replicas[0].url, timeout=120))
        ids = []
        for number in range(RUNS):
            answer = client.post("/runs", json={"model": "podium", "query": f"Question {number}?"})
            assert answer.status_code == 202, answer.text
            ids.append(answer.json()["id"])
        for _ in range(KILLS):
            ended = len(upstream.calls)
            assert until(lambda ended=ended: len(upstream.calls) > ended + SLOTS, 60.0)
            killed = chance.choice(replicas[1:])
            killed.kill()
            killed.wait(10)
            replicas.remove(killed)
            replicas.append(stack.enter_context(process(tmp_path)))
        assert until(lambda: all(client.get(f"/runs/{each}").json()["status"] == "ok" for each in ids), 60.0)
    called = Counter(call.body["model"] for call in upstream.calls)
    assert all(RUNS <= number <= RUNS + KILLS * SLOTS for number in called.values()), called
