"""The arms that only the page of results has."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import anyio
import numpy as np
import pytest
from evals.listed_prices import LISTED

from benchmarks.evidence.arms import CalibratedArm, CalibratedRouterArm, EqualBudget, ProbedFold, with_probes
from podium import Plan
from podium.usage import Usage
from podium_evals.arms import ArmResult, BestSingle, Fold, KindRule, evaluate, folds
from podium_evals.arms.baselines import Alone
from podium_evals.arms.planners import ChoosingArm
from podium_evals.recorded import Question, Recording, Recordings, Sample

CHEAP, DEAR = "google_gemma-3-27b-it", "anthropic_claude-sonnet-4"
WORKERS = (CHEAP, DEAR, "meta-llama_llama-3.3-70b-instruct")


def _recorded(right: Callable[[int, int], bool], *, usage: Usage | None = Usage(100, 10)) -> Recordings:
    def recordings() -> Iterator[Recording]:
        for number in range(60):
            kind = f"kind {number % 3}"
            question = Question(id=f"q{number}", kind=kind, text=f"{kind}: what is {number}?", expected="yes")
            for place, worker in enumerate(WORKERS):
                is_right = right(place, number)
                text = "yes" if is_right else f"no, says {worker}"
                yield Recording(question, worker, (Sample(text=text, score=float(is_right), usage=usage),))

    return Recordings(recordings(), prices=LISTED)


def _plans(arm: ChoosingArm, fold: Fold) -> Sequence[Plan]:
    choose = arm.chooser(fold.blind, 0)
    return [choose(question) for question in fold.test.questions]


@pytest.mark.parametrize("arm", [CalibratedArm(), CalibratedArm(is_told=False), CalibratedRouterArm()])
def test_no_choice_depends_on_scores_of_the_questions_that_are_asked(arm: ChoosingArm) -> None:
    """Each arm writes the same plans where these scores are turned around; no probe is asked."""
    is_right = np.random.default_rng(7).random((3, 60)) < 0.6
    fold, *_ = with_probes(folds(_recorded(lambda w, q: bool(is_right[w, q])), "kinds"), 3)
    assert isinstance(fold, ProbedFold)
    assert len(fold.probes) == 3 * len(fold.test.kinds)
    assert not {each.key for each in fold.probes.questions} & {each.key for each in fold.test.questions}
    turned = fold.test.with_answers(
        replace(
            each, samples=tuple(replace(sample, score=1 - (sample.score or 0)) for sample in each.samples)
        )
        for each in fold.test
    )
    assert _plans(arm, fold) == _plans(arm, replace(fold, test=turned))


def _equal(recordings: Recordings) -> dict[str, ArmResult]:
    arms = [BestSingle(), Alone(CHEAP), KindRule(), EqualBudget(KindRule())]
    parts = list(folds(recordings, "questions"))
    results = anyio.run(lambda: evaluate(arms, parts, base="best single", unit="question"))
    return {result.name: result for result in results}


def test_an_equal_budget_buys_the_best_worker_that_it_can() -> None:
    """The mean cost of the kind rule does not pay for the dear specialist; unknown tokens have no cost."""
    name = "best single, budget of kind rule"
    found = _equal(_recorded(lambda place, number: number % 3 == place))
    assert found[name].cost == found[CHEAP].cost
    assert (found["kind rule"].cost or 0) > (found[CHEAP].cost or 0)
    unknown = _equal(_recorded(lambda place, number: number % 3 == place, usage=None))
    assert "is not known: its price, or the tokens of an answer" in unknown[name].unfit
