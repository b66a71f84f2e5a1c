"""`podium evals record`: from questions and a pool."""

import json
import signal
import subprocess
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from evals.test_cassette import adds
from servers.chat_server import STALL, Call, ChatServer, Reply, says
from typer.testing import Result

from podium.workers import Price
from podium_evals.recorded import read_recordings, recorded_pool

Podium = Callable[..., Result]
Spawn = Callable[..., subprocess.Popen[bytes]]
ASK = ("evals", "record", "ask", "--out", "r.jsonl")


@pytest.fixture(autouse=True)
def _adds(server: ChatServer) -> None:
    server.reply = adds


@pytest.fixture
def sums(config: Path) -> Path:
    path = config.parent / "sums.jsonl"
    rows = [{"question": f"What is {n} + {n}?", "answer": 2 * n, "kind": "sums"} for n in range(6)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_pool_is_asked(podium: Podium, sums: Path, server: ChatServer) -> None:
    """Each worker, once; another time nothing is missing."""
    asking = (*ASK, str(sums), "--grader", "number")
    result = podium(*asking)
    assert result.exit_code == 0, result.stderr
    told = "recorded 12 answers in r.jsonl, with 12 calls at an unknown cost; 0 were recorded before"
    assert told in result.stderr
    read = read_recordings("r.jsonl")
    assert (read.workers, read.kinds) == (("thinker", "speaker"), ("sums",))
    assert {recording.score for recording in read} == {1.0}
    assert {call.body["messages"][-1]["content"] for call in server.calls} == {q.text for q in read.questions}
    again = podium(*asking, "--json")
    assert (again.exit_code, json.loads(again.stdout)["already"], len(server.calls)) == (0, 12, 12)


def test_prices_are_recorded(podium: Podium, sums: Path, config: Path, server: ChatServer) -> None:
    """Without a call if the answers are there; a changed price is recorded with its day."""
    asking = (*ASK, str(sums), "--worker", "thinker")
    assert podium(*asking).exit_code == 0
    assert recorded_pool(read_recordings("r.jsonl"))[0].card.price is None
    text = config.read_text()
    for price in (1.5, 2.5, 2.5):
        priced = f"[workers.thinker]\nprice = {{ input = {price}, output = 6 }}\n"
        config.write_text(text.replace("[workers.thinker]\n", priced))
        assert podium(*asking).exit_code == 0
        card = recorded_pool(read_recordings("r.jsonl"))[0].card
        assert card.price == Price(input=price, output=6)
        assert card.price_source.startswith("the worker's card, price of 2")
    assert len(server.calls) == 6
    assert Path("r.jsonl").read_text().count('"type": "price"') == 2


def test_the_cost_is_forecast(podium: Podium, sums: Path, server: ChatServer) -> None:
    """Without a call and a file; the most that the missing answers can cost needs prices."""
    asking = (*ASK, str(sums), "--worker", "thinker")
    dry = podium(*asking, "--dry-run")
    assert (dry.exit_code, dry.stdout, server.calls, Path("r.jsonl").exists()) == (0, "", [], False)
    assert "6 answers to ask for. Maximum cost, without repeated calls: unknown, because" in dry.stderr
    assert podium(*asking).exit_code == 0
    assert "all answers are recorded" in podium(*asking, "--dry-run").stderr


def test_a_budget_stops_it_and_the_next_time_goes_on(podium: Podium, sums: Path) -> None:
    """With the exit code of a partial answer."""
    asking = (*ASK, str(sums), "--worker", "thinker")
    result = podium(*asking, "--calls", "4", "--json")
    told = json.loads(result.stdout)
    assert (result.exit_code, told["recorded"], told["left"], told["calls"]) == (3, 4, 2, 4)
    shown = podium(*asking, "--calls", "1")
    assert (shown.exit_code, "repeat the command to ask for the missing answers" in shown.stderr) == (3, True)
    assert "podium: 1 answers were not asked for: " in shown.stderr
    assert "the command has 0 calls left of its 1 call: raise --calls" in shown.stderr
    assert podium(*asking).exit_code == 0
    assert len(list(read_recordings("r.jsonl"))) == 6


def test_wrong_options_are_told(podium: Podium, sums: Path) -> None:
    for option, value, told in (
        ("--grader", "vibes", "--grader 'vibes' is unknown: use one of exact, number"),
        ("--worker", "nobody", "--worker 'nobody' is not a worker of"),
    ):
        result = podium(*ASK, str(sums), option, value)
        assert (result.exit_code, told in result.stderr) == (2, True)


@pytest.mark.long
@pytest.mark.timeout(300)  # on a busy machine, processes start slowly
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_killed_recording_goes_on(
    podium: Podium, sums: Path, server: ChatServer, spawn: Spawn, number: signal.Signals
) -> None:
    """What was recorded is not paid for again: only calls in flight at the kill are."""
    asked, waits = count(1), threading.Event()

    def six(call: Call) -> Reply:
        this = next(asked)
        if this == 8:
            waits.set()
        return adds(call) if this <= 6 else Reply([STALL])

    server.reply = six
    asking = (*ASK, str(sums), "--at-once", "2", "--samples", "2")
    process = spawn(*asking)
    while not waits.wait(1):
        assert process.poll() is None, process.communicate()
    process.send_signal(number)
    _, stderr = process.communicate()
    assert (b"repeat the command" in stderr) is (number == signal.SIGINT)
    server.reply = adds
    result = podium(*asking, "--json")
    told = json.loads(result.stdout)
    assert (result.exit_code, told["recorded"], told["already"], len(server.calls)) == (0, 18, 6, 24 + 2)
    assert all(len(recording.samples) == 2 for recording in read_recordings("r.jsonl"))


def test_questions_say_how_they_are_graded(podium: Podium, config: Path, server: ChatServer) -> None:
    """By `grader` in each row; `--grader` overrides it, and `none` records whole texts."""
    rows = [{"question": "What is 2 + 2?", "answer": "4", "grader": "math"}, {"question": "What is 3 + 3?"}]
    Path("q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    asking = (*ASK, "q.jsonl", "--worker", "thinker")
    assert podium(*asking).exit_code == 0
    found = {each.question.text: each.samples[0] for each in read_recordings("r.jsonl")}
    assert {text: (each.text, each.score) for text, each in found.items()} == {
        "What is 2 + 2?": ("4", 1.0),
        "What is 3 + 3?": ("The answer is 6.", None),
    }
    assert podium(*asking, "--out", "none.jsonl", "--grader", "none").exit_code == 0
    assert {each.samples[0].score for each in read_recordings("none.jsonl")} == {None}


@pytest.mark.long
def test_code_is_run_with_permission_alone(podium: Podium, config: Path, server: ChatServer) -> None:
    """Before anything is asked, the command says how to give it."""
    server.reply = lambda call: says(call, "```python\nprint(2 * int(input()))\n```")
    tests = {"type": "stdin", "cases": [{"input": "3\n", "output": "6\n"}]}
    row = {"question": "Double it.", "tests": tests, "grader": "code"}
    Path("q.jsonl").write_text(json.dumps(row) + "\n")
    asking, allowed = (*ASK, "--worker", "thinker"), ("--run-code", "python3")
    refused = podium(*asking, "q.jsonl")
    assert (refused.exit_code, server.calls) == (2, [])
    assert "allow it with --run-code python3" in refused.stderr
    assert podium(*asking, "q.jsonl", *allowed).exit_code == 0
    server.calls.clear()
    Path("bare.jsonl").write_text('{"question": "Halve it."}\n')
    bare = podium(*asking, "bare.jsonl", "--grader", "code", *allowed)
    assert (bare.exit_code, server.calls) == (2, [])
    assert "'Halve it.' has no `tests` to grade code by" in bare.stderr
    (found,) = read_recordings("r.jsonl")
    assert (found.score, found.samples[0].text) == (1.0, "print(2 * int(input()))")
