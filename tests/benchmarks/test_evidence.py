"""The page of results on recorded answers, and the arms that only it has."""

import re
from collections.abc import Callable, Iterator, Sequence
from csv import DictReader
from dataclasses import replace
from pathlib import Path

import anyio
import numpy as np
import pytest
from evals.made import CHEAP, DEAR, WEAK, made

from benchmarks.evidence.arms import CalibratedArm, CalibratedRouterArm, EqualBudget, ProbedFold, with_probes
from benchmarks.evidence.measuring import Measured, Part, measure
from benchmarks.evidence.page import pareto, write_page
from benchmarks.evidence.recordings import CALLS, EASY, HARD, MID, PRICED_MODELS, with_prices
from podium import Plan
from podium.usage import Usage
from podium_evals.arms import ArmResult, BestSingle, Fold, KindRule, evaluate, folds
from podium_evals.arms.baselines import Alone
from podium_evals.arms.planners import ChoosingArm
from podium_evals.recorded import Provenance, Question, Recording, Recordings, Sample

ARMS = "workers best again next-best kind-rule kind-next-best vote-3 own-3 any-correct"
NEW = "best next-best vote-3 calibrated calibrated-found"
SMALL = (
    Part(name=f"{EASY}, mid", recording=EASY, pool="mid", arms=ARMS),
    Part(name=f"{HARD}, mid", recording=HARD, pool="mid", arms=ARMS),
    Part(name=CALLS, recording=CALLS, pool="priced", arms="workers best kind-rule equal-budget"),
    Part(name=f"{HARD}, mid, kinds", recording=HARD, pool="mid", arms=NEW, split="kinds", probes=3),
)


def _of(part: Part) -> Recordings:
    if part.recording == CALLS:
        return with_prices(small_recordings(CALLS, PRICED_MODELS[:4], 1, 96))
    return small_recordings(part.recording, MID, 3 if part.recording == EASY else 1, 48)


async def _measured() -> list[Measured]:
    return [await measure(part, _of(part)) for part in SMALL]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("docs") / "page.md"
    write_page(anyio.run(_measured), path)
    return path


def _files(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.rglob("*.*")}


@pytest.mark.long
def test_the_page_has_each_part_and_is_the_same_each_time(page: Path, tmp_path: Path) -> None:
    """One table, one picture, at most 1,500 words; what is not recorded is a dash, and bounds are marked."""
    write_page(anyio.run(_measured), tmp_path / "page.md")
    assert _files(tmp_path) == _files(page.parent)
    assert _files(tmp_path).keys() == {"page.md", "evidence.svg", "evidence-figures.csv"}
    text = page.read_text("utf-8")
    assert "$" not in text
    assert len(text.split()) <= 1500
    for heading in ("What was asked", "Results", "The table", "What is not known"):
        assert f"\n## {heading}\n" in text
    assert re.search(r"\| kind rule \| \.\d{3} \(\+\.\d{3} to \+\.\d{3}\) \|", text)
    assert re.search(r"\| best single, again if empty \| \.\d{3} [^|]+\| — \|", text)  # one sample on hard
    assert "| any correct, not achievable * |" in text
    assert re.search(r"Calls for each question: 1\.\d\d on easy mid and 1\.\d\d on hard mid\.", text)
    assert re.search(r"Tool calls: the best single worker scores \.\d{3} for \d\.\d\d USD per 1,000", text)


@pytest.mark.long
def test_all_figures_are_in_a_file(page: Path) -> None:
    """A row for each arm and worker of each part; costs only where tokens were recorded."""
    with page.with_name("evidence-figures.csv").open() as file:
        rows = list(DictReader(file))
    assert {(row["recording"], row["split"]) for row in rows} == {
        *((part, "questions") for part in ("easy mid", "hard mid", "tool calls")),
        ("hard mid", "kinds"),
    }
    for row in rows:
        has_cost = row["USD for 1,000"] not in ("", "—")
        assert has_cost is (row["recording"] == "tool calls" and row["score"] != "")
    single = next(row for row in rows if row["arm"] == MID[0] and row["split"] == "questions")
    assert single["empty"] not in ("", "—")


def test_the_front_has_no_arm_that_costs_more_and_scores_less() -> None:
    points = [(2.0, 0.5), (1.0, 0.4), (1.0, 0.3), (3.0, 0.5), (4.0, 0.9)]
    assert pareto(points) == [(1.0, 0.4), (2.0, 0.5), (4.0, 0.9)]


KINDS = ("sums", "verbs", "maps", "dates", "rhymes", "codes")


def small_recordings(name: str, workers: Sequence[str], samples: int, questions: int) -> Recordings:
    """Return questions of six kinds. Each worker is good at one kind, and some answers are empty.

    Tool calls have tokens and seconds, and no texts.
    """
    is_call = name == CALLS
    random = np.random.default_rng(len(workers) + samples)

    def sample(worker: str, number: int, is_right: bool) -> Sample:  # noqa: FBT001 - the drawn answer
        if is_call:
            text = f"(text not recorded) {worker}: {float(is_right)}"
            return Sample(text=text, score=float(is_right), usage=Usage(100 + len(worker), 20), latency_s=1.5)
        text = str(number) if is_right else "" if number % 5 == 0 else f"not {number}, says {worker}"
        return Sample(text=text, score=float(is_right))

    def recordings() -> Iterator[Recording]:
        for number in range(questions):
            kind = KINDS[number % len(KINDS)]
            text = f"{kind}: what is {number}?"
            question = Question(id=f"{name}/{number}", kind=kind, text=text, level=name)
            for place, worker in enumerate(workers):
                rate = 0.9 if place % len(KINDS) == number % len(KINDS) else 0.4
                rights = random.random(samples) < rate
                samples_of = tuple(sample(worker, number, bool(each)) for each in rights)
                yield Recording(question, worker, samples_of)

    source = Provenance(source="https://example.org/recorded", revision="a" * 40, licence="CC0-1.0")
    return Recordings(recordings(), source)


WORKERS = (CHEAP, DEAR, WEAK)


def _recorded(right: Callable[[int, int], bool], *, usage: Usage | None = Usage(100, 10)) -> Recordings:
    rows = [(f"kind {number % 3}", f"kind {number % 3}: what is {number}?") for number in range(60)]
    return made(rows, WORKERS, lambda place, number, _: right(place, number), usage=usage)


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
        replace(each, samples=tuple(replace(one, score=1 - (one.score or 0)) for one in each.samples))
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
