"""`podium evals shadow`: what was recorded is compared, judged, scored and forgotten."""

import json
from collections.abc import Callable
from pathlib import Path
from time import time

import pytest
from servers.chat_server import ChatServer, says
from typer.testing import Result

from podium.aio import run_sync
from podium.usage import Usage
from podium_shadow import Pair, Side, Spent, SqlPairs, Tally

Podium = Callable[..., Result]


HOW = ("--confidence", "0.8")


def side(answer: str, seconds: float, spent: Spent) -> Side:
    return Side(status="ok", answer=answer, seconds=seconds, spent=spent)


@pytest.fixture
def pairs(config: Path) -> SqlPairs:
    """Record twelve pairs where the config's journal is; in four of them the answers differ."""
    kept = SqlPairs(Path("state/podium/journal.db"))

    async def put() -> None:
        async with kept:
            for number in range(12):
                answer = "a" if number % 3 else f"no {number}"
                pair = Pair(
                    pair_id=f"p{number}",
                    shadow="router",
                    at=time() - 86400.0 * number,
                    question="What is it?",
                    primary=side("A.", 1.0, Spent(calls=1, usage=Usage(50, 50), cost=0.01)),
                    candidate=side(answer, 2.0, Spent(calls=4, usage=Usage(200, 200), cost=0.02)),
                )
                tally = Tally(tally_id="t", shadow="router", at=time(), seen=120, sampled=14, busy=2)
                await kept.put(pair, tally)

    run_sync(put)
    return kept


def test_a_report_is_shown(podium: Podium, pairs: SqlPairs) -> None:
    result = podium("evals", "shadow", "report", env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.stderr
    for told in (
        "Shadow router: 12 pairs",
        "120 requests, 14 drawn; 2 dropped: candidates were busy",
        "×2 (2 to 2)",
        "×4 (4 to 4)",
        "$0.02",
        "Equal answers: 66.7 % (39.1 to 86.2) of 12",
    ):
        assert told in result.stdout


def test_a_report_for_programs(podium: Podium, pairs: SqlPairs) -> None:
    (told,) = json.loads(podium("evals", "shadow", "report", "router", "--json").stdout)
    assert (told["shadow"], told["pairs"], told["equal"]["count"]) == ("router", 12, 8)
    assert told["seconds"]["ratio"]["value"] == 2.0
    assert told["tokens"]["candidate"] == 400.0
    assert (told["confidence"], told["seed"], told["judged"]) == (0.95, 0, None)
    some = podium("evals", "shadow", "report", "--since", "60h", "--limit", "2", *HOW, "--json")
    (told,) = json.loads(some.stdout)
    assert (told["pairs"], told["confidence"]) == (2, 0.8)
    assert json.loads(podium("evals", "shadow", "report", "other", "--json").stdout) == []


def test_a_worker_judges(podium: Podium, pairs: SqlPairs, server: ChatServer) -> None:
    """One of the config's, over HTTP, with so many calls and no more; verdicts are told."""
    server.reply = lambda call: says(call, "TIE. Both are vague.")
    result = podium("evals", "shadow", "report", "--judge", "speaker", "--judge-calls", "3", "--json")
    assert result.exit_code == 0, result.stderr
    judged = json.loads(result.stdout)[0]["judged"]
    assert (judged["judge"], judged["calls"], len(server.calls)) == ("speaker", 3, 3)
    assert judged["unjudged"] >= 1
    assert judged["ties"]["count"] == judged["ties"]["of"]
    shown = podium("evals", "shadow", "report", "--judge", "speaker", env={"COLUMNS": "160"}).stdout
    assert "Judged by speaker: better 0.0 %" in shown
    assert "1 calls, 3 from the cache" in shown
    assert len(server.calls) == 4  # of the four pairs that differ, three were known


def test_a_function_scores(podium: Podium, pairs: SqlPairs) -> None:
    Path("scoring.py").write_text("def short(question, answer):\n    return 10.0 - len(answer)\n")
    (told,) = json.loads(podium("evals", "shadow", "report", "--scorer", "scoring:short", "--json").stdout)
    assert told["scores"]["primary"] == 8.0
    assert "score" in podium("evals", "shadow", "report", "--scorer", "scoring:short").stdout


def test_what_is_none_is_told(podium: Podium, pairs: SqlPairs) -> None:
    assert podium("evals", "shadow", "report", "other").exit_code == 0
    result = podium("evals", "shadow", "report", "--judge", "nobody")
    assert (result.exit_code, "its workers are thinker, speaker" in result.stderr) == (2, True)
    assert podium("evals", "shadow", "report", "--confidence", "95").exit_code == 2
    for typed in ("scoring", "math:pi"):
        result = podium("evals", "shadow", "report", "--scorer", typed)
        assert result.exit_code == 2
        assert f"--scorer {typed!r}" in result.stderr


def test_old_pairs_are_forgotten(podium: Podium, pairs: SqlPairs) -> None:
    result = podium("evals", "shadow", "prune", "--older-than", "60h")
    assert (result.exit_code, result.stderr) == (0, "podium: forgot 9 pairs\n")
    assert len(run_sync(pairs.pairs)) == 3
