"""The budget of a batch covers all its runs and commands."""

from pathlib import Path

import pytest
from server.batch.conftest import Batch, read, write
from servers.chat_server import ChatServer

ONE = (211 + 2 * 7) / 1e6
"""The cost of a run, in USD."""
QUESTIONS = [{"id": f"q{number}", "query": f"question {number}"} for number in range(20)]


def test_runs_that_do_not_fit_are_not_started(folder: Path, batch: Batch, upstream: ChatServer) -> None:
    """They are listed; a higher budget continues, and a repetition with the same budget starts nothing."""
    write(folder / "in.jsonl", QUESTIONS)
    limit = 0.02
    words = ("in.jsonl", "--model", "alone", "--max-cost", str(limit), "--failures", "bad.jsonl", "--budget")
    budget = limit + 9.5 * ONE
    told = batch(*words, str(budget), code=3).stderr
    rows = read(folder / "in.results.jsonl")
    started = [row for row in rows if row["status"] == "ok"]
    assert len(started) == len(upstream.calls) == 10
    assert {row["status"] for row in rows if row not in started} == {"not_started"}
    assert "10 lines not started: raise --budget" in told
    assert [row["failure"]["code"] for row in read(folder / "bad.jsonl")] == ["budget_spent"] * 10
    batch(*words, str(budget), code=3)
    assert len(upstream.calls) == 10
    batch(*words, str(limit + 30 * ONE))
    assert len(upstream.calls) == 20
    rows = read(folder / "in.results.jsonl")
    assert sorted(row["id"] for row in rows) == sorted(row["id"] for row in QUESTIONS)
    assert sum(row["cost"] for row in rows) == pytest.approx(20 * ONE)
    assert read(folder / "bad.jsonl") == []


def test_parallel_runs_reserve_their_limits(folder: Path, batch: Batch, upstream: ChatServer) -> None:
    """Runs wait for the reservations of others, so a small budget still answers each line."""
    write(folder / "in.jsonl", QUESTIONS)
    batch("in.jsonl", "--model", "alone", "--max-cost", "0.02", "--budget", "0.025", "--concurrency", "20")
    assert len(upstream.calls) == 20


def test_a_budget_needs_limits_and_prices(folder: Path, batch: Batch) -> None:
    """The errors say which to set."""
    write(folder / "in.jsonl", QUESTIONS)
    assert "add --max-cost" in batch("in.jsonl", "--budget", "1", code=2).stderr
    config = folder / "podium.toml"
    config.write_text(config.read_text().replace("price = { input = 10.0, output = 20.0 }", ""))
    assert "price of two is unknown" in batch("in.jsonl", "--budget", "1", "--max-cost", "1", code=2).stderr
