"""`podium train router`, its functions, and `[planner]` of type `router`."""

import csv
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from core.cli.conftest import config, podium, server
from typer.testing import Result

from podium.usage import Usage
from podium_evals.errors import RouterInvalid
from podium_evals.recorded import Question, Recording, Recordings, Sample, write_recordings
from podium_evals.results.pools import MID, read_pool
from podium_evals.router import (
    Goal,
    Router,
    choose,
    draw_curve,
    expected_calibration_error,
    find_kinds,
    quality_curve,
    train_router,
)
from podium_evals.router.score_table import ScoreTable

__all__ = ["config", "podium", "server"]
Podium = Callable[..., Result]
CHEAP, DEAR = "google_gemma-3-27b-it", "anthropic_claude-sonnet-4"
TASKS = {
    "add": "Add {} and 7.",
    "verb": "Conjugate the verb number {}.",
    "map": "Which city lies at {} degrees?",
}


def recorded(
    *,
    knows: dict[str, set[str]] | None = None,
    kind: str | None = None,
    names: tuple[str, str] = (CHEAP, DEAR),
) -> Recordings:
    """Return 120 questions of three kinds: the cheap worker knows verbs, the dear one all but verbs.

    Args:
        knows: other kinds that the workers know.
        kind: the kind of all questions, for those that carry none.
        names: the names of the workers.
    """
    known = knows or {CHEAP: {"verb"}, DEAR: {"add", "map"}}

    def answers() -> Iterator[Recording]:
        for number in range(120):
            task = list(TASKS)[number % 3]
            question = Question(id=f"q{number}", kind=kind or task, text=TASKS[task].format(number))
            for worker, name in zip((CHEAP, DEAR), names, strict=True):
                is_right = task in known[worker]
                sample = Sample(text="right" if is_right else f"{name} is wrong", score=float(is_right))
                yield Recording(
                    question, name, (Sample(text=sample.text, score=sample.score, usage=Usage(50, 50)),)
                )

    return Recordings(answers())


ALL = {CHEAP: {"verb"}, DEAR: {"add", "verb", "map"}}
"""The dear worker knows all."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working folder, with a recording."""
    monkeypatch.chdir(tmp_path)
    write_recordings(recorded(), tmp_path / "mine.jsonl")
    return tmp_path


def test_what_was_learned_is_shown(podium: Podium, folder: Path) -> None:
    """On stdout; the router is a file that plans."""
    result = podium("train", "router", "mine.jsonl", "--output", "router.npz")
    assert result.exit_code == 0, result.stderr
    told = " ".join(result.stdout.split())
    assert "120 questions of 3 kinds; data " in told
    assert re.search(rf"{DEAR} \.666 [\d.]+ 0\.0\d\d", told)
    assert "Mean calibration error: 0.0" in told
    assert re.search(rf"On 60 questions the router gains \+\.\d+ to \+\.\d+ over {DEAR}\.", told)
    assert "questions of new kinds" in told
    assert "podium: wrote router.npz" in result.stderr
    assert Router.load("router.npz").facts.workers == (CHEAP, DEAR)
    assert [path.name for path in folder.glob("*router*")] == ["router.npz"]


def test_no_gain_is_said(podium: Podium, tmp_path: Path) -> None:
    """Where one worker is the best at all."""
    path = tmp_path / "r.jsonl"
    write_recordings(recorded(knows=ALL), path)
    result = podium("train", "router", str(path), "-o", str(tmp_path / "router.npz"))
    assert result.exit_code == 0, result.stderr
    assert f"no gain over {DEAR} is shown (+.000 to +.000). For such questions, use {DEAR} alone." in (
        " ".join(result.stdout.split())
    )


@pytest.mark.long
def test_a_report_for_programs(podium: Podium, folder: Path) -> None:
    """All figures, unrounded; and the curve in three forms."""
    curves = ("curve.json", "curve.csv", "curve.svg")
    options = [option for name in curves for option in ("--curve", name)]
    result = podium("train", "router", "mine.jsonl", "-o", "r.npz", "--quality", "0.9", *options, "--json")
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert told["rates"]["verb"] == {CHEAP: 1.0, DEAR: 0.0}
    assert told["counts"] == {"add": 40, "map": 40, "verb": 40}
    assert [gain["new"] for gain in told["gains"]] == ["questions", "kinds"]
    assert told["tier"]["reached"]["quality"]["mean"] >= 0.9
    assert Router.load("r.npz").facts.worth == told["tier"]["chosen"]["worth"]
    assert json.loads(Path("curve.json").read_text())["curve"] == told["curve"]
    rows = list(csv.DictReader(Path("curve.csv").read_text().splitlines()))
    assert [row["name"] for row in rows[-2:]] == [CHEAP, DEAR]
    assert float(rows[0]["cost"]) == told["curve"][0]["cost"]["mean"]
    drawing = Path("curve.svg").read_text()
    assert "USD for 1,000 questions" in drawing
    assert CHEAP in drawing


def test_a_tier_for_a_price() -> None:
    """The best that can be had for it; a dear worker for every question is too much."""
    training = train_router(recorded(knows=ALL), goal=Goal("price", 0.0007))
    tier = training.report.tier
    assert tier is not None
    assert tier.chosen.cost.mean <= 0.0007
    cheapest, best = training.report.curve[0], training.report.curve[-1]
    assert cheapest.quality.mean < tier.reached.quality.mean <= best.quality.mean
    assert cheapest.cost.mean < tier.reached.cost.mean < best.cost.mean


@pytest.mark.parametrize(
    ("goal", "told"),
    [
        (Goal("quality", 1.0), r"no tier reaches a quality of 1 .*: the best is 0\.\d+, at \$"),
        (Goal("price", 1e-9), r"no tier costs \$1e-09 a question or less .*: the cheapest costs \$"),
    ],
)
def test_a_goal_out_of_reach_is_refused(goal: Goal, told: str) -> None:
    """With what can be reached."""
    with pytest.raises(RouterInvalid, match=told):
        train_router(recorded(knows={CHEAP: {"verb"}, DEAR: {"add"}}), goal=goal)


@pytest.mark.long
def test_kinds_are_found_where_questions_carry_none() -> None:
    """By their words; each found kind has questions of one task."""
    found = find_kinds(recorded(kind="journal"))
    assert len(found.kinds) == 8  # the square root of 60
    tasks = {q.kind: {text.split()[0] for text in (q.text,)} for q in found.questions}
    for question in found.questions:
        assert tasks[question.kind] == {question.text.split()[0]}
    assert find_kinds(recorded(kind="journal")).questions == found.questions
    report = train_router(recorded(kind="journal")).report
    assert (report.kinds_are_found, report.kinds) == (True, 8)
    assert [gain.new for gain in report.gains] == ["questions", "clusters"]
    assert "of new clusters" in report.gains[1].sentence
    assert not train_router(recorded()).report.kinds_are_found


def test_texts_that_are_alike_are_one_kind() -> None:
    """Clusters of nothing are not made up."""
    same = Recordings(
        Recording(Question(id=f"{n}", kind="k", text="x " * (n + 1)), "a", (Sample(text="y", score=1.0),))
        for n in range(50)
    )
    assert len(find_kinds(same).kinds) == 1


def test_the_calibration_error_is_the_distance_of_predictions_and_scores() -> None:
    """In each tenth."""
    scores = np.array([0.0, 1.0, 1.0, 1.0])
    assert expected_calibration_error(np.full(4, 0.75), scores) == pytest.approx(0)
    assert expected_calibration_error(np.full(4, 0.35), scores) == pytest.approx(0.4)
    assert expected_calibration_error(np.array([1.0, 0.0, 0.0, 0.0]), scores) == pytest.approx(1)


@pytest.mark.long
def test_calibration_brings_predictions_nearer() -> None:
    """Of a ridge regression, on the half that it was not fitted on: the mean of all workers."""
    odds = {"always": 0.97, "often": 0.75, "seldom": 0.2}

    def answers() -> Iterator[Recording]:
        for number in range(600):
            words = np.random.default_rng(number).choice(["red", "green", "blue", "grey", "pink"], 3)
            question = Question(id=f"q{number}", kind="k", text=f"{' '.join(words)} {number % 97}")
            for place, (worker, odd) in enumerate(odds.items()):
                luck = np.random.default_rng([number, place]).random()
                is_right = luck < (odd if "red" in words else odd / 2)
                yield Recording(question, worker, (Sample(text="x", score=float(is_right)),))

    workers = train_router(Recordings(answers())).report.workers
    before = np.mean([worker.calibration_error_before for worker in workers])
    assert np.mean([worker.calibration_error for worker in workers]) < before


def test_the_choice_weighs_price_against_prediction() -> None:
    """Of equal workers the cheapest is chosen."""
    predicted = np.array([[0.5, 0.6, 0.6]])
    costs = (0.001, 0.01, 0.005)
    assert choose(predicted, costs).tolist() == [2]
    assert choose(predicted, costs, 1.0).tolist() == [2]
    assert choose(predicted, costs, 0.01).tolist() == [0]
    assert choose(predicted, (None, 0.01, None)).tolist() == [1]


def test_a_curve_needs_prices() -> None:
    """And a router without them has none."""
    table = ScoreTable.of(recorded(names=("mine", "yours")))
    with pytest.raises(RouterInvalid, match="the price of 'mine' is not known"):
        quality_curve(table, table.scores, costs=table.mean_costs)
    assert train_router(recorded(names=("mine", "yours"))).report.curve == ()


def test_a_drawing_needs_matplotlib(podium: Podium, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lack is told before anything is fitted, with how to install it."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = podium("train", "router", "mine.jsonl", "-o", "r.npz", "--curve", "c.svg")
    assert result.exit_code == 2
    assert "./packages/evals[figures]" in result.stderr
    assert not Path("r.npz").exists()


@pytest.mark.long
def test_a_drawing_is_readable_on_light_and_dark_pages(tmp_path: Path) -> None:
    """It has no background, and its colours have enough contrast with white and with black."""
    draw_curve(train_router(recorded()).report, tmp_path / "c.svg")
    drawing = (tmp_path / "c.svg").read_text()
    assert not re.search(r"fill: #(ffffff|000000)(?!; (?:fill-)?opacity: 0)", drawing)
    for colour in set(re.findall(r"(?:fill|stroke): (#\w{6})", drawing)):
        light = sum(
            weight * ((part / 255 + 0.055) / 1.055) ** 2.4
            for weight, part in zip((0.2126, 0.7152, 0.0722), bytes.fromhex(colour[1:]), strict=True)
        )
        if colour != "#ffffff":
            assert 1.05 / (light + 0.05) >= 2.9, colour
            assert (light + 0.05) / 0.05 >= 2.9, colour


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("none.jsonl",), "'none.jsonl' is neither a file nor a public recording"),
        (("mine.jsonl", "--pool", "mid"), "the recording has no worker 'mid'"),
        (("mine.jsonl", "--pool", CHEAP), "2 workers: there are 60 questions and 1 workers"),
        (("mine.jsonl", "--quality", "0.5", "--price", "1"), "--quality and --price both choose a tier"),
        (("mine.jsonl", "--quality", "7"), "--quality"),
        (
            ("mine.jsonl", "--pool", "all", "--config", "p.toml"),
            "--pool and --config both choose the workers",
        ),
        (("mine.jsonl", "--config", "none.toml"), "none.toml cannot be read"),
        (("mine.jsonl", "--curve", "c.txt"), "must end in .json, .csv, .svg"),
        (("mine.jsonl", "--curve", "no/c.csv"), "there is no folder no"),
        (("mine.jsonl", "--output", "."), "is a folder: give the path of a file"),
        (("mine.jsonl", "--output", "no/r.npz"), "there is no folder no"),
        (("text.txt",), "text.txt"),
        (("ungraded.jsonl",), "no answer in the recording has a score: record with --grader"),
        (("apart.jsonl",), "no question has a graded answer of each of a, b"),
        (("few.jsonl",), "training needs at least 40 graded questions"),
    ],
)
def test_wrong_input_is_refused(podium: Podium, folder: Path, options: tuple[str, ...], told: str) -> None:
    """With what to do, and without a file."""
    few = list(recorded())[:60]
    question = Question(id="q", kind="k", text="?")
    write_recordings(Recordings(few), "few.jsonl")
    bare = Recordings([Recording(question, name, (Sample(text="x"),)) for name in "ab"])
    write_recordings(bare, "ungraded.jsonl")
    other = Question(id="o", kind="k", text="!")
    graded = (Sample(text="x", score=1.0),)
    write_recordings(
        Recordings([Recording(question, "a", graded), Recording(other, "b", graded)]), "apart.jsonl"
    )
    Path("text.txt").write_text("no recording\n")
    default = () if "--output" in options else ("-o", "r.npz")
    result = podium("train", "router", *options, *default)
    assert result.exit_code in (1, 2)
    assert told in " ".join(re.sub(r"[│╭╮╰╯─]", " ", result.stderr).split())
    assert not Path("r.npz").exists()
    assert "Traceback" not in result.stderr


@pytest.mark.long
def test_several_files_are_one_recording(podium: Podium, folder: Path) -> None:
    """What is left out is told."""
    whole = list(recorded())
    extra = Recording(
        Question(id="x", kind="add", text="Add 1 and 1."), CHEAP, (Sample(text="2", score=1.0),)
    )
    write_recordings(Recordings(whole[:100]), "one.jsonl")
    write_recordings(Recordings([*whole[100:], extra]), "two.jsonl")
    result = podium("train", "router", "one.jsonl", "two.jsonl", "-o", "r.npz")
    assert result.exit_code == 0, result.stderr
    assert "podium: 1 questions are left out, because some workers have no graded answer" in result.stderr
    assert Router.load("r.npz").facts.fingerprint == train_router(recorded()).router.facts.fingerprint


TOML = """
[endpoints.lab]
base_url = "{url}"
provider = "vllm"
{workers}
[planner]
type = "router"
path = "router.npz"
{more}
"""
WORKER = """
[workers.{name}]
endpoint = "lab"
model = "{name}"
price = {{ input = {price}, output = {price} }}
"""


@pytest.fixture
def own(folder: Path, podium: Podium, server: object) -> Path:
    """Return a config whose workers were recorded and whose planner is a router of theirs."""
    write_recordings(recorded(names=("small", "large")), "own.jsonl")
    path = folder / "own.toml"
    workers = WORKER.format(name="small", price=0.1) + WORKER.format(name="large", price=10)
    path.write_text(TOML.format(url=server.url, workers=workers, more=""))  # type: ignore[attr-defined]
    result = podium("train", "router", "own.jsonl", "--config", "own.toml", "-o", "router.npz")
    assert result.exit_code == 0, result.stderr
    return path


@pytest.mark.long
def test_a_router_is_the_planner_of_a_config(own: Path, podium: Podium) -> None:
    """`check`, `plan` and `run` work with it; its costs are those of the config."""
    assert Router.load("router.npz").facts.costs == (pytest.approx(1e-5), pytest.approx(1e-3))
    checked = podium("check", "--config", str(own))
    assert checked.exit_code == 0, checked.stdout
    assert "router" in checked.stdout
    for question, worker in (("Add 500 and 7.", "large"), ("Conjugate the verb number 900.", "small")):
        planned = podium("plan", "--config", str(own), question)
        assert planned.exit_code == 0, planned.stderr
        assert worker in planned.stdout
        run = podium("run", "--config", str(own), "--no-journal", "--json", question)
        assert run.exit_code == 0, run.stderr
        assert [step["worker"] for step in json.loads(run.stdout)["outcomes"]] == [worker]


def test_a_vote_brings_the_worker_that_counts(own: Path, podium: Podium) -> None:
    """It is no table of the file."""
    own.write_text(own.read_text() + 'strategy = "vote"\nvoters = 2\n')
    checked = podium("check", "--config", str(own))
    assert checked.exit_code == 0, checked.stdout
    run = podium("run", "--config", str(own), "--no-journal", "--json", "Add 500 and 7.")
    assert run.exit_code == 0, run.stderr
    assert [step["worker"] for step in json.loads(run.stdout)["outcomes"]] == ["large", "small", "vote"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (('path = "router.npz"', 'path = "none.npz"'), "'path' in [planner]: "),
        (('path = "router.npz"', 'path = "own.jsonl"'), "is not a router"),
        (('path = "router.npz"', ""), "[planner] lacks 'path': add it"),
        (
            ('path = "router.npz"', 'path = "router.npz"\nstrategy = "guess"'),
            "'strategy' in [planner] is 'guess'",
        ),
        (
            ('path = "router.npz"', 'path = "router.npz"\nthreshold = 0.7'),
            "unknown key 'threshold' in [planner]",
        ),
        (
            ('path = "router.npz"', 'path = "router.npz"\nvoters = 1\nstrategy = "vote"'),
            "'voters' in [planner] is 1",
        ),
        (('path = "router.npz"', 'path = "router.npz"\nvoters = 3'), "'voters' in [planner] has no effect"),
        (('path = "router.npz"', 'path = "router.npz"\nworth = 0'), "'worth' in [planner] is 0"),
        (('path = "router.npz"', 'path = "router.npz"\nstrategy = "value"'), "'value' needs worth"),
        (
            ("workers.large", "workers.huge"),
            "router.npz was trained for small, large, but there is no [workers.large]",
        ),
    ],
)
def test_what_is_wrong_in_the_planner_names_its_key(
    own: Path, podium: Podium, change: tuple[str, str], told: str
) -> None:
    """With its line."""
    own.write_text(own.read_text().replace(*change))
    result = podium("plan", "--config", str(own), "Add 500 and 7.")
    assert result.exit_code == 2
    stderr = " ".join(result.stderr.split())
    assert told in stderr
    assert re.search(r"own\.toml:\d+: ", stderr)


def test_commands_that_read_the_journal_do_not_load_the_router(own: Path, podium: Podium) -> None:
    """Nor need its file."""
    Path("router.npz").unlink()
    assert podium("runs", "--config", str(own)).exit_code == 0


@pytest.mark.long
@pytest.mark.anyio
@pytest.mark.skipif("PODIUM_EVALS_DATA" not in os.environ, reason="there is no folder with real recordings")
@pytest.mark.parametrize(("level", "least"), [("easy", 0.06), ("hard", 0.07)])
async def test_on_real_recordings_a_router_gains(level: str, least: float) -> None:
    """Over the best single of the mid pools, on new questions."""
    recording = f"reasoning-gym-{level}"
    mid = await read_pool(recording, ",".join(MID), folder=Path(os.environ["PODIUM_EVALS_DATA"]))
    report = train_router(mid).report
    assert report.gains[0].difference.low > least
    assert all(worker.calibration_error < 0.08 for worker in report.workers)
