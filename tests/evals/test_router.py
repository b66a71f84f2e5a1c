"""Routers: what they learn, how they weigh prices, and routers as planners of a config."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from evals.made import CHEAP, DEAR, made
from servers.chat_server import ChatServer
from typer.testing import Result

from podium import Conductor
from podium.errors import PlannerError
from podium.planners import Planner
from podium.usage import Usage
from podium.workers import Card, Kind, MeasuredRate
from podium_evals.arms import BestSingle, evaluate, folds
from podium_evals.errors import RouterInvalid
from podium_evals.recorded import Recordings, Vote, read_recordings, recorded_pool, write_recordings
from podium_evals.router import Router, RouterPlanner, fit_router
from podium_evals.router.planner import RouterArm
from podium_evals.router.router import Goal, choose, fit_for
from tests.contracts.planner_contract import PlannerContract

Podium = Callable[..., Result]
TASKS = {"add": "Add {} and 7.", "verb": "Conjugate the verb number {}.", "map": "Which city is at {} feet?"}
KNOWN = {CHEAP: {"verb"}, DEAR: {"add", "map"}}


def recorded(knows: dict[str, set[str]] = KNOWN, names: tuple[str, str] = (CHEAP, DEAR)) -> Recordings:
    """Return 120 questions of three kinds, of which the cheap and the dear worker know some."""
    rows = [(task, TASKS[task].format(number)) for number in range(40) for task in TASKS]
    rights = [[task in knows[worker] for task, _ in rows] for worker in (CHEAP, DEAR)]
    return made(rows, names, lambda worker, number, _: rights[worker][number], usage=Usage(50, 50))


ALL = {CHEAP: {"verb"}, DEAR: {"add", "verb", "map"}}
"""The dear worker knows all."""


@pytest.mark.parametrize("goal", [Goal("price", 0.0007), Goal("quality", 0.9)])
def test_a_router_for_a_goal(goal: Goal) -> None:
    """The best that can be had for a price, and the cheapest with a quality."""
    facts = (router := fit_for(goal, recorded(knows=ALL))).facts
    assert facts.worth is not None
    for task, worker in (("add", DEAR), ("verb", CHEAP)):
        predicted = router.predict_all([TASKS[task].format(7)])
        assert facts.workers[choose(predicted, facts.costs, facts.worth)[0]] == worker


def test_a_price_out_of_reach_is_refused() -> None:
    with pytest.raises(RouterInvalid, match=r"no tier reaches a quality of 1.5"):
        fit_for(Goal("quality", 1.5), recorded(knows=ALL))
    with pytest.raises(RouterInvalid, match=r"no tier costs \$1e-09 a question .*: the cheapest costs \$"):
        fit_for(Goal("price", 1e-9), recorded(knows={CHEAP: {"verb"}, DEAR: {"add"}}))


TOML = """
[endpoints.lab]
base_url = "{url}"
provider = "vllm"
{workers}
[planner]
type = "router"
path = "router.npz"
"""
WORKER = """
[workers.{name}]
endpoint = "lab"
model = "{name}"
price = {{ input = {price}, output = {price} }}
"""


@pytest.fixture
def own(tmp_path: Path, server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a config whose workers were recorded and whose planner is a router of theirs."""
    monkeypatch.chdir(tmp_path)
    write_recordings(recorded(names=("small", "large")), "own.jsonl")
    path = tmp_path / "own.toml"
    workers = WORKER.format(name="small", price=0.1) + WORKER.format(name="large", price=10)
    path.write_text(TOML.format(url=server.url, workers=workers))
    fit_router(read_recordings("own.jsonl")).save("router.npz")
    return path


@pytest.mark.long
def test_a_router_is_the_planner_of_a_config(own: Path, podium: Podium) -> None:
    checked = podium("check", "--config", str(own))
    assert (checked.exit_code, "router" in checked.stdout) == (0, True), checked.stdout
    for question, worker in (("Add 500 and 7.", "large"), ("Conjugate the verb number 900.", "small")):
        planned = podium("plan", "--config", str(own), question)
        assert (planned.exit_code, worker in planned.stdout) == (0, True), planned.stderr
        run = podium("run", "--config", str(own), "--no-journal", "--json", question)
        assert run.exit_code == 0, run.stderr
        assert [step["worker"] for step in json.loads(run.stdout)["outcomes"]] == [worker]


@pytest.mark.long
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("router.npz", "none.npz"), "'path' in [planner]: "),
        (("router.npz", "own.jsonl"), "is not a router"),
        (("s.large", "s.huge"), "router.npz was trained for small, large, but there is no [workers.large]"),
    ],
)
def test_a_wrong_planner(own: Path, podium: Podium, change: tuple[str, str], told: str) -> None:
    """The message names its key."""
    own.write_text(own.read_text().replace(*change))
    result = podium("plan", "--config", str(own), "Add 500 and 7.")
    stderr = " ".join(result.stderr.split())
    assert (result.exit_code, told in stderr) == (2, True), stderr
    assert re.search(r"own\.toml:\d+: ", stderr)


pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def router() -> Router:
    return fit_router(recorded())


async def test_a_router_learns_from_the_words_who_is_good_at_what() -> None:
    parts = list(folds(recorded(), "questions"))
    _, routed = await evaluate([BestSingle(), RouterArm()], parts, base="best single", unit="question")
    assert routed.score is not None
    assert routed.difference is not None
    assert (routed.score.mean, routed.difference.together.low > 0) == (1, True)


def test_predictions_are_probabilities(router: Router) -> None:
    """Calibrated on questions that the regression had not seen."""
    sums, verbs = router.predict("Add 55 and 7."), router.predict("Conjugate the verb number 99.")
    assert sums == pytest.approx({CHEAP: 0, DEAR: 1}, abs=0.1)
    assert verbs == pytest.approx({CHEAP: 1, DEAR: 0}, abs=0.1)
    odds, luck = (0.25, 0.75), np.random.default_rng(3).random((2, 200))
    rows = [("k", f"word{n % 7} word{n % 5} of {n}") for n in range(200)]
    of_luck = fit_router(made(rows, ("a", "b"), lambda w, n, _: bool(luck[w, n] < odds[w])))
    told = [of_luck.predict(f"word{one} word{two}") for one in range(7) for two in range(5)]
    assert [np.mean([each[name] for each in told]) for name in "ab"] == pytest.approx(odds, abs=0.1)


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
    with pytest.raises(RouterInvalid, match="there are 120 questions and 1 workers"):
        fit_router(recorded().only([CHEAP]))
    some = [each for each in recorded() if each.worker == CHEAP or each.question.id != "q3"]
    with pytest.raises(RouterInvalid, match="have not answered all questions"):
        fit_router(Recordings(some))


async def test_a_worker_answers_that_is_worth_its_price() -> None:
    """The expensive worker knows all: it is asked where the cheap one does not know, if that is worth it."""
    recordings = recorded(knows=ALL)
    router = fit_router(recordings)
    verb, addition = "Conjugate the verb number 7.", "Add 8 and 7."
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
    pool = recorded_pool(recorded())
    kind = Kind("add", ("Add 1 and 7.", "Add 3 and 7."))
    for worker in pool:
        right, day = 10.0 if worker.card.name == CHEAP else 0.0, date(2026, 11, 22)
        rate = MeasuredRate(kind=kind, rate=0.5, low=0, high=1, right=right, answers=10, measured_on=day)
        worker.card = replace(worker.card, measured=(rate,))
    async with Conductor(RouterPlanner(router), pool) as conductor:
        for text in ("Add 8 and 7.", "Conjugate the verb number 7."):
            assert [outcome.worker for outcome in (await conductor.run(text)).outcomes] == [CHEAP]


class TestRouterPlanner(PlannerContract):
    cards = (Card(name=CHEAP, description="Writes."), Card(name=DEAR, description="Writes."))
    heeds_question = False

    @pytest.fixture
    def planner(self, router: Router) -> Planner:
        return RouterPlanner(router)
