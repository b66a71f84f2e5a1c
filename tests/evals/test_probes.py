"""Arms that read a few graded answers to questions of new kinds, and what such answers gain."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from evals.results.two_specialists import written
from typer.testing import Result

from podium_evals.arms import BestSingle, evaluate, folds
from podium_evals.calibration import CalibratedArm, CalibratedRouterArm, probe_curve
from podium_evals.calibration.allocation import asked_next
from podium_evals.calibration.rates import Tally, best_chances, estimates, intervals, priors
from podium_evals.errors import ArmUnfit
from podium_evals.recorded import Question, Recording, Recordings, Sample

pytestmark = pytest.mark.anyio
Podium = Callable[..., Result]
STRONG = {"ant": (0, 1), "bee": (2, 3), "cat": (4, 5)}
"""The kinds that each worker can answer."""


def specialists(questions: int = 20) -> Recordings:
    """Return six kinds of questions, of which each of three workers can answer two; nobody is best on all."""

    def recordings() -> object:
        for kind in range(6):
            for number in range(questions):
                text = f"Topic{kind} theme{kind} subject{kind}: what is thing{number}?"
                question = Question(id=f"{kind}/{number}", kind=f"kind {kind}", text=text)
                for worker, kinds in STRONG.items():
                    score = float(kind in kinds)
                    yield Recording(question, worker, (Sample(text="yes" if score else "no", score=score),))

    return Recordings(recordings())  # type: ignore[arg-type]


@pytest.mark.long
async def test_probes_find_the_best_worker_of_a_new_kind() -> None:
    """Arms are not asked the probes, and read no other score of the kinds that are new to them."""
    parts = list(folds(specialists(), "kinds", count=6, probes=2))
    for fold in parts:
        assert fold.probes is not None
        assert fold.probes.kinds == fold.test.kinds
        assert (len(fold.probes), len(fold.test), len(fold.train)) == (2, 18, 100)
        assert not set(fold.probes.questions) & set(fold.test.questions)
    arms = [BestSingle(), CalibratedArm(), CalibratedArm(is_told=False), CalibratedRouterArm()]
    single, told, found, routed = await evaluate(arms, parts, base="best single", unit="kind")
    assert single.score is not None
    assert single.score.mean < 0.5
    for arm in (told, found, routed):
        assert arm.score is not None
        assert arm.score.mean == 1, arm.name


async def test_without_probes_the_arm_is_unfit() -> None:
    """And probes are of new kinds alone."""
    parts = list(folds(specialists(), "kinds", count=3))
    *_, arm = await evaluate([BestSingle(), CalibratedArm()], parts, base="best single", unit="kind")
    assert "needs probes" in arm.unfit
    with pytest.raises(ArmUnfit, match="need the split `kinds`"):
        list(folds(specialists(), "questions", probes=3))


def test_probes_gain_and_asking_the_likely_best_loses_nothing() -> None:
    """Where each kind has one worker that can answer it."""
    curve = probe_curve(specialists(), counts=(1, 8), draws=4)
    assert (curve.kinds, curve.questions, curve.workers) == (6, 120, tuple(STRONG))
    all_, likely = curve.points[2:]
    assert (all_.probes, all_.asked, all_.calls) == (8, "all", 24)
    assert (likely.probes, likely.asked) == (8, "likely")
    assert likely.calls < 18
    assert all_.score.mean == likely.score.mean == 1
    assert all_.gain.low > 0
    assert likely.lost.mean == 0
    assert probe_curve(specialists(), counts=(1, 8), draws=4) == curve
    with pytest.raises(ArmUnfit, match="0 kinds with more than 20 questions"):
        probe_curve(specialists(), counts=(20,))


def test_rates_shrink_to_the_other_kinds() -> None:
    """The prior weighs as much as three answers; without other kinds it is one half."""
    tallies = {"sums": {"a": Tally(8, 8), "b": Tally(0, 8)}, "new": {"a": Tally(0, 1), "b": Tally(1, 1)}}
    prior = priors(["a", "b"], "new", tallies)
    assert prior == pytest.approx([0.9, 0.1])
    right, answers = np.asarray([0.0, 1.0]), np.asarray([1.0, 1.0])
    assert estimates(prior, right, answers) == pytest.approx([2.7 / 4, 1.3 / 4])
    assert priors(["a", "c"], "new", tallies) == pytest.approx([0.9, 0.5])  # all workers: 8 of 16
    assert priors(["a", "b"], "new", {"new": {"a": Tally(9, 9)}}) == pytest.approx([0.5, 0.5])
    assert priors(["a", "b"], "new", {}) == pytest.approx([0.5, 0.5])


def test_intervals_and_chances() -> None:
    """Narrower with more answers, around the rate; the chances add up to 1."""
    prior = np.full(2, 0.5)
    few = intervals(prior, np.asarray([3.0, 1.0]), np.asarray([4.0, 4.0]))
    many = intervals(prior, np.asarray([60.0, 20.0]), np.asarray([80.0, 80.0]))
    assert (many[1] - many[0] < few[1] - few[0]).all()
    chances = best_chances(prior, np.asarray([60.0, 20.0]), np.asarray([80.0, 80.0]))
    assert chances.sum() == pytest.approx(1)
    assert chances[0] > 0.99


def test_intervals_hold_what_they_say() -> None:
    """95 % of the intervals contain the true rate, if rates of kinds are spread as the prior says."""
    random = np.random.default_rng(1)
    prior = np.full(4000, 0.6)
    true = random.beta(3 * prior, 3 * (1 - prior))
    right = random.binomial(5, true).astype(np.float64)
    low, high = intervals(prior, right, np.full(4000, 5.0))
    assert 0.94 < np.mean((low <= true) & (true <= high)) < 0.96


def test_who_is_asked_next() -> None:
    """At first everybody, then those who may be the best; nobody if one is left."""
    prior = np.full(3, 0.5)
    assert asked_next(prior, np.zeros(3), np.zeros(3)).all()
    assert asked_next(prior, np.asarray([5.0, 5.0, 0.0]), np.full(3, 5.0)).tolist() == [True, True, False]
    assert not asked_next(prior, np.asarray([9.0, 0.0, 0.0]), np.full(3, 9.0)).any()


@pytest.mark.long
def test_the_commands(podium: Podium, tmp_path: Path) -> None:
    """The curve as a table of 80 columns and as JSON, and the arms of `podium evals run`."""
    path = written(tmp_path, specialists())
    shown = podium("evals", "probes", path, "--counts", "1,3", "--draws", "2")
    assert shown.exit_code == 0, shown.stderr
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert "means of 2 draws." in " ".join(shown.stdout.split())
    told = json.loads(podium("evals", "probes", path, "--counts", "1,3", "--draws", "2", "--json").stdout)
    assert [point["calls"] for point in told["points"] if point["asked"] == "all"] == [3, 9]
    run = ("evals", "run", path, "--processes", "1", "--split", "kinds", "--folds", "3", "--json")
    arms = json.loads(podium(*run, "--probes", "2", "--arms", "calibrated").stdout)["arms"]
    assert [(arm["name"], arm["questions"]) for arm in arms] == [("best single", 108), ("calibrated", 108)]
    bare = podium(*run, "--questions", "3")
    assert not [arm for arm in json.loads(bare.stdout)["arms"] if "calibrated" in arm["name"]]
    for options, why in (
        (("--counts", "x"), "--counts 'x': write whole numbers"),
        (("--counts", "0"), "must be 1 or more"),
        (("--counts", "50"), "0 kinds with more than 50 questions"),
    ):
        wrong = podium("evals", "probes", path, *options)
        assert (wrong.exit_code in (1, 2), why in wrong.stderr) == (True, True), wrong.stderr
