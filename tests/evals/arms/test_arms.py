"""Tests of arms on recordings whose right figures are known."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
from evals.made import CHEAP, DEAR, WEAK, Right, made, sample_of

from podium import Plan, Step
from podium.planners import ChatPlanner, FixedPlanner, RulePlanner
from podium.usage import Usage
from podium.workers import ChatWorker, Endpoint
from podium_evals.arms import ASK, Arm, ArmResult, BestSingle, Fold, KindRule, SplitName, evaluate, folds
from podium_evals.arms.baselines import (
    AgainIfEmpty,
    Alone,
    AnyCorrect,
    MajorityVote,
    OwnMajority,
    RandomWorkers,
    RoutingOracle,
    best_of,
)
from podium_evals.arms.planners import ChoosingArm, GivenPlanner
from podium_evals.errors import ArmUnfit, RecordingInvalid
from podium_evals.recorded import Question, Recording, Recordings, Sample

pytestmark = pytest.mark.anyio

POOL = (CHEAP, DEAR, WEAK)


KINDS = ("verbs", "sums", "verbs too", "sums too")
ROWS = [(KINDS[n % 4], f"{KINDS[n % 4]} {n}?") for n in range(40)]


def _recorded(right: Right, samples: int = 1) -> Recordings:
    """Return forty questions of four kinds, half of them verbs, answered by three workers."""
    return made(ROWS, POOL, right, samples=samples)


def _coin(*of: int) -> bool:
    return sha256(repr(of).encode()).digest()[0] % 2 == 0


def _specialists(worker: int, number: int, _: int) -> bool:
    return worker < 2 and ROWS[number][0].startswith(("verbs", "sums")[worker])


async def _evaluate(
    recordings: Recordings, *arms: Arm, split: SplitName = "questions", seeds: Sequence[int] = (0,)
) -> dict[str, ArmResult]:
    parts = list(folds(recordings, split))
    unit: Any = "kind" if split == "kinds" else "question"
    results = await evaluate([BestSingle(), *arms], parts, base="best single", unit=unit, seeds=seeds)
    return {result.name: result for result in results}


def _mean(result: ArmResult) -> float:
    assert result.score is not None
    assert result.recorded == result.questions
    return result.score.mean


async def test_two_specialists_gain_from_a_rule_and_not_from_a_vote() -> None:
    """Each worker alone is right on half; who knows the kind is always right."""
    found = await _evaluate(
        _recorded(_specialists), *map(Alone, POOL), KindRule(), MajorityVote(3), AnyCorrect(), RandomWorkers()
    )
    assert [_mean(found[worker]) for worker in POOL] == [0.5, 0.5, 0]
    assert _mean(found["kind rule"]) == _mean(found["any correct, not achievable"]) == 1
    assert _mean(found["vote of the best 3"]) == 0.5
    assert 0.1 < _mean(found["random worker"]) < 0.6
    rule, vote = (found[name].difference for name in ("kind rule", "vote of the best 3"))
    assert rule is not None
    assert vote is not None
    assert (rule.alone.mean, rule.together.low > 0, vote.alone.mean) == (0.5, True, 0)
    assert found["kind rule"].kinds == {"sums": 1, "sums too": 1, "verbs": 1, "verbs too": 1}
    assert found["best single"].difference is None


async def test_calls_tokens_and_cost_are_those_of_the_plan() -> None:
    """A reducer is no call; the price is that of the table."""
    found = await _evaluate(_recorded(_specialists), Alone(CHEAP), Alone(DEAR), MajorityVote(3))
    alone, vote = found[DEAR], found["vote of the best 3"]
    assert (alone.calls, alone.tokens, alone.cost) == (1, 110, pytest.approx((100 * 3 + 10 * 15) / 1e6))
    assert (vote.calls, vote.tokens, alone.latency_s) == (3, 330, None)
    assert (vote.cost or 0) > (alone.cost or 0)


async def test_the_own_majority_needs_a_sample_for_each_answer() -> None:
    """Two of three right: the majority is always right. With fewer samples, nothing is guessed."""
    often = _recorded(lambda worker, _number, sample: worker == 1 and sample != 1, samples=3)
    found = await _evaluate(often, OwnMajority(3), OwnMajority(4), seeds=(0, 1, 2))
    assert (_mean(found["best single 3 times"]), _mean(found["best single"])) == (1, pytest.approx(2 / 3))
    lacking = found["best single 4 times"]
    assert (lacking.recorded, lacking.score, lacking.difference) == (0, None, None)
    assert "has 3 recorded answers to" in lacking.unrecorded


async def test_estimated_tokens_have_no_cost() -> None:
    estimated = _recorded(_specialists).with_answers(
        Recording(each.question, each.worker, tuple(replace(sample, usage=None) for sample in each.samples))
        for each in _recorded(_specialists)
    )
    unknown = await _evaluate(estimated, KindRule(), AnyCorrect())
    assert {(each.tokens, each.cost) for each in unknown.values()} == {(None, None)}


async def test_an_empty_answer_is_asked_for_again() -> None:
    """The best worker is empty on half of the questions; the next best, or its other sample, repairs it."""

    def sample(worker: str, number: int, turn: int) -> Sample:
        is_empty = worker == CHEAP and number % 2 == 0 and (turn == 0 or number % 4 == 0)
        is_right = worker == CHEAP or (worker == DEAR and number % 8 != 2)
        if is_empty:
            return Sample(text=" ", score=0.0, usage=Usage(1, 1))
        return sample_of(worker, is_right=is_right)

    def of(samples: int) -> Recordings:
        questions = [Question(id=f"q{n}", kind="a", text=f"{n}?") for n in range(80)]
        return Recordings(
            Recording(each, worker, tuple(sample(worker, number, turn) for turn in range(samples)))
            for number, each in enumerate(questions)
            for worker in (CHEAP, DEAR)
        )

    again, following = AgainIfEmpty(Alone(CHEAP), "same"), AgainIfEmpty(Alone(CHEAP))
    found = await _evaluate(of(2), Alone(CHEAP), again, following, seeds=(0, 1))
    assert found[CHEAP].empty == pytest.approx(found[CHEAP].calls and 1 - _mean(found[CHEAP]))
    assert found[again.name].empty == pytest.approx(1 - _mean(found[again.name]))
    assert _mean(found[CHEAP]) < _mean(found[again.name]) < _mean(found[following.name])
    assert found[following.name].empty == 0
    assert found[following.name].calls == pytest.approx(1 + (found[CHEAP].empty or 0.0))
    once = await _evaluate(of(1), Alone(CHEAP), again, following)
    assert once[again.name].score is not None
    assert once[again.name].recorded < once[again.name].questions
    assert "has 1 recorded answers to" in once[again.name].unrecorded
    assert _mean(once[following.name]) > _mean(once[CHEAP])


async def test_an_oracle_gains_nothing_from_luck() -> None:
    """Workers that guess: the oracle, judged by other samples, is no better. Any correct is."""
    coins = _recorded(_coin, samples=3)
    found = await _evaluate(coins, RoutingOracle(), AnyCorrect(), seeds=(0, 1, 2))
    assert not found["routing oracle"].achievable
    assert _mean(found["any correct, not achievable"]) > 0.75
    assert 0.25 < _mean(found["routing oracle"]) < 0.75
    single = await _evaluate(_recorded(_specialists), RoutingOracle())
    assert "one sample" in single["routing oracle"].unrecorded


async def test_any_planner_can_be_an_arm() -> None:
    """One that writes no plan scores nothing; one that writes a plan that was not recorded has no score."""
    two = Plan((Step(0, "Answer the question."), Step(1, "Improve it.", (0,))))
    found = await _evaluate(
        _recorded(_specialists),
        GivenPlanner("none", FixedPlanner("I cannot plan.")),
        GivenPlanner("rule", RulePlanner()),
        GivenPlanner("two", FixedPlanner(two)),
    )
    assert (_mean(found["none"]), found["rule"].questions, found["two"].recorded) == (0, 20, 0)


async def test_an_arm_that_does_not_fit_says_why() -> None:
    """The others are compared all the same; without a base there is no comparison."""
    recordings = _recorded(_specialists)
    found = await _evaluate(recordings, MajorityVote(4))
    assert "needs 4 workers: the pool has 3" in found["vote of the best 4"].unfit
    parts = list(folds(recordings, "questions"))
    with pytest.raises(ArmUnfit, match="no arm has the name 'worst'"):
        await evaluate([BestSingle()], parts, base="worst", unit="question")
    with pytest.raises(ArmUnfit, match="no arm can be compared"):
        await evaluate([OwnMajority(4)], parts, base="best single 4 times", unit="question")
    with pytest.raises(ArmUnfit, match="one kind only"):
        list(folds(recordings.where(lambda question: question.kind == "sums"), "kinds"))


class Cheat(ChoosingArm):
    """Fits on what it is asked."""

    def __init__(self) -> None:
        super().__init__("cheat")

    def chooser(self, fold: Fold, seed: int) -> Callable[[Question], Plan]:
        del seed
        best = fold.test.workers.index(best_of(fold.test))
        return lambda _question: Plan((Step(best, ASK),))


async def test_an_arm_that_is_fitted_on_what_it_is_asked_is_caught() -> None:
    """Planners get the questions without scores and right answers; a fold whose parts overlap is refused."""
    recordings = _recorded(_specialists)
    (fold,) = folds(recordings, "questions")
    with pytest.raises(RecordingInvalid, match="have no scores"):
        await evaluate([BestSingle(), Cheat()], [fold], base="best single", unit="question")
    assert fold.test.questions[0].expected == "yes"
    assert {question.expected for question in fold.blind.test.questions} == {None}
    assert fold.blind.train is fold.train
    leaky = Fold(train=recordings, test=fold.test)
    with pytest.raises(ArmUnfit, match="to fit arms on and among those to test them with"):
        await evaluate([BestSingle()], [leaky], base="best single", unit="question")


async def test_a_server_that_is_down_is_no_wrong_answer() -> None:
    """The arm is unfit and says why; a plan that was not recorded has no score."""
    endpoint = Endpoint("http://127.0.0.1:9/v1")
    silent = ChatPlanner(ChatWorker("conductor", endpoint=endpoint))
    some = _recorded(_specialists).where(lambda question: question.id in ("q0", "q1", "q4", "q5"))
    found = await _evaluate(some, GivenPlanner("trained", silent, is_told=False))
    assert "'trained' cannot plan" in found["trained"].unfit
    assert found["trained"].score is None
