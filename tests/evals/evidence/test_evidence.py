"""Tests of `podium evals evidence` and of the page that it writes."""

import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from csv import DictReader
from dataclasses import replace
from functools import partial
from pathlib import Path
from xml.etree import ElementTree as ET

import anyio
import pytest
from evals.evidence.small_pools import small_recordings, write_folder
from typer.testing import Result

from podium_evals.arms import Arm
from podium_evals.evidence import PARTS, KeptAnswers, Measured, Part, measure, write_page
from podium_evals.evidence.kept import source_digest
from podium_evals.evidence.measuring import ABOVE_BEST, PRICES
from podium_evals.evidence.picture import pareto
from podium_evals.recorded import Recordings
from podium_evals.recorded.public import PRICED as CALLED
from podium_evals.results import fingerprint
from podium_evals.results.pools import CALLS, EASY, HARD, MID
from podium_evals.results.report import OnShare

Podium = Callable[..., Result]
MID_CALLS = CALLED[:4]
ARMS = ("workers", "again", "next-best", "kind-rule", "kind-next-best", "vote-3", "own-3", "any-correct")
KNOWN = Part(name=f"{EASY}, mid", recording=EASY, pool="mid", arms=ARMS)
PRICED = Part(name=CALLS, recording=CALLS, pool="priced", arms=("kind-rule", "equal-budget"), tiers=True)
SMALL = (
    KNOWN,
    Part(name=f"{HARD}, mid", recording=HARD, pool="mid", arms=ARMS),
    PRICED,
    Part(
        name=f"{HARD}, mid, kinds",
        recording=HARD,
        pool="mid",
        arms=("next-best", "vote-3", "calibrated", "calibrated-found"),
        split="kinds",
        probes=3,
    ),
    Part(name="workers", recording=HARD, pool="mid", arms=("vote-3",), split="workers", questions=20),
    Part(name="bundles", recording=HARD, pool="mid", arms=("workers", "kind-rule"), bundles=300),
)


@contextmanager
def _silent(_arms: int) -> Iterator[OnShare]:
    yield lambda _arm, _number, _of: None


def _of(part: Part) -> Recordings:
    if part.recording == CALLS:
        return small_recordings(CALLS, MID_CALLS, 1, 96)
    return small_recordings(part.recording, MID, 3 if part.recording == EASY else 1, 48)


def _measured(folder: Path) -> list[Measured]:
    kept = KeptAnswers(folder)

    async def go() -> list[Measured]:
        return [await measure(part, _of(part), kept, processes=1, told=_silent) for part in SMALL]

    return anyio.run(go)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the answers of the parts are kept, after one measurement."""
    folder = tmp_path_factory.mktemp("kept")
    _measured(folder)
    return folder


@pytest.mark.long
def test_the_page_has_each_part_and_is_the_same_each_time(kept: Path, tmp_path: Path) -> None:
    """One table, one picture, at most 1,500 words; what is not recorded is a dash, and bounds are marked."""
    pages = []
    for name in ("one", "two"):
        measured = _measured(kept)
        write_page(measured, tmp_path / name / "page.md", "make evidence")
        pages.append({each.name: each.read_bytes() for each in (tmp_path / name).rglob("*.*")})
    assert pages[0] == pages[1]
    assert pages[0].keys() == {"page.md", "evidence.svg", "evidence-figures.csv"}
    page = pages[0]["page.md"].decode()
    assert "$" not in page
    assert len(page.split()) <= 1500
    for heading in ("What was asked", "What holds", "The table", "What is not known"):
        assert f"\n## {heading}\n" in page
    assert re.search(r"\| kind rule \| \.\d{3} \(\+\.\d{3} to \+\.\d{3}\) \|", page)
    assert re.search(r"\| best single, again if empty \| \.\d{3} [^|]+\| — \|", page)  # one sample on hard
    assert "| any correct, not achievable * |" in page
    assert re.search(r"It takes 1\.\d\d on easy mid and 1\.\d\d on hard mid calls", page)
    assert re.search(r"Tool calls: the best single has \.\d{3} at \d\.\d\d USD for 1,000 questions", page)
    assert str(tmp_path) not in page
    assert measured[0].report.fingerprint[:16] in page


@pytest.mark.long
def test_all_figures_are_in_a_file(kept: Path, tmp_path: Path) -> None:
    """A row for each arm, worker and tier of each part; costs only where tokens were recorded."""
    measured = _measured(kept)
    write_page(measured, tmp_path / "page.md", "make evidence")
    with (tmp_path / "evidence-figures.csv").open() as file:
        rows = list(DictReader(file))
    assert {(row["recording"], row["split"], row["asked"]) for row in rows} >= {
        ("hard mid", "questions", "bundles"),
        ("hard mid", "workers", "questions"),
        ("tool calls", "questions", "questions"),
    }
    for row in rows:
        has_cost = row["USD for 1,000"] not in ("", "—")
        assert has_cost is (row["recording"] == "tool calls" and row["score"] != "")
    single = next(row for row in rows if row["arm"] == MID[0] and row["split"] == "questions")
    assert single["empty"] not in ("", "—")
    tiers = measured[2].tiers
    assert tiers is not None
    goals = [row for row in rows if row["arm"].startswith("router for")]
    assert len(goals) == len(ABOVE_BEST) + len(PRICES) == len(tiers.tiers) + len(tiers.unreached)
    reached = [row["note"] == "kept" for row in goals if row["score"]]
    assert reached == [
        tier.reached.quality.mean >= tier.goal.value
        if tier.goal.of == "quality"
        else tier.reached.cost.mean <= tier.goal.value
        for tier in tiers.tiers
    ]


@pytest.mark.long
def test_the_picture_is_small_and_says_what_it_shows(kept: Path, tmp_path: Path) -> None:
    """It is well-formed SVG on white, with texts that can be searched, below 150 kB."""
    write_page(_measured(kept), tmp_path / "page.md", "make evidence")
    path = tmp_path / "images" / "evidence.svg"
    assert path.stat().st_size < 150_000
    root = ET.fromstring(path.read_bytes())  # noqa: S314 - written by this test
    text = " ".join(root.itertext())
    for told in ("kind rule", "Pareto front", "best single, next best if empty", "easy mid", "tool calls"):
        assert told in text


@pytest.mark.long
def test_tiers_are_kept(kept: Path, tmp_path: Path) -> None:
    """They are read in place of being measured; a damaged file is measured again."""
    shutil.copytree(kept, tmp_path / "kept")
    recordings, folder = _of(PRICED), KeptAnswers(tmp_path / "kept")
    found = folder.read_tiers(fingerprint(recordings), [ABOVE_BEST, PRICES])
    assert found is not None
    assert found == _measured(tmp_path / "kept")[2].tiers
    assert folder.read_tiers(fingerprint(recordings), [ABOVE_BEST, (1.0,)]) is None
    assert folder.read_tiers("other", [ABOVE_BEST, PRICES]) is None


@pytest.mark.long
@pytest.mark.anyio
async def test_what_was_measured_is_kept(tmp_path: Path) -> None:
    """A second run asks nothing; another arm is asked, and all arms about another recording."""
    asked: list[int] = []

    @contextmanager
    def told(arms: int) -> Iterator[OnShare]:
        asked.append(arms)
        yield lambda _arm, _number, _of: None

    recordings, kept = _of(KNOWN), KeptAnswers(tmp_path)
    first = await measure(KNOWN, recordings, kept, processes=1, told=told)
    second = await measure(KNOWN, recordings, kept, processes=2, told=told)
    assert asked == [15, 0]
    assert first.report.arms == second.report.arms
    assert first.workers == second.workers
    await measure(replace(KNOWN, arms=(*ARMS, "random")), recordings, kept, processes=1, told=told)
    fewer = recordings.where(lambda question: question.id != f"{EASY}/0")
    await measure(KNOWN, fewer, kept, processes=1, told=told)
    assert asked[2:] == [1, 15]


@pytest.mark.long
def test_a_damaged_file_is_measured_again(kept: Path, tmp_path: Path) -> None:
    """It is as if nothing were kept of that arm."""
    shutil.copytree(kept, tmp_path / "kept")
    whole = _measured(tmp_path / "kept")
    for path in (tmp_path / "kept").rglob("*.json"):
        text = path.read_text()
        path.write_text(text[: len(text) // 2])
    again = _measured(tmp_path / "kept")
    assert [each.report.arms for each in again] == [each.report.arms for each in whole]


def test_a_stop_loses_no_arm_that_was_asked(tmp_path: Path) -> None:
    """Each arm is kept as soon as it has been asked everything."""

    class Stopped(Exception):
        pass

    @contextmanager
    def stops(_arms: int) -> Iterator[OnShare]:
        begun: list[Arm] = []

        def told(arm: Arm, _number: int, _of: int) -> None:
            if arm not in begun:
                begun.append(arm)
            if len(begun) == 4:
                raise Stopped

        yield told

    with pytest.raises(Stopped):
        anyio.run(partial(measure, KNOWN, _of(KNOWN), KeptAnswers(tmp_path), processes=1, told=stops))
    assert len(list(tmp_path.rglob("*.json"))) == 3


def test_other_versions_of_the_source_are_forgotten(tmp_path: Path) -> None:
    """They can never be read again."""
    (tmp_path / "0123").mkdir()
    (tmp_path / source_digest()[:16]).mkdir()
    KeptAnswers(tmp_path).forget_others()
    assert [each.name for each in tmp_path.iterdir()] == [source_digest()[:16]]


def test_the_front_has_no_arm_that_costs_more_and_scores_less() -> None:
    """Of arms that cost the same, the best one is on it."""
    points = [(2.0, 0.5), (1.0, 0.4), (1.0, 0.3), (3.0, 0.5), (4.0, 0.9)]
    assert pareto(points) == [(1.0, 0.4), (2.0, 0.5), (4.0, 0.9)]


def test_each_part_has_its_own_name() -> None:
    """Parts are found by it, and each recording has a part with known kinds."""
    assert len({part.name for part in PARTS}) == len(PARTS)
    assert {part.recording for part in PARTS if part.split == "questions" and not part.bundles} == {
        part.recording for part in PARTS
    }


def test_a_missing_recording_is_told_with_the_command_that_fetches_it(podium: Podium, tmp_path: Path) -> None:
    """Before anything is measured."""
    result = podium("evals", "evidence", "--data", str(tmp_path / "none"), "--out", str(tmp_path / "p.md"))
    assert result.exit_code == 2
    told = " ".join(result.stderr.split())
    assert "podium evals record fetch reasoning-gym --level easy --out" in told
    assert "reasoning-gym-easy.jsonl.gz" in told


def test_a_folder_that_cannot_be_created_is_told_first(podium: Podium, tmp_path: Path) -> None:
    """Before minutes are spent."""
    (tmp_path / "file").write_text("")
    result = podium("evals", "evidence", "--data", str(tmp_path), "--kept", str(tmp_path / "file" / "kept"))
    assert (result.exit_code, "cannot be created" in result.stderr) == (2, True)


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_the_command_writes_the_page(podium: Podium, tmp_path: Path) -> None:
    """All parts, on small recordings; the second run asks nothing and writes the same."""
    data, out = write_folder(tmp_path / "data"), tmp_path / "docs" / "page.md"
    options = ("--data", str(data), "--out", str(out), "--kept", str(tmp_path / "kept"), "--processes", "2")
    result = podium("evals", "evidence", *options)
    assert result.exit_code == 0, result.stderr
    assert f"{len(PARTS)} of {len(PARTS)}" in result.stderr
    page = out.read_text()
    assert "## New workers" in page
    assert podium("evals", "evidence", *options).exit_code == 0
    assert out.read_text() == page
    anew = (*options[:-3], str(tmp_path / "other"), "--processes", "1")
    assert podium("evals", "evidence", *anew).exit_code == 0
    assert out.read_text() == page


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_a_killed_command_goes_on(
    podium: Podium, tmp_path: Path, spawn: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """The next run asks only what is missing, and writes the page of a run that was not killed."""
    data = write_folder(tmp_path / "data")

    def options(name: str) -> tuple[str, ...]:
        return (
            "--data",
            str(data),
            "--out",
            str(tmp_path / name / "page.md"),
            "--kept",
            str(tmp_path / "kept" / name),
        )

    kept = tmp_path / "kept" / "killed"
    process = spawn("evals", "evidence", *options("killed"), "--processes", "2")
    until = time.monotonic() + 300
    while len(list(kept.rglob("*.json"))) < 30:
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)
    process.kill()
    process.wait()
    time.sleep(1)  # an arm that was being written
    before = {path: path.stat().st_mtime_ns for path in kept.rglob("*.json")}
    assert not (tmp_path / "killed" / "page.md").exists()
    assert podium("evals", "evidence", *options("killed"), "--processes", "2").exit_code == 0
    after = {path: path.stat().st_mtime_ns for path in kept.rglob("*.json")}
    assert {path: after[path] for path in before} == before
    assert len(after) > len(before)
    assert podium("evals", "evidence", *options("whole"), "--processes", "1").exit_code == 0
    for name in ("page.md", "evidence-figures.csv", "images/evidence.svg"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
