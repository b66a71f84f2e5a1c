"""A batch that is killed continues: each line has one result, and recorded calls are not repeated."""

import os
import random
import signal
import subprocess
from pathlib import Path
from time import sleep

import pytest
from server.batch.conftest import Batch, asked_of, command, questions, read, write
from servers.chat_server import ChatServer

CONCURRENCY = 32


def killed(folder: Path, upstream: ChatServer, calls: int, number: signal.Signals, *words: str) -> int:
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
    ("lines", "place"),
    [
        pytest.param(200, "sqlite", marks=pytest.mark.long),
        pytest.param(200, "postgres", marks=pytest.mark.long),
        pytest.param(2000, "sqlite", marks=[pytest.mark.nightly, pytest.mark.timeout(300)]),
    ],
)
def test_kills_at_random_points(
    folder: Path, batch: Batch, upstream: ChatServer, lines: int, place: str, request: pytest.FixtureRequest
) -> None:
    write(folder / "in.jsonl", questions(lines))
    if place == "postgres":
        config, url = folder / "podium.toml", request.getfixturevalue("postgres_url")
        config.write_text(config.read_text().replace('path = "runs.db"', f'url = "{url}"'))
    words = ("in.jsonl", "--model", "alone", "--concurrency", str(CONCURRENCY))
    points = sorted(random.Random(lines).sample(range(1, lines - CONCURRENCY), 3))  # noqa: S311 - no secret
    for point in points:
        assert killed(folder, upstream, point, signal.SIGKILL, *words) == -signal.SIGKILL
    batch(*words)
    rows = read(folder / "in.results.jsonl")
    assert sorted(row["id"] for row in rows) == sorted(row["id"] for row in questions(lines))
    assert {row["status"] for row in rows} == {"ok"}
    assert all(row["answer"] == f"answer to question {row['id'][1:]}" for row in rows)
    assert len({asked_of(call) for call in upstream.calls}) == lines
    assert len(upstream.calls) <= lines + len(points) * CONCURRENCY


@pytest.mark.long
def test_an_interrupt_and_half_a_line(folder: Path, batch: Batch, upstream: ChatServer) -> None:
    write(folder / "in.jsonl", questions(100))
    words = ("in.jsonl", "--model", "alone")
    assert killed(folder, upstream, 20, signal.SIGINT, *words) == 130
    results = folder / "in.results.jsonl"
    for number in range(2):
        batch(*words)
        assert sorted(row["id"] for row in read(results)) == sorted(row["id"] for row in questions(100))
        if number == 0:  # half a line is written again, without a call
            calls = len(upstream.calls)
            results.write_bytes(results.read_bytes()[:-20])
    assert len(upstream.calls) == calls


@pytest.mark.long
def test_two_commands_at_the_same_time(folder: Path, batch: Batch, upstream: ChatServer) -> None:
    write(folder / "in.jsonl", questions(2000))
    running = subprocess.Popen(**command(folder, "in.jsonl", "--model", "alone"), stderr=subprocess.PIPE)
    with running:
        while not upstream.calls and running.poll() is None:
            sleep(0.01)
        assert "another command writes" in batch("in.jsonl", "--model", "alone", code=2).stderr
        running.kill()
