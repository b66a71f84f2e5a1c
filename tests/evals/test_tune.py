"""`podium evals tune`: what pays for a pool, in five lines, and written into podium.toml."""

import json
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from evals.made import NOTHING, SUMS, VERBS, two_specialists, written
from servers.chat_server import Call, ChatServer, Reply, says
from typer.testing import Result

from podium.config import load_config
from podium.workers.rates import read_measured
from podium_evals.arms import ArmResult
from podium_evals.errors import ArmUnfit
from podium_evals.results.tuning import Wish, choose
from podium_evals.router.config import Settings, edited, write_settings
from podium_evals.statistics import Difference, Interval

Podium = Callable[..., Result]
CONFIG = """# my workers
[endpoints.loopback]
base_url = "{url}"
provider = "vllm"

[workers]
adder = {{ endpoint = "loopback", model = "adder", price = {{ input = 1, output = 1 }} }}
poet = {{ endpoint = "loopback", model = "poet", price = {{ input = 1, output = 1 }} }}

[workers.sums]
type = "calculator"

[planner]
type = "rule"

# at most
[limits]
calls = 50
"""
WORDS = (
    *("sun", "moon", "star", "tree", "rain", "snow", "wind", "fire", "lake", "hill"),
    *("road", "door", "wall", "roof", "salt", "milk", "corn", "gold", "iron", "sand"),
)


def _rows(count: int) -> str:
    sums = ((f"Add the numbers {n} and 7.", n + 7, "sums", "number") for n in range(10, 10 + count))
    poems = "Which rhyme has the poem on {}?"
    rhymes = ((poems.format(word), word[::-1], "rhymes", "exact") for word in WORDS[:count])
    keys = ("question", "answer", "kind", "grader")
    rows = (dict(zip(keys, row, strict=True)) for row in (*sums, *rhymes))
    return "".join(json.dumps(row) + "\n" for row in rows)


def _specialist(call: Call) -> Reply:
    """Answer as the model that is asked can; the poet has no text for a sum."""
    text = call.body["messages"][-1]["content"]
    is_sum, words = "Add the numbers" in text, text.splitlines()[-1].rstrip("?.").split()
    if call.body["model"] == "adder":
        number = text.partition("Add the numbers ")[2].split()[0] if is_sum else "0"
        return says(call, str(int(number) + 7) if is_sum and int(number) >= 14 else "odd")
    word = text.partition("the poem on ")[2].partition("?")[0]
    return says(call, "" if is_sum else (word or words[-1])[::-1])


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(_specialist).in_thread() as serving:
        yield serving


@pytest.fixture
def config(server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a config with the two specialists and a calculator, and forty questions."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.jsonl").write_text(_rows(20))
    path = tmp_path / "podium.toml"
    path.write_text(CONFIG.format(url=server.url))
    return path


@pytest.mark.long
def test_a_few_questions_to_live_workers(podium: Podium, config: Path, server: ChatServer) -> None:
    """Five lines; the file is written, a run follows it, and a second command calls no model."""
    result = podium("evals", "tune", "mine.jsonl")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    names = [line.partition(":")[0] for line in lines]
    assert names == ["Base", "Pays", "Is not shown to pay", "Not measured", "Chosen"]
    assert "the other half (poet on all questions), score .500" in lines[0]
    assert "50.0 % empty" in lines[0]
    assert "best single, next best if empty +" in lines[1]
    assert "again if empty" in lines[3]  # one sample of each answer
    assert "Maximum cost" in result.stderr
    found = tomllib.loads(config.read_text())
    assert found["planner"] == {"type": "tuned", "ask": ["poet"], "by_kind": True}
    assert found["retry"] == {"next_best": ["poet", "adder"], "ask_again": False}
    assert (found["pool"], found["limits"]) == ({"measured": "measured.json"}, {"calls": 50})
    assert all(each in config.read_text() for each in ("# my workers", "# at most\n[limits]"))
    assert 'type = "rule"' in config.with_name("podium.toml.before-tune").read_text()
    assert set(read_measured(config.with_name("measured.json")).kinds) == {"sums", "rhymes"}
    asked = len(server.calls)
    for question, answer, models in (
        ("Add the numbers 90 and 7.", "97", ["adder"]),
        ("Which rhyme has the poem on hats?", "stah", ["poet"]),
        ("Please sum up: Add the numbers 91 and 7 for the poem on ants?", "98", ["poet", "adder"]),
    ):
        run = podium("run", question)
        assert run.exit_code == 0, run.stderr
        assert run.stdout.strip().endswith(answer) or models[0] == "poet"
        assert [call.body["model"] for call in server.calls[asked:]][-1] in models
        asked = len(server.calls)
    again = podium("evals", "tune", "mine.jsonl", "--dry-run")
    assert (again.stdout, len(server.calls)) == (result.stdout, asked)


def test_what_was_not_asked_is_told(podium: Podium, config: Path, server: ChatServer) -> None:
    """A budget that ends: nothing is written, and the next command asks for the rest."""
    (config.parent / "mine.jsonl").write_text(_rows(6))
    first = podium("evals", "tune", "mine.jsonl", "--calls", "20")
    assert first.exit_code == 3, first.stderr
    assert "answers were not asked for" in first.stderr
    assert "wrote nothing: repeat the command" in first.stderr
    assert len(server.calls) <= 20
    written = {each.name for each in config.parent.glob("*.*")}
    assert written == {"podium.toml", "mine.jsonl", "mine.answers.jsonl"}
    second = podium("evals", "tune", "mine.jsonl", "--dry-run", "--json")
    assert second.exit_code == 0, second.stderr
    told = json.loads(second.stdout)
    assert (told["questions"], told["written"], len(told["lines"])) == (12, [], 5)
    assert "a router is fitted on at least 20 questions: there are 6, and 6 are held out" in told["lines"][3]
    assert config.read_text() == CONFIG.format(url=server.url)


def test_a_recording_is_tuned(podium: Podium, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a config of these workers nothing is written; with one, its planner chooses by kind."""
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path, two_specialists())
    told = podium("evals", "tune", path)
    assert told.exit_code == 0, told.stderr
    assert "no podium.toml here has the workers of the recording" in told.stderr
    tables = "".join(f'[workers.{name}]\ntype = "gather"\n' for name in (VERBS, SUMS, NOTHING))
    config = tmp_path / "podium.toml"
    config.write_text(tables + '[planner]\ntype = "rule"\n')
    result = podium("evals", "tune", path, "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    chosen = "best of the kind, next best if empty"
    assert (found["chosen"], found["written"]) == (chosen, ["podium.toml", "measured.json"])
    assert load_config(config).conductor() is not None


def _result(name: str, score: float, low: float | None, calls: float, cost: float | None = None) -> ArmResult:
    gain = None if low is None else Interval(low + 0.02, low, low + 0.04)
    difference = None if gain is None else Difference(alone=gain, together=gain)
    interval = Interval(score, score - 0.02, score + 0.02)
    given: Any = {
        "name": name,
        "achievable": True,
        "questions": 9,
        "recorded": 9,
        "calls": calls,
        "cost": cost,
    }
    return ArmResult(**given, score=interval, difference=difference)


@pytest.mark.parametrize(
    ("wish", "chosen", "why"),
    [
        (Wish(), "repair", "the fewest calls"),
        (Wish(calls=1.0), "best single", "no other way is shown to be better"),
        (Wish(quality=0.6), "repair", "the cheapest whose lower bound reaches 0.6"),
        (Wish(quality=0.9), "repair", "no lower bound reaches 0.9; the highest lower bound"),
    ],
)
def test_the_lower_bound_decides_and_then_the_calls(wish: Wish, chosen: str, why: str) -> None:
    """A bound that is better by less than .01 is not worth two calls; what is not shown is not chosen."""
    results: Sequence[ArmResult] = (
        _result("best single", 0.55, None, 1.0),
        _result("repair", 0.63, 0.05, 1.3),
        _result("vote", 0.64, 0.055, 3.0),
        _result("router", 0.57, -0.01, 1.0),
    )
    found, told = choose(results, wish)
    assert (found.name, why in told) == (chosen, True)


def test_a_price_below_the_best_single_takes_what_fits() -> None:
    """The best lower bound of a score within the price; none within it is an error."""
    results = [_result("best single", 0.8, None, 1.0, 0.01), _result("cheap", 0.7, -0.2, 1.0, 0.001)]
    assert choose(results, Wish(price=0.002))[0].name == "cheap"
    with pytest.raises(ArmUnfit, match="allow more"):
        choose(results, Wish(price=0.0001))


def test_comments_stay_where_they_are() -> None:
    """Above the planner, among its keys, behind them, within a value that goes, and in an inner table."""
    text = """# top
[workers.a]
model = "m"

# chosen in May
[planner]
# why a rule
type = "rule" # cheap
worker = "a#b"  # the best
hints = [
  "x # y", # one
]

[planner.sampling]
seed = 1 # hot

# at most
[limits]
calls = 50 # fifty
"""
    settings = Settings(ask=("a",), by_kind=True)
    once = edited(text, settings)
    top, _, bottom = text.partition("[planner]")
    planner = """# Written by `podium evals tune`.
[planner]
# why a rule
type = "tuned"  # cheap
ask = ["a"]
by_kind = true
# the best
# one

# hot

"""
    rest = bottom[bottom.index("# at most") :]
    assert once == top + planner + rest + '\n[pool]\nmeasured = "measured.json"\n'
    assert edited(once, settings) == once


def test_what_a_person_wrote_is_kept(config: Path) -> None:
    """Their order of workers, if the way needs none; their file, also after a second tuning."""
    own = config.read_text() + '[retry]\nnext_best = ["speaker"]  # mine\n'
    config.write_text(own)
    copy = config.with_name("podium.toml.before-tune")
    for best, order in ((("thinker", "speaker"), ["thinker", "speaker"]), ((), None)):
        write_settings(Settings(ask=("thinker",)), load_config(config))
        assert tomllib.loads(config.read_text())["retry"] == {"next_best": ["speaker"]}
        config.write_text(own)
        write_settings(Settings(ask=("thinker",), next_best=best), load_config(config))
        assert tomllib.loads(config.read_text())["retry"]["next_best"] == (order or ["speaker"])
        write_settings(Settings(ask=("speaker",)), load_config(config))
        assert copy.read_text() == own
        config.write_text(own)
