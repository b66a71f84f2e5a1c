"""A batch that is killed continues: each line has one result, and recorded calls are not repeated."""

import os
import random
import signal
import subprocess
from pathlib import Path
from time import sleep

import pytest
from server.batch.conftest import Batch, asked_of, command, echo, read, write
from servers.chat_server import ChatServer, says

CONCURRENCY = 32


def killed(folder: Path, upstream: ChatServer, calls: int, number: signal.Signals, *words: str) -> int:
    """Start a batch, send it a signal after some calls, and return its exit code."""
    running = subprocess.Popen(**command(folder, *words), stderr=subprocess.PIPE)
    with running:
        while len(upstream.calls) < calls and running.poll() is None:
            sleep(0.01)
        os.kill(running.pid, number)
        _, told = running.communicate(timeout=20)
    if number == signal.SIGINT:
        assert "the same command continues the batch" in told
    return running.returncode


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(200, marks=pytest.mark.long),
        pytest.param(2000, marks=[pytest.mark.nightly, pytest.mark.timeout(300)]),
    ],
)
def test_kills_at_random_points(folder: Path, batch: Batch, upstream: ChatServer, lines: int) -> None:
    """At most the answers that were on their way at a kill are paid for again."""
    write(
        folder / "in.jsonl", ({"id": f"q{number}", "query": f"question {number}"} for number in range(lines))
    )
    check_kills(folder, batch, upstream, lines)


@pytest.mark.long
def test_kills_with_postgresql(folder: Path, batch: Batch, upstream: ChatServer, postgres_url: str) -> None:
    """The same holds for a journal in PostgreSQL."""
    lines = [{"id": f"q{number}", "query": f"question {number}"} for number in range(200)]
    write(folder / "in.jsonl", lines)
    keep_in(folder, f'url = "{postgres_url}"')
    check_kills(folder, batch, upstream, len(lines))


def keep_in(folder: Path, place: str) -> None:
    """Replace the place of the journal in the config."""
    config = folder / "podium.toml"
    config.write_text(config.read_text().replace('path = "runs.db"', place))


def check_kills(folder: Path, batch: Batch, upstream: ChatServer, lines: int) -> None:
    """Kill a batch three times, continue it, and check its results and its calls."""
    words = ("in.jsonl", "--model", "alone", "--concurrency", str(CONCURRENCY))
    points = sorted(random.Random(lines).sample(range(1, lines - CONCURRENCY), 3))  # noqa: S311 - no secret
    for point in points:
        assert killed(folder, upstream, point, signal.SIGKILL, *words) == -signal.SIGKILL
    batch(*words)
    rows = read(folder / "in.results.jsonl")
    assert sorted(row["id"] for row in rows) == sorted(f"q{number}" for number in range(lines))
    assert {row["status"] for row in rows} == {"ok"}
    assert all(row["answer"] == f"answer to question {row['id'][1:]}" for row in rows)
    assert len({asked_of(call) for call in upstream.calls}) == lines
    assert len(upstream.calls) <= lines + len(points) * CONCURRENCY


@pytest.mark.long
def test_an_interrupt(folder: Path, batch: Batch, upstream: ChatServer) -> None:
    """Ctrl-C ends the command with 130, and the same command continues."""
    write(folder / "in.jsonl", ({"id": f"q{number}", "query": f"question {number}"} for number in range(100)))
    words = ("in.jsonl", "--model", "alone")
    assert killed(folder, upstream, 20, signal.SIGINT, *words) == 130
    batch(*words)
    assert len({row["id"] for row in read(folder / "in.results.jsonl")}) == 100
    assert len(read(folder / "in.results.jsonl")) == 100


@pytest.mark.long
def test_half_a_line(folder: Path, batch: Batch, upstream: ChatServer) -> None:
    """It is removed, and its run is taken from the journal."""
    write(folder / "in.jsonl", ({"id": f"q{number}", "query": f"question {number}"} for number in range(10)))
    batch("in.jsonl", "--model", "alone")
    results = folder / "in.results.jsonl"
    results.write_bytes(results.read_bytes()[:-20])
    batch("in.jsonl", "--model", "alone")
    assert sorted(row["id"] for row in read(results)) == sorted(f"q{number}" for number in range(10))
    assert len(upstream.calls) == 10


@pytest.mark.long
def test_two_commands_at_the_same_time(folder: Path, batch: Batch, upstream: ChatServer) -> None:
    """The second is refused."""
    write(folder / "in.jsonl", ({"query": f"question {number}"} for number in range(2000)))
    running = subprocess.Popen(**command(folder, "in.jsonl", "--model", "alone"), stderr=subprocess.PIPE)
    with running:
        while not upstream.calls and running.poll() is None:
            sleep(0.01)
        assert "another command writes" in batch("in.jsonl", "--model", "alone", code=2).stderr
        running.kill()


@pytest.mark.long
def test_runs_that_another_process_executes(folder: Path, batch: Batch, upstream: ChatServer) -> None:
    """Their costs are not known, so a command with the same name waits for a while, and is then refused."""
    keep_in(folder, 'path = "runs.db"\nlease = 0.5')
    upstream.reply = lambda call: says(call, "an answer", delay=60.0)
    write(folder / "in.jsonl", [{"query": "question"}])
    running = subprocess.Popen(**command(folder, "in.jsonl", "--model", "alone"), stderr=subprocess.PIPE)
    with running:
        while not upstream.calls and running.poll() is None:
            sleep(0.01)
        words = ("in.jsonl", "--model", "alone", "--out", "other.jsonl")
        told = batch(*words, code=2).stderr
        assert "waiting for 1 run that another process holds" in told
        assert "another process executes runs of this batch" in told
        assert "bug" not in told
        running.kill()
    upstream.reply = echo
    batch(*words)
    assert [row["status"] for row in read(folder / "other.jsonl")] == ["ok"]
