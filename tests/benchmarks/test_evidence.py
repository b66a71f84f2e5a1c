"""The page of results on recorded answers."""

import re
from csv import DictReader
from pathlib import Path

import anyio
import pytest

from benchmarks.evidence.measuring import Measured, Part, measure
from benchmarks.evidence.page import pareto, write_page
from benchmarks.evidence.recordings import CALLS, EASY, HARD, MID, PRICED_MODELS, with_prices
from podium_evals.recorded import Recordings
from tests.benchmarks.small_pools import small_recordings

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
