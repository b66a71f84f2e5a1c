"""`podium drift`: recent runs that do not fit the measured rates."""

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evals.test_calibrate import calibrated, config, server  # noqa: F401 - fixtures
from typer.testing import Result

from podium.workers import KindEntry, MeasuredFile, RateEntry, read_measured, write_measured
from podium_evals.calibration import Tally, find_drift
from podium_evals.calibration.measured_rates import with_rates

Podium = Callable[..., Result]


def measured(right: dict[str, float], answers: int) -> MeasuredFile:
    """Return the rates of workers on one kind."""
    empty = {"prior": 0.0, "rate": 0.0, "low": 0.0, "high": 0.0, "cost": None}
    rates = {
        name: RateEntry.model_validate({"identity": "", "answers": answers, "right": each} | empty)
        for name, each in right.items()
    }
    entry = KindEntry(measured_on=date(2026, 11, 22), fingerprint="f", questions=("?",), rates=rates)
    return with_rates(MeasuredFile(kinds={"sums": entry}))


def test_what_fits_and_what_does_not() -> None:
    """The interval is of the number of right answers; the least likely pair is first."""
    rates = measured({"steady": 9, "worse": 9, "better": 1}, 10)
    recent = {
        ("steady", "sums"): Tally(16, 20),
        ("worse", "sums"): Tally(2, 20),
        ("better", "sums"): Tally(20, 20),
        ("nobody", "sums"): Tally(0, 20),
        ("steady", "riddles"): Tally(0, 20),
    }
    found = {each.worker: each for each in find_drift(rates, recent)}
    assert {name: each.has_drifted for name, each in found.items()} == {
        "worse": True,
        "better": True,
        "steady": False,
    }
    assert next(iter(found)) == "better"
    assert found["steady"].low <= 16 <= found["steady"].high
    assert found["worse"].low > 2
    assert found["better"].high < 20
    assert find_drift(rates, {}) == []


def test_one_answer_is_no_drift() -> None:
    """Whatever it is: with few answers nothing can be told."""
    rates = measured({"a": 10, "b": 0}, 10)
    for right in (0.0, 0.5, 1.0):
        recent = {(name, "sums"): Tally(right, 1) for name in ("a", "b")}
        assert not any(each.has_drifted for each in find_drift(rates, recent))


@pytest.mark.long
@pytest.mark.parametrize("recent_answers", [5, 30])
def test_false_alarms_are_as_rare_as_stated(recent_answers: int) -> None:
    """In at most 5 % of the checks of four workers in which nothing has changed, one is named."""
    random = np.random.default_rng(2)
    checks, alarms, missed = 400, 0, 0
    for _ in range(checks):
        # With one kind the prior is the share of all answers: here it is known to be about a half.
        true = random.beta(1.5, 1.5, size=4)
        before = random.binomial(6, true)
        rates = measured({str(n): float(right) for n, right in enumerate(before)}, 6)
        now = random.binomial(recent_answers, true)
        steady = {(str(n), "sums"): Tally(float(right), recent_answers) for n, right in enumerate(now)}
        alarms += any(each.has_drifted for each in find_drift(rates, steady))
        turned = {key: Tally(recent_answers - each.right, recent_answers) for key, each in steady.items()}
        missed += not any(each.has_drifted for each in find_drift(rates, turned))
    assert alarms / checks < 0.05 + 2 * (0.05 * 0.95 / checks) ** 0.5
    assert missed / checks < (1 if recent_answers < 10 else 0.5)


@pytest.fixture
def journaled(podium: Podium, config: Path) -> list[str]:  # noqa: F811 - the fixture of another module
    """Calibrate, run twelve questions of a measured kind, and return the ids of the runs."""
    calibrated(podium, "--all")
    config.write_text(config.read_text() + '\n[pool]\nmeasured = "measured.json"\n')
    ids = []
    for number in range(12):
        result = podium("run", f"Which rhyme has the poem on word{number}?", "--json")
        assert result.exit_code == 0, result.stderr
        ids.append(json.loads(result.stdout)["run_id"])
    return ids


def _scored(ids: list[str], score: float, **more: Any) -> None:
    Path("scores.jsonl").write_text(
        "".join(json.dumps({"run": run, "score": score} | more) + "\n" for run in ids)
    )


def test_a_worker_that_has_become_worse_is_named(podium: Podium, journaled: list[str]) -> None:
    """The worker and the kind are found from the run; the exit code is that of a failed check."""
    _scored(journaled, 1)
    fine = podium("drift", "scores.jsonl")
    assert (fine.exit_code, "No worker has drifted." in fine.stdout) == (0, True), fine.stderr
    assert "at most 5%" in fine.stdout
    _scored(journaled, 0)
    worse = podium("drift", "scores.jsonl")
    assert worse.exit_code == 1
    assert "poet has become worse on rhymes: 0 of 12 right, expected" in " ".join(worse.stdout.split())
    (pair,) = json.loads(podium("drift", "scores.jsonl", "--json").stdout)["pairs"]
    assert (pair["worker"], pair["kind"], pair["drifted"]) == ("poet", "rhymes", True)
    assert pair["recent"] == {"right": 0.0, "answers": 12}


def test_what_is_left_out_is_told(podium: Podium, journaled: list[str]) -> None:
    """By reason: a run of another kind, one that is not in the journal, one before the rates."""
    other = podium("run", "Who wrote Faust?", "--json")
    several = podium("run", "Add the numbers 3 and 7. Which rhyme has the poem on sun?", "--json")
    ids = [json.loads(each.stdout)["run_id"] for each in (other, several)]
    _scored([*journaled, *ids, "no-such-run", *journaled], 1)
    told = json.loads(podium("drift", "scores.jsonl", "--json").stdout)
    assert told["left_out"] == {
        "the kind was not measured": 1,
        "the plan has several steps, or none": 1,
        "the journal has no such run": 1,
    }
    assert told["pairs"][0]["recent"] == {"right": 12.0, "answers": 12}
    _scored(journaled[:1], 1, kind="sums")
    assert json.loads(podium("drift", "scores.jsonl", "--json").stdout)["pairs"][0]["kind"] == "sums"
    later = read_measured("measured.json")
    kinds = {
        name: entry.model_copy(update={"measured_on": date(2099, 1, 1)})
        for name, entry in later.kinds.items()
    }
    write_measured(MeasuredFile(kinds=kinds), "later.json")
    shown = podium("drift", "scores.jsonl", "--measured", "later.json")
    assert "1 left out: the run began before the rate was measured" in shown.stderr
    assert "There are no recent answers to questions of measured kinds." in shown.stdout


@pytest.mark.usefixtures("config")
@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("x\n", "line 1 is not JSON"),
        ("{}\n", "line 1 has no run id under `run`"),
        ('{"run": "a", "score": 2}\n', "the score 2 is not a number from 0 to 1"),
        ('{"run": "a", "score": true}\n', "the score True is not a number from 0 to 1"),
        ('{"run": "a", "score": 1, "kind": 3}\n', "the kind 3 is not a text"),
        (None, "scores.jsonl cannot be read"),
    ],
)
def test_wrong_scores_are_told(podium: Podium, content: str | None, told: str) -> None:
    """In a line."""
    write_measured(MeasuredFile(), "measured.json")
    if content is not None:
        Path("scores.jsonl").write_text(content)
    result = podium("drift", "scores.jsonl", "--measured", "measured.json")
    assert (result.exit_code, told in result.stderr) == (2, True), result.stderr
    bare = podium("drift", "scores.jsonl")
    assert (bare.exit_code, "set [pool] measured, or use --measured" in bare.stderr) == (2, True)
