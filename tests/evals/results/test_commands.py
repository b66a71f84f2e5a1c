"""Tests of `podium evals`."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from evals.results.two_specialists import SUMS, VERBS, two_specialists, written
from servers.chat_server import Call, ChatServer, says
from typer.testing import Result

Podium = Callable[..., Result]


@pytest.mark.long
def test_all_arms_in_one_table(podium: Podium, tmp_path: Path) -> None:
    """Eighty columns wide; what is not recorded is told, and a bound is marked."""
    path = written(tmp_path, two_specialists(samples=3))
    result = podium("evals", "run", path)
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    told = " ".join(result.stdout.split())
    assert "kind rule 1.000 +.500 +" in told
    assert "any correct, not 1.000" in told
    assert f"gain: above best single ({VERBS})" in told or f"gain: above best single ({SUMS})" in told
    assert "* This arm reads the right answers: it is not a result." in told
    assert "* *" not in told
    assert "The routing oracle is an estimate and no bound" in told
    assert "Prices of 2026-10-19 to 2026-11-10." in told
    assert "Answers: made here (CC0-1.0)" in told
    assert "estimated" not in told


def test_a_report_for_programs(podium: Podium, tmp_path: Path) -> None:
    path = written(tmp_path, two_specialists())
    options = ("--arms", "kind-rule", "--split", "kinds", "--seed", "3")
    result = podium("evals", "run", path, *options, "--json")
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert (told["setting"]["split"], told["setting"]["split_seed"], told["base"]) == (
        "kinds",
        3,
        "best single",
    )
    assert [arm["name"] for arm in told["arms"]] == ["best single", "kind rule"]


def test_fewer_questions(podium: Podium, tmp_path: Path) -> None:
    path = written(tmp_path, two_specialists())
    few = podium("evals", "run", path, "--arms", "kind-rule", "--questions", "9", "--json")
    assert {arm["questions"] for arm in json.loads(few.stdout)["arms"]} == {9}


def test_a_planner_of_a_config_is_an_arm(
    podium: Podium, config: Path, server: ChatServer, tmp_path: Path
) -> None:
    """It is told what recorded workers can answer, a trained conductor is not; its calls are counted."""
    server.reply = lambda call: says(call, _plan(call))
    path = written(tmp_path, two_specialists())
    result = podium(
        *("evals", "run", path, "--arms", "kind-rule", "--json"),
        *("--planner", str(config), "--questions", "5"),
    )
    assert result.exit_code == 0, result.stderr
    planned = json.loads(result.stdout)["arms"][-1]
    assert (planned["name"], planned["recorded"], planned["score"]["mean"]) == ("planner of podium", 5, 1)
    assert (planned["calls"], len(server.calls), planned["latency_s"]) == (2, 5, None)
    trained = podium(
        *("evals", "run", path, "--arms", "kind-rule", "--json"),
        *("--conductor", str(config), "--questions", "5"),
    )
    (*_, arm) = json.loads(trained.stdout)["arms"]
    assert (arm["recorded"], arm["score"]) == (0, None)
    assert "and another question" in arm["unrecorded"]


def _plan(call: Call) -> str:
    asked = call.body["messages"][-1]["content"]
    subtask = "Answer the question." if "answers are recorded" in asked else "Think about it."
    question = asked[asked.index("THE USER'S QUESTION") :]
    return json.dumps({"worker": int("sums" in question), "subtask": subtask, "access": []}) + "\n"


def test_what_cannot_be_compared_is_told(podium: Podium, tmp_path: Path) -> None:
    path = written(tmp_path, two_specialists())
    for options, why in (
        (("--split", "days"), "--split 'days': write questions, kinds"),
        (("--arms", "magic"), "there is no arm 'magic'"),
        (("--pool", "nobody,else"), "the recording has no worker 'else'"),
    ):
        result = podium("evals", "run", path, *options)
        assert result.exit_code in (1, 2)
        assert why in result.stderr, result.stderr
        assert "Traceback" not in result.stderr
