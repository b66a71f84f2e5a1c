"""Tests that no arm profits from the questions that it is asked, and that stated error rates hold."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from evals.made import PRICED, Right, made

from podium import Conductor, Plan
from podium_evals.arms import Arm, BestSingle, Fold, KindRule, PlannerArm, SplitName, evaluate, folds
from podium_evals.arms.baselines import MajorityVote, OwnMajority, RandomWorkers
from podium_evals.arms.planners import arm_pool
from podium_evals.errors import PodiumError
from podium_evals.recorded import Recording, Recordings
from podium_evals.results.comparison import ARMS
from podium_evals.router.planner import RouterArm

pytestmark = pytest.mark.anyio

POOL = (*PRICED, "qwen_qwq-32b")


def _recorded(right: Right, *, kinds: int, questions: int, samples: int = 1, workers: int = 3) -> Recordings:
    rows = [(f"kind {n % kinds}", f"kind {n % kinds}: what is {n}?") for n in range(questions)]
    return made(rows, POOL[:workers], right, samples=samples)


def _poisoned(fold: Fold) -> Fold:
    """Return the fold with wrong answers scored as right, and right ones as wrong."""

    def recordings() -> Iterator[Recording]:
        for each in fold.test:
            samples = tuple(replace(sample, score=1 - (sample.score or 0)) for sample in each.samples)
            yield Recording(replace(each.question, expected="no"), each.worker, samples)

    return replace(fold, test=Recordings(recordings()))


async def _plans(arm: PlannerArm, fold: Fold) -> list[Plan | str]:
    conductor = Conductor(arm.planner(fold.blind, 0), arm_pool(fold.blind, 0))
    found: list[Plan | str] = []
    for question in fold.test.questions:
        try:
            found += (await conductor.run(question.text)).plans
        except PodiumError as error:
            found.append(str(error))
    return found


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in ARMS if name not in ("oracle", "any-correct")])
async def test_no_choice_depends_on_scores_of_the_questions_that_are_asked(name: str) -> None:
    """Each arm writes the same plans where the scores of these questions are turned around."""
    random = np.random.default_rng(7)
    is_right = random.random((5, 60, 3)) < np.array([0.7, 0.5, 0.4, 0.4, 0.3])[:, None, None]
    shape = {"kinds": 3, "questions": 60, "samples": 3, "workers": 5}
    recordings = _recorded(lambda w, q, s: bool(is_right[w, q, s]), **shape)
    (fold,) = folds(recordings, "questions")
    for arm in ARMS[name](recordings.workers):
        assert isinstance(arm, PlannerArm)
        plans = await _plans(arm, fold)
        assert len(plans) == len(fold.test)
        assert plans == await _plans(arm, _poisoned(fold))


async def test_the_best_single_is_chosen_on_the_training_half() -> None:
    """The worker that is best on the other half, and on all questions together, is not chosen."""
    half = _recorded(lambda *_: True, kinds=2, questions=40)
    (fold,) = folds(half, "questions")
    asked = {question.id for question in fold.test.questions}

    def right(worker: int, number: int, _sample: int) -> bool:
        if f"q{number}" in asked:
            return worker == 0
        return worker == 1 and number % 5 > 0

    recordings = _recorded(right, kinds=2, questions=40)
    arms: list[Arm] = [BestSingle(), KindRule(), MajorityVote(3), OwnMajority(1)]
    results = await evaluate(arms, list(folds(recordings, "questions")), base="best single", unit="question")
    found = {result.name: result for result in results}
    assert found["best single"].score is not None
    assert found["best single"].score.mean == 0
    assert found["kind rule"].score == found["best single"].score


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("split", ["questions", "kinds"])
async def test_without_an_effect_gains_are_found_as_rarely_as_stated(split: SplitName) -> None:
    """Workers that are equally good: in about one of twenty evaluations, some arm is said to differ.

    The whole evaluation is run, with the choice of the best single, a rule by kind and a router. Where kinds
    are drawn, how good a worker is at a kind is drawn too.
    """
    random, times = np.random.default_rng(11), 150
    arms: list[Arm] = [BestSingle(), RandomWorkers(), RandomWorkers(5), KindRule()]
    if split == "questions":
        arms.append(RouterArm())
    unit = "kind" if split == "kinds" else "question"
    alarms = 0
    for _ in range(times):
        rates = random.beta(2, 2, size=(2, 40)) if unit == "kind" else np.full((2, 40), 0.6)
        is_right = random.random((2, 160)) < rates[:, np.arange(160) % 40]
        shape = {"kinds": 40, "questions": 160, "workers": 2}
        recordings = _recorded(lambda w, q, _s, is_right=is_right: bool(is_right[w, q]), **shape)
        results = await evaluate(arms, list(folds(recordings, split)), base="best single", unit=unit)
        together = [each.difference.together for each in results if each.difference is not None]
        alarms += any(each.low > 0 or each.high < 0 for each in together)
    assert alarms / times <= 0.05 + 3 * (0.05 * 0.95 / times) ** 0.5
