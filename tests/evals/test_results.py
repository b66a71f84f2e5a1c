"""Tests of `podium evals run`, of its reports, of their figures and of what they say."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from evals.made import SUMS, VERBS, WORKERS, two_specialists, written
from servers.chat_server import Call, ChatServer, says
from typer.testing import Result

from podium.config.add_ons import ADD_ONS
from podium.errors import ConfigError
from podium_evals.errors import RecordingInvalid
from podium_evals.recorded import Recordings, read_pool
from podium_evals.results import Report, Setting, compare_arms, rounding
from podium_evals.results.comparison import fingerprint, named_arms
from podium_evals.statistics import Interval

Podium = Callable[..., Result]


OWN = [each for each in ADD_ONS if each.distribution == "podium-evals"]
SUMMARIES = {name: told for each in OWN for name, told in each.commands.items()}


@pytest.mark.parametrize("name", SUMMARIES)
def test_the_list_says_what_each_command_says_of_itself(podium: Podium, name: str) -> None:
    """The summaries in core's list are the first sentences of the commands' own help."""
    result = podium(*name.split("."), "--help", env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert SUMMARIES[name] in " ".join(result.stdout.split())


@pytest.mark.long
def test_all_arms_in_one_table(podium: Podium, tmp_path: Path) -> None:
    """Eighty columns wide; what is not recorded is told, and a bound is marked."""
    path = written(tmp_path, two_specialists(samples=3))
    result = podium("evals", "run", path)
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    told = " ".join(result.stdout.split())
    for part in (
        "kind rule 1.000 +.500 +",
        "any correct, not 1.000",
        "* This arm reads the right answers: it is not a result.",
        "The routing oracle is an estimate and no bound",
        "Prices of 2026-10-19 to 2026-11-10.",
        "Answers: made here (CC0-1.0)",
    ):
        assert part in told
    assert f"gain: above best single ({VERBS})" in told or f"gain: above best single ({SUMS})" in told
    assert ("* *" in told, "estimated" in told) == (False, False)


def test_a_report_for_programs(podium: Podium, tmp_path: Path) -> None:
    path = written(tmp_path, two_specialists())
    options = ("--arms", "kind-rule", "--split", "kinds", "--seed", "3")
    result = podium("evals", "run", path, *options, "--json")
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    setting = told["setting"]
    assert (setting["split"], setting["split_seed"], told["base"]) == ("kinds", 3, "best single")
    assert [arm["name"] for arm in told["arms"]] == ["best single", "kind rule"]
    few = podium("evals", "run", path, "--arms", "kind-rule", "--questions", "9", "--json")
    assert {arm["questions"] for arm in json.loads(few.stdout)["arms"]} == {9}


def test_a_planner_of_a_config_is_an_arm(
    podium: Podium, config: Path, server: ChatServer, tmp_path: Path
) -> None:
    """It is told what recorded workers can answer, a trained conductor is not; its calls are counted."""
    server.reply = lambda call: says(call, _plan(call))
    path = written(tmp_path, two_specialists())
    words = ("evals", "run", path, "--arms", "kind-rule", "--json", "--questions", "5")
    result = podium(*words, "--planner", str(config))
    assert result.exit_code == 0, result.stderr
    planned = json.loads(result.stdout)["arms"][-1]
    assert (planned["name"], planned["recorded"], planned["score"]["mean"]) == ("planner of podium", 5, 1)
    assert (planned["calls"], len(server.calls), planned["latency_s"]) == (2, 5, None)
    *_, arm = json.loads(podium(*words, "--conductor", str(config)).stdout)["arms"]
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


pytestmark = pytest.mark.anyio


async def _compare(recordings: Recordings, *names: str, **setting: Any) -> Report:
    arms = named_arms(names, recordings.workers)
    return await compare_arms(recordings, arms, Setting(**setting), recording="here")


async def test_a_report_can_be_made_again() -> None:
    """It has the data's fingerprint, seeds, versions and the dates of prices; figures are the same again."""
    recordings = two_specialists()
    first, second = [await _compare(recordings, "kind-rule", split_seed=4) for _ in range(2)]
    assert first.arms == second.arms
    assert first.setting.split_seed == 4
    assert first.fingerprint == fingerprint(two_specialists()) != fingerprint(two_specialists(samples=2))
    assert first.versions.keys() == {"python", "podium-evals", "podium-conductor", "numpy"}
    assert [each.name for each in first.workers] == list(WORKERS)
    assert first.workers[1].price_source.endswith("price of 2026-11-10")
    assert (first.workers[2].price_source, first.workers[2].best_in) == ("", 0)
    assert first.provenance is not None
    told = first.as_json()
    assert told["provenance"]["licence"] == "CC0-1.0"
    assert told["arms"][1]["difference"]["together"]["low"] <= told["arms"][1]["difference"]["alone"]["mean"]


def test_nothing_is_rounded_in_an_arms_favour() -> None:
    """Scores and gains down, costs up, intervals outwards; binary fractions count as what they mean."""
    assert (rounding.score(0.6789), rounding.score(0.3), rounding.score(1.0)) == (".678", ".300", "1.000")
    assert [rounding.gain(each) for each in (0.0199, -0.0191, 0.1 + 0.2)] == ["+.019", "-.020", "+.300"]
    assert rounding.interval(Interval(0, -0.0001, 0.0301)) == "-.001 +.031"
    assert rounding.interval(Interval(0, 0.0, 1.0)) == "+.000 +1.000"
    assert (rounding.per_thousand(0.0012301), rounding.per_thousand(None)) == ("1.24", "—")
    assert (rounding.whole(1000.2), rounding.count(1.001), rounding.seconds(0.51)) == ("1,001", "1.01", "0.6")


def test_pools_are_named(tmp_path: Path) -> None:
    """A file, its workers; anything else is an error."""
    path = written(tmp_path, two_specialists())
    assert (read_pool(path).workers, read_pool(path, f"{SUMS}, {VERBS}").workers) == (WORKERS, (VERBS, SUMS))
    with pytest.raises(RecordingInvalid, match=r"nowhere\.jsonl cannot be read"):
        read_pool("nowhere.jsonl")
    with pytest.raises(ConfigError, match="there is no arm 'magic'"):
        named_arms(["magic"], WORKERS)
