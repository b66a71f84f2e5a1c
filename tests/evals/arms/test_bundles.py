"""Tests of arms that are asked bundles."""

from collections.abc import Iterator

import pytest

from podium import Plan, Step
from podium.planners import FixedPlanner
from podium_evals.arms import (
    Arm,
    ArmResult,
    BestSingle,
    Fold,
    KindRule,
    evaluate,
    folds,
)
from podium_evals.arms.arm import bundled
from podium_evals.arms.baselines import (
    Alone,
    AnyCorrect,
    MajorityVote,
    OwnMajority,
    RandomWorkers,
    RoutingOracle,
)
from podium_evals.arms.planners import GivenPlanner
from podium_evals.errors import ArmUnfit
from podium_evals.recorded import Question, Recording, Recordings, Sample

pytestmark = pytest.mark.anyio

ADDER, HALVER, NEITHER = "adder", "halver", "neither"


def _recorded() -> Recordings:
    """Return sums and halves; a sum is a number of some half, and each of two workers is good at one kind."""

    def recordings() -> Iterator[Recording]:
        for number in range(100, 140):
            questions = (
                (
                    ADDER,
                    Question(id=f"s{number}", kind="sums", text=f"What is {number} + 100?"),
                    number + 100,
                ),
                (HALVER, Question(id=f"h{number}", kind="halves", text=f"Halve {number + 100}."), number / 2),
            )
            for expert, question, answer in questions:
                for worker in (ADDER, HALVER, NEITHER):
                    right = Sample(text=str(answer), score=1, latency_s=2)
                    wrong = Sample(text=f"{worker} cannot", score=0, latency_s=1)
                    yield Recording(question, worker, (right if worker == expert else wrong,) * 3)

    return Recordings(recordings())


def _fold(count: int = 6) -> Fold:
    (fold,) = folds(_recorded(), "questions")
    return bundled(fold, count, seed=3)


def _linked(fold: Fold) -> int:
    return sum(any(part.needs is not None for part in bundle.parts) for bundle in fold.bundles)


async def _evaluate(fold: Fold, *arms: Arm) -> dict[str, ArmResult]:
    results = await evaluate([BestSingle(), *arms], [fold], base="best single", unit="question")
    return {result.name: result for result in results}


async def test_single_workers_answer_each_part_in_a_call_of_its_own() -> None:
    """Each specialist is right on its parts; who knows the kinds is right on all, linked parts too."""
    fold = _fold()
    linked = _linked(fold)
    assert 0 < linked < 6
    found = await _evaluate(
        fold, Alone(ADDER), Alone(HALVER), KindRule(), MajorityVote(3), OwnMajority(3), AnyCorrect()
    )
    assert [result.recorded for result in found.values()] == [6] * 7
    for name, score in ((HALVER, (6 - linked) / 12), ("kind rule", 1), ("any correct, not achievable", 1)):
        interval = found[name].score
        assert interval is not None
        assert interval.mean == pytest.approx(score), name
    parts = sum(len(bundle.parts) for bundle in fold.bundles) / 6
    rule, own, vote = found["kind rule"], found["best single 3 times"], found["vote of the best 3"]
    assert (rule.calls, vote.calls, found["any correct, not achievable"].calls) == (
        parts,
        3 * parts,
        3 * parts,
    )
    assert own.calls == 3 * parts
    assert set(rule.kinds or ()) == {"2 parts", "2 parts, linked"}


async def test_a_bundle_as_a_whole_was_never_asked() -> None:
    """A plan that gives it to a worker has no score, and neither has one that asks it something else."""
    whole = Plan((Step(0, "Answer all parts."), Step(6, "Join the answers.", (0,))))
    parts = Plan((Step(0, "{{part_1}}"), Step(1, "Rewrite {{0}}.", (0,)), Step(6, "Join.", (0, 1))))
    found = await _evaluate(
        _fold(),
        GivenPlanner("whole", FixedPlanner(whole)),
        GivenPlanner("parts", FixedPlanner(parts)),
        RoutingOracle(),
        RandomWorkers(5),
    )
    assert found["whole"].recorded == found["parts"].recorded == 0
    assert found["routing oracle"].recorded == found["random plan"].recorded == 6


async def test_no_interval_is_about_other_kinds() -> None:
    """A bundle has several kinds."""
    with pytest.raises(ArmUnfit, match="several kinds"):
        await evaluate([BestSingle()], [_fold()], base="best single", unit="kind")
