"""Routers that weigh prices, and routers as planners of a config."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from core.cli.conftest import config, podium, server
from evals.listed_prices import LISTED
from typer.testing import Result

from podium.usage import Usage
from podium_evals.errors import RouterInvalid
from podium_evals.recorded import (
    Question,
    Recording,
    Recordings,
    Sample,
    read_recordings,
    write_recordings,
)
from podium_evals.router import fit_router
from podium_evals.router.router import Goal, choose, fit_for

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

    return Recordings(answers(), prices=LISTED)


ALL = {CHEAP: {"verb"}, DEAR: {"add", "verb", "map"}}
"""The dear worker knows all."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("goal", "asked"),
    [
        (Goal("price", 0.0007), {"add": DEAR, "verb": CHEAP}),
        (Goal("quality", 0.9), {"add": DEAR, "verb": CHEAP}),
    ],
)
def test_a_router_for_a_goal(goal: Goal, asked: dict[str, str]) -> None:
    """The best that can be had for a price, and the cheapest with a quality."""
    router = fit_for(goal, recorded(knows=ALL))
    assert router.facts.worth is not None
    costs = router.facts.costs
    for task, worker in asked.items():
        predicted = router.predict_all([TASKS[task].format(7)])
        assert router.facts.workers[choose(predicted, costs, router.facts.worth)[0]] == worker


def test_a_price_out_of_reach_is_refused() -> None:
    with pytest.raises(RouterInvalid, match=r"no tier reaches a quality of 1.5"):
        fit_for(Goal("quality", 1.5), recorded(knows=ALL))
    with pytest.raises(
        RouterInvalid, match=r"no tier costs \$1e-09 a question or less .*: the cheapest costs \$"
    ):
        fit_for(Goal("price", 1e-9), recorded(knows={CHEAP: {"verb"}, DEAR: {"add"}}))


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
def own(folder: Path, server: object) -> Path:
    """Return a config whose workers were recorded and whose planner is a router of theirs."""
    write_recordings(recorded(names=("small", "large")), "own.jsonl")
    path = folder / "own.toml"
    workers = WORKER.format(name="small", price=0.1) + WORKER.format(name="large", price=10)
    path.write_text(TOML.format(url=server.url, workers=workers, more=""))  # type: ignore[attr-defined]
    fit_router(read_recordings("own.jsonl")).save("router.npz")
    return path


@pytest.mark.long
def test_a_router_is_the_planner_of_a_config(own: Path, podium: Podium) -> None:
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


@pytest.mark.long
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (('path = "router.npz"', 'path = "none.npz"'), "'path' in [planner]: "),
        (('path = "router.npz"', 'path = "own.jsonl"'), "is not a router"),
        (
            ("workers.large", "workers.huge"),
            "router.npz was trained for small, large, but there is no [workers.large]",
        ),
    ],
)
def test_what_is_wrong_in_the_planner_names_its_key(
    own: Path, podium: Podium, change: tuple[str, str], told: str
) -> None:
    own.write_text(own.read_text().replace(*change))
    result = podium("plan", "--config", str(own), "Add 500 and 7.")
    assert result.exit_code == 2
    stderr = " ".join(result.stderr.split())
    assert told in stderr
    assert re.search(r"own\.toml:\d+: ", stderr)
