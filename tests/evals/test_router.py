"""Tests of routers."""

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evals.listed_prices import LISTED

from podium import Conductor
from podium.errors import PlannerError
from podium.planners import Planner
from podium.usage import Usage
from podium.workers import Card, Kind, MeasuredRate
from podium_evals.arms import BestSingle, evaluate, folds
from podium_evals.errors import RouterInvalid
from podium_evals.recorded import Question, Recording, Recordings, Sample, Vote, recorded_pool
from podium_evals.router import Router, RouterPlanner, fit_router
from podium_evals.router.planner import RouterArm
from tests.contracts.planner_contract import PlannerContract

pytestmark = pytest.mark.anyio

CHEAP, DEAR = "google_gemma-3-27b-it", "anthropic_claude-sonnet-4"


def _recorded(*, strong: str = "") -> Recordings:
    """Return sixty questions: one worker knows verbs, the other sums; `strong` knows all."""

    def recordings() -> Any:
        for number in range(60):
            kind = "verbs" if number % 2 else "sums"
            text = f"Conjugate the verb number {number}." if number % 2 else f"Add {number} and {number * 7}."
            question = Question(id=f"q{number}", kind=kind, text=text)
            for worker, knows in ((CHEAP, "verbs"), (DEAR, "sums")):
                is_right = kind == knows or worker == strong
                text = "right" if is_right else f"wrong, says {worker}"
                yield Recording(
                    question, worker, (Sample(text=text, score=float(is_right), usage=Usage(50, 50)),)
                )

    return Recordings(recordings(), prices=LISTED)


@pytest.fixture(scope="module")
def router() -> Router:
    return fit_router(_recorded())


async def test_a_router_learns_from_the_words_who_is_good_at_what() -> None:
    parts = list(folds(_recorded(), "questions"))
    _, routed = await evaluate([BestSingle(), RouterArm()], parts, base="best single", unit="question")
    assert routed.score is not None
    assert routed.difference is not None
    assert routed.score.mean == 1
    assert routed.difference.together.low > 0


def test_predictions_are_probabilities(router: Router) -> None:
    """Calibrated on questions that the regression had not seen."""
    sums, verbs = router.predict("Add 5 and 17."), router.predict("Conjugate the verb number 99.")
    assert sums == pytest.approx({CHEAP: 0, DEAR: 1}, abs=0.1)
    assert verbs == pytest.approx({CHEAP: 1, DEAR: 0}, abs=0.1)
    luck = Recordings(
        Recording(
            Question(id=f"q{n}", kind="k", text=f"word{n % 7} word{n % 5} of {n}"),
            worker,
            (Sample(text="x", score=float(np.random.default_rng([n, int(100 * odd)]).random() < odd)),),
        )
        for n in range(200)
        for worker, odd in (("a", 0.25), ("b", 0.75))
    )
    of_luck = fit_router(luck)
    told = [of_luck.predict(f"word{one} word{two}") for one in range(7) for two in range(5)]
    assert np.mean([each["a"] for each in told]) == pytest.approx(0.25, abs=0.1)
    assert np.mean([each["b"] for each in told]) == pytest.approx(0.75, abs=0.1)


def test_a_saved_router_is_the_same(router: Router, tmp_path: Path) -> None:
    """A file that is something else is refused, and runs no code."""
    path = tmp_path / "router.npz"
    router.save(path)
    loaded = Router.load(path)
    assert loaded.facts == router.facts
    assert loaded.predict("Add 3 and 4.") == pytest.approx(router.predict("Add 3 and 4."), abs=1e-4)
    for broken in (b"", b"no archive", path.read_bytes()[:500]):
        path.write_bytes(broken)
        with pytest.raises(RouterInvalid, match="is not a router"):
            Router.load(path)
    np.savez(path, header=np.asarray('{"version": 99}'))
    with pytest.raises(RouterInvalid, match="version 99"):
        Router.load(path)
    np.save(path.with_suffix(".npy"), np.asarray([object()]), allow_pickle=True)
    with pytest.raises(RouterInvalid, match="is not a router"):
        Router.load(path.with_suffix(".npy"))
    with pytest.raises(RouterInvalid, match="No such file"):
        Router.load(tmp_path / "none.npz")


def test_too_little_is_refused() -> None:
    with pytest.raises(RouterInvalid, match="there are 60 questions and 1 workers"):
        fit_router(_recorded().only([CHEAP]))
    some = [each for each in _recorded() if each.worker == CHEAP or each.question.id != "q3"]
    with pytest.raises(RouterInvalid, match="have not answered all questions"):
        fit_router(Recordings(some))


async def test_a_worker_answers_that_is_worth_its_price() -> None:
    """The expensive worker knows all: it is asked where the cheap one does not know, if that is worth it."""
    recordings = _recorded(strong=DEAR)
    router = fit_router(recordings)
    verb, addition = "Conjugate the verb number 7.", "Add 8 and 56."
    for worth, workers in ((0.01, (CHEAP, DEAR)), (1e-5, (CHEAP, CHEAP)), (100.0, (DEAR, DEAR))):
        planner = RouterPlanner(router, worth=worth)
        async with Conductor(planner, recorded_pool(recordings)) as conductor:
            for text, worker in zip((verb, addition), workers, strict=True):
                result = await conductor.run(text)
                assert [outcome.worker for outcome in result.outcomes] == [worker]
                assert f"a right answer is worth ${worth:.4g}" in result.explain()


async def test_a_router_of_another_pool_is_refused(router: Router) -> None:
    with pytest.raises(PlannerError, match=rf"knows {CHEAP}, {DEAR}, but the pool has none of them"):
        await Conductor(RouterPlanner(router), [Vote("a"), Vote("b")]).run("?")


async def test_measured_rates_decide_for_questions_of_their_kind(router: Router) -> None:
    """Here against the router, which knows better; other questions are planned as before."""
    recordings = _recorded()
    pool = recorded_pool(recordings)
    kind = Kind("sums", ("Add 1 and 2.", "Add 3 and 4."))
    for worker in pool:
        rate = MeasuredRate(
            kind=kind,
            rate=0.5,
            low=0,
            high=1,
            right=10.0 if worker.card.name == CHEAP else 0.0,
            answers=10,
            measured_on=date(2026, 11, 22),
        )
        worker.card = replace(worker.card, measured=(rate,))
    async with Conductor(RouterPlanner(router), pool) as conductor:
        for text, name in (("Add 8 and 56.", CHEAP), ("Conjugate the verb number 7.", CHEAP)):
            result = await conductor.run(text)
            assert [outcome.worker for outcome in result.outcomes] == [name]


class TestRouterPlanner(PlannerContract):
    cards = (Card(name=CHEAP, description="Writes."), Card(name=DEAR, description="Writes."))
    heeds_question = False

    @pytest.fixture
    def planner(self, router: Router) -> Planner:
        return RouterPlanner(router)
