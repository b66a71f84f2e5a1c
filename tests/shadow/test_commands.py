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
REPORT = ("evals", "shadow", "report")


def side(answer: str, seconds: float, calls: int, cost: float) -> Side:
    spent = Spent(calls=calls, usage=Usage(50 * calls, 50 * calls), cost=cost)
    return Side(status="ok", answer=answer, seconds=seconds, spent=spent)


@pytest.fixture
def pairs(config: Path) -> SqlPairs:
    """Record twelve pairs where the config's journal is; in four of them the answers differ."""
    kept = SqlPairs(Path("state/podium/journal.db"))

    async def put() -> None:
        async with kept:
            for number in range(12):
                answer = "a" if number % 3 else f"no {number}"
                primary, candidate = side("A.", 1.0, 1, 0.01), side(answer, 2.0, 4, 0.02)
                names = {"pair_id": f"p{number}", "shadow": "router", "question": "What is it?"}
                pair = Pair(**names, at=time() - 86400.0 * number, primary=primary, candidate=candidate)
                tally = Tally(tally_id="t", shadow="router", at=time(), seen=120, sampled=14, busy=2)
                await kept.put(pair, tally)

    run_sync(put)
    return kept


def test_a_report(podium: Podium, pairs: SqlPairs) -> None:
    """For people, and for programs."""
    result = podium(*REPORT, env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.stderr
    for part in (
        "Shadow router: 12 pairs",
        "120 requests, 14 drawn; 2 dropped: candidates were busy",
        "×2 (2 to 2)",
        "×4 (4 to 4)",
        "$0.02",
        "Equal answers: 66.7 % (39.1 to 86.2) of 12",
    ):
        assert part in result.stdout
    (told,) = json.loads(podium(*REPORT, "router", "--json").stdout)
    assert (told["shadow"], told["pairs"], told["equal"]["count"]) == ("router", 12, 8)
    assert (told["seconds"]["ratio"]["value"], told["tokens"]["candidate"]) == (2.0, 400.0)
    assert (told["confidence"], told["seed"], told["judged"]) == (0.95, 0, None)
    some = podium(*REPORT, "--since", "60h", "--limit", "2", "--confidence", "0.8", "--json")
    (told,) = json.loads(some.stdout)
    assert (told["pairs"], told["confidence"]) == (2, 0.8)
    assert json.loads(podium(*REPORT, "other", "--json").stdout) == []


def test_a_worker_judges(podium: Podium, pairs: SqlPairs, server: ChatServer) -> None:
    """One of the config's, over HTTP, with so many calls and no more; verdicts are told."""
    server.reply = lambda call: says(call, "TIE. Both are vague.")
    result = podium(*REPORT, "--judge", "speaker", "--judge-calls", "3", "--json")
    assert result.exit_code == 0, result.stderr
    judged = json.loads(result.stdout)[0]["judged"]
    assert (judged["judge"], judged["calls"], len(server.calls)) == ("speaker", 3, 3)
    assert (judged["unjudged"] >= 1, judged["ties"]["count"]) == (True, judged["ties"]["of"])
    shown = podium(*REPORT, "--judge", "speaker", env={"COLUMNS": "160"}).stdout
    assert all(each in shown for each in ("Judged by speaker: better 0.0 %", "1 calls, 3 from the cache"))
    assert len(server.calls) == 4  # of the four pairs that differ, three were known


def test_a_function_scores(podium: Podium, pairs: SqlPairs) -> None:
    Path("scoring.py").write_text("def short(question, answer):\n    return 10.0 - len(answer)\n")
    (told,) = json.loads(podium(*REPORT, "--scorer", "scoring:short", "--json").stdout)
    assert told["scores"]["primary"] == 8.0
    assert "score" in podium(*REPORT, "--scorer", "scoring:short").stdout


def test_what_is_none_is_told(podium: Podium, pairs: SqlPairs) -> None:
    assert podium(*REPORT, "other").exit_code == 0
    result = podium(*REPORT, "--judge", "nobody")
    assert (result.exit_code, "its workers are thinker, speaker" in result.stderr) == (2, True)
    assert podium(*REPORT, "--confidence", "95").exit_code == 2
    for typed in ("scoring", "math:pi"):
        result = podium(*REPORT, "--scorer", typed)
        assert (result.exit_code, f"--scorer {typed!r}" in result.stderr) == (2, True)


def test_old_pairs_are_forgotten(podium: Podium, pairs: SqlPairs) -> None:
    result = podium("evals", "shadow", "prune", "--older-than", "60h")
    assert (result.exit_code, result.stderr) == (0, "podium: forgot 9 pairs\n")
    assert len(run_sync(pairs.pairs)) == 3
