"""`podium evals calibrate`: a few graded answers of each worker become rates on its card."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from servers.chat_server import Call, ChatServer, Pause, Reply, says, whole
from typer.testing import Result

from podium.conductor import Conductor
from podium.config import load_config
from podium.workers import Card, Kind, MeasuredRate
from podium.workers.rates import read_measured
from podium_evals.calibration import with_measured

Podium = Callable[..., Result]
CONFIG = """
[endpoints.loopback]
base_url = "{url}"
provider = "vllm"

[workers.adder]
endpoint = "loopback"
model = "adder"
price = {{ input = 1, output = 1 }}

[workers.poet]
endpoint = "loopback"
model = "poet"
price = {{ input = 1, output = 1 }}

[workers.sums]
type = "calculator"

[planner]
type = "rule"
"""
WORDS = ("sun", "moon", "star", "tree", "rain", "snow", "wind", "fire", "lake", "hill")


def rows(count: int = 5) -> str:
    """Return sums, which the adder can do, and rhymes, which the poet can find."""
    sums = (
        {"question": f"Add the numbers {n} and 7.", "answer": n + 7, "kind": "sums"}
        for n in range(10, 10 + count)
    )
    rhymes = (
        {"question": f"Which rhyme has the poem on {word}?", "answer": word[::-1], "kind": "rhymes"}
        for word in WORDS[:count]
    )
    return "".join(json.dumps(row) + "\n" for row in (*sums, *rhymes))


def specialist(call: Call) -> Reply:
    """Answer as the model that is asked can."""
    asked = call.body["messages"][-1]["content"]
    words = asked.rstrip("?.").split()
    if call.body["model"] == "adder":
        return says(call, f"The answer is {int(words[3]) + 7 if words[0] == 'Add' else 'odd'}.")
    return says(call, f"The answer is {words[-1][::-1]}.")


@pytest.fixture
def server() -> Iterator[ChatServer]:
    """Serve two specialists."""
    with ChatServer(specialist).in_thread() as serving:
        yield serving


@pytest.fixture
def config(server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a config with the two specialists and a calculator, and ten questions."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new.jsonl").write_text(rows())
    path = tmp_path / "podium.toml"
    path.write_text(CONFIG.format(url=server.url))
    return path


def calibrated(podium: Podium, *options: str, exit_code: int = 0) -> dict[str, Any]:
    """Calibrate on the questions, and return the report."""
    result = podium("evals", "calibrate", "new.jsonl", *options, "--json")
    assert result.exit_code == exit_code, result.stderr
    told: dict[str, Any] = json.loads(result.stdout)
    return told


@pytest.mark.usefixtures("config")
def test_workers_are_measured_by_kind(podium: Podium, server: ChatServer) -> None:
    """The table names the best worker; tools are not asked; the file says where each figure is from."""
    result = podium("evals", "calibrate", "new.jsonl", "--all")
    assert result.exit_code == 0, result.stderr
    told = " ".join(result.stdout.split())
    assert "sums: 5 questions, measured on 20" in told
    assert "adder 5 of 5 0.68 0.34 to 0.93 0.0011" in told
    assert "poet 0 of 5" in told
    assert "Best: adder, with probability" in told
    assert "Best: poet, with probability" in told
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "not asked, because they are tools: sums" in result.stderr
    assert "20 calls at $0.0044; 0 answers were recorded before" in result.stderr
    assert 'write measured = "measured.json" under [pool]' in result.stderr
    assert len(server.calls) == 20
    found = read_measured("measured.json").kinds["sums"]
    assert (found.rates["adder"].right, found.rates["poet"].right) == (5, 0)
    assert len(found.questions) == 5


@pytest.mark.usefixtures("config")
def test_nothing_is_asked_twice(podium: Podium, server: ChatServer) -> None:
    """The same command again finds the same rates, for nothing."""
    first = calibrated(podium)
    asked = len(server.calls)
    second = calibrated(podium)
    assert (second["calls"], second["cost"], second["reused"]) == (0, 0, first["calls"])
    assert second["kinds"] == first["kinds"]
    assert len(server.calls) == asked == first["calls"]


@pytest.mark.usefixtures("config")
def test_the_best_are_asked_most(podium: Podium) -> None:
    """A worker that is no longer likely to be the best is asked no more; all are asked the first question."""
    Path("new.jsonl").write_text(rows(10))
    told = calibrated(podium)
    assert told["calls"] < 40
    for kind, worse in (("sums", "poet"), ("rhymes", "adder")):
        rates = told["kinds"][kind]["rates"]
        assert 1 <= rates[worse]["answers"] < 10
        assert told["kinds"][kind]["best"] != worse
    assert calibrated(podium, "--all")["calls"] == 40 - told["calls"]


def test_the_conductor_uses_the_rates(podium: Podium, config: Path) -> None:
    """On the cards, in the choice of the rule, and in the prompt of a planner."""
    calibrated(podium)
    config.write_text(config.read_text() + '\n[pool]\nmeasured = "measured.json"\n')
    made = load_config(config).conductor()
    assert isinstance(made, Conductor)
    assert [rate.kind.name for rate in made.pool.cards[1].measured] == ["sums", "rhymes"]
    result = podium("run", "Which rhyme has the poem on clouds?", "--json")
    assert json.loads(result.stdout)["outcomes"][0]["worker"] == "poet"
    planned = podium("plan", "Which rhyme has the poem on clouds?")
    assert "poet for its kind 'rhymes'" in " ".join(planned.stdout.split() + planned.stderr.split())


@pytest.mark.usefixtures("config")
def test_a_corrected_answer_is_graded_again_for_nothing(podium: Podium) -> None:
    """The whole answers are recorded."""
    Path("new.jsonl").write_text(rows().replace('"answer": 17,', '"answer": 90,'))
    wrong = calibrated(podium, "--all")
    assert wrong["kinds"]["sums"]["rates"]["adder"]["right"] == 4
    Path("new.jsonl").write_text(rows())
    right = calibrated(podium, "--all")
    assert (right["calls"], right["kinds"]["sums"]["rates"]["adder"]["right"]) == (0, 5)
    assert right["kinds"]["sums"]["fingerprint"] != wrong["kinds"]["sums"]["fingerprint"]


@pytest.mark.usefixtures("config")
def test_other_kinds_stay_and_become_the_prior(podium: Podium) -> None:
    """What a worker reached on other kinds is expected of it on a new one."""
    calibrated(podium, "--all")
    text = "".join(json.dumps({"question": f"Double {n}.", "answer": 2 * n}) + "\n" for n in range(3))
    Path("doubles.jsonl").write_text(text)
    result = podium(
        "evals", "calibrate", "doubles.jsonl", "--kind", "doubling", "--grader", "number", "--json"
    )
    told = json.loads(result.stdout)["kinds"]
    assert list(told) == ["doubling"]
    measured = read_measured("measured.json").kinds
    assert list(measured) == ["sums", "rhymes", "doubling"]
    assert measured["doubling"].rates["adder"].prior == pytest.approx(6 / 12)
    assert measured["sums"].rates["adder"].prior < 6 / 12  # it is no poet, and it does not double


@pytest.mark.usefixtures("config")
def test_a_changed_model_is_asked_again(podium: Podium, config: Path) -> None:
    """Its old rates on other kinds are left out, and said to be."""
    calibrated(podium, "--all")
    config.write_text(
        config.read_text().replace('model = "adder"', 'model = "adder"\nsampling = { seed = 1 }')
    )
    Path("new.jsonl").write_text("".join(rows().splitlines(keepends=True)[:5]))
    told = calibrated(podium, "--all")
    assert (told["calls"], told["reused"]) == (5, 5)
    assert told["stale"] == [{"worker": "adder", "kind": kind} for kind in ("sums", "rhymes")]
    assert list(read_measured("measured.json").kinds["rhymes"].rates) == ["poet"]


@pytest.mark.usefixtures("config")
def test_the_budget_holds(podium: Podium) -> None:
    """No call is made whose worst case does not fit; the next command goes on."""
    tight = calibrated(podium, "--all", "--calls", "7", exit_code=3)
    assert tight["calls"] == 7
    assert "calls" in tight["stopped"]
    found = calibrated(podium, "--all", "--budget", "0.005", exit_code=3)
    assert 0 < found["cost"] <= 0.005
    assert found["cost"] == pytest.approx(found["calls"] * 218e-6)
    assert "cost" in found["stopped"]
    rest = calibrated(podium, "--all", "--budget", "1")
    assert rest["calls"] == 20 - 7 - found["calls"]


def slowly(call: Call) -> Reply:
    """Answer after a while."""
    return Reply([Pause(0.15), *specialist(call).parts])


@pytest.mark.long
@pytest.mark.usefixtures("config")
def test_a_killed_calibration_goes_on(
    podium: Podium, server: ChatServer, spawn: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """Recorded answers are not paid for again, and the rates are those of a fresh calibration."""
    server.reply = slowly
    process = spawn("evals", "calibrate", "new.jsonl", "--at-once", "2")
    answers, until = Path("measured.answers.jsonl"), time.monotonic() + 30
    while not (answers.exists() and answers.read_text().count('"type": "sample"') >= 5):
        assert time.monotonic() < until
        time.sleep(0.02)
    process.kill()
    process.wait()
    assert not Path("measured.json").exists()
    kept = answers.read_text().count('"type": "sample"')
    told = calibrated(podium)
    assert kept - 1 <= told["reused"] <= kept
    assert len(server.calls) <= told["reused"] + told["calls"] + 3
    fresh = calibrated(podium, "--answers", "fresh.jsonl", "--out", "fresh.json")
    assert (fresh["calls"], fresh["kinds"]) == (told["calls"] + told["reused"], told["kinds"])


@pytest.mark.usefixtures("config")
def test_a_worker_that_fails_is_told(podium: Podium, server: ChatServer) -> None:
    """The others are measured; the same command asks it again."""

    def reply(call: Call) -> Reply:
        return whole({"error": "no"}, status=400) if call.body["model"] == "poet" else specialist(call)

    server.reply = reply
    result = podium("evals", "calibrate", "new.jsonl")
    assert result.exit_code == 3
    assert "2 failed: worker_refused" in result.stderr
    assert list(read_measured("measured.json").kinds["sums"].rates) == ["adder"]
    server.reply = specialist
    assert list(calibrated(podium, "--all")["kinds"]["sums"]["rates"]) == ["adder", "poet"]


@pytest.mark.usefixtures("config")
def test_a_grader_of_your_own(podium: Podium) -> None:
    """A function of a module in the current folder; it needs no right answers."""
    Path("mine_to_grade.py").write_text("def short(row, text):\n    return 1 if len(text) < 18 else 0.5\n")
    Path("new.jsonl").write_text(rows().replace('"answer"', '"other"'))
    told = calibrated(podium, "--grader", "mine_to_grade:short", "--all")
    assert told["kinds"]["sums"]["rates"]["adder"]["right"] == pytest.approx(5)
    Path("mine_wrong.py").write_text(
        "def high(row, text):\n    return 7\n\ndef broken(row, text):\n    row['x']\n"
    )
    for name, why in (
        ("mine_wrong:high", "returned 7.0: a score is a number from 0 to 1"),
        ("mine_wrong:broken", "failed on the question 'Add the numbers 10 and 7.': KeyError: 'x'"),
        ("mine_wrong:none", "has no function 'none'"),
        ("mine_missing:f", "cannot be imported: ModuleNotFoundError"),
    ):
        result = podium("evals", "calibrate", "new.jsonl", "--grader", name)
        assert (result.exit_code, why in result.stderr) == (2, True), result.stderr


@pytest.mark.usefixtures("config")
@pytest.mark.parametrize(
    ("content", "options", "told"),
    [
        ("", (), "new.jsonl has no questions"),
        ("{}\n", (), "line 1 has no text under `question`"),
        ("nonsense\n", (), "line 1 is not JSON"),
        (rows().replace('"answer"', '"other"'), (), "has no right answer, which the grader needs"),
        (rows(), ("--grader", "vibes"), "--grader 'vibes' is unknown: use one of exact, number"),
        (rows(), ("--grader", "number"), "is not a number: choose another grader"),
        (rows(), ("--worker", "nobody"), "--worker 'nobody' is not a worker of"),
        (rows(), ("--kind", " "), "--kind ' ': use printable characters"),
        (rows(), ("--out", "new.jsonl"), "is not a file of measured rates"),
        (rows(), ("--answers", "podium.toml"), "podium.toml"),
        (rows(), ("--config", "none.toml"), "none.toml"),
    ],
)
def test_wrong_input_is_told_before_anything_is_paid(
    podium: Podium, server: ChatServer, content: str, options: tuple[str, ...], told: str
) -> None:
    """In a line, without a traceback."""
    Path("new.jsonl").write_text(content)
    result = podium("evals", "calibrate", "new.jsonl", *options)
    assert (result.exit_code, server.calls) == (2, []), result.stderr
    assert told in result.stderr
    assert "Traceback" not in result.stderr


def test_measured_rates_shift_the_predictions_of_a_router() -> None:
    """A prediction weighs as much as three answers; a worker without one has its rate."""
    kind = Kind("rhymes", ("Which rhyme has the poem on sun?",))

    def card(name: str, right: float, answers: int) -> Card:
        rate = MeasuredRate(
            kind=kind, rate=0.6, low=0, high=1, right=right, answers=answers, measured_on=date(2026, 11, 22)
        )
        return Card(name=name, measured=(rate,))

    cards = (card("a", 0, 6), card("b", 3, 3), card("new", 2, 3), Card(name="other"))
    predicted = {"a": 0.9, "b": 0.5, "other": 0.7}
    shifted = with_measured(predicted, cards, "Which rhyme has the poem on clouds?")
    assert shifted == pytest.approx({"a": 2.7 / 9, "b": 4.5 / 6, "new": 0.6, "other": 0.7})
    assert with_measured(predicted, cards, "Who wrote Faust?") == predicted
