"""Commands that go on with recorded runs: `resume`, `decide`."""

import json
import os
import pty
import re
import select
import shlex
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

import pytest
from core.cli.conftest import PLAN, plans_then_says
from core.cli.test_journal_commands import run_id
from servers.chat_server import STALL, Call, ChatServer, Reply, chunk, events, says, whole
from typer.testing import Result

Podium = Callable[..., Result]
Spawn = Callable[..., subprocess.Popen[bytes]]


def plans(call: Call) -> bool:
    return "structured_outputs" in call.body


def asked(server: ChatServer) -> list[str]:
    """Return what each call was asked, in short: `plan`, or the step's number."""
    told = [call.body["messages"][-1]["content"] for call in server.calls]
    names = (
        "plan" if plans(call) else str(int("Step 0" in text))
        for call, text in zip(server.calls, told, strict=True)
    )
    return sorted(names)


def last_step_down(call: Call) -> Reply:
    if plans(call):
        return says(call, PLAN)
    is_last = "Step 0" in call.body["messages"][-1]["content"]
    return whole({"error": {"message": "no"}}, status=400) if is_last else says(call, "seven")


def test_run_without_a_plan_is_resumed_by_asking_the_planner_anew(
    podium: Podium, config: Path, server: ChatServer
) -> None:
    server.reply = lambda call: whole({"error": {"message": "wrong key"}}, status=401)
    failed = podium("run", "What is it?", "--json")
    said = json.loads(failed.stdout)
    assert (failed.exit_code, said["status"], said["answer"]) == (1, "failed", "")
    assert said["problem"]["code"] == "planner_refused"
    assert [call["planner"] for call in said["proposals"]] == ["thinker"]
    known = re.search(r"podium resume (\w+)", failed.stderr)
    assert known is not None
    assert "there is no plan: planner 'thinker': worker_refused" in failed.stderr
    shown = podium("show", known[1]).stdout
    assert "there is no plan" in shown
    assert f"next: continue the run with `podium resume {known[1]}`" in shown
    server.reply = lambda call: says(call, PLAN if plans(call) else "forty-two")
    resumed = podium("resume", known[1], "--json")
    said = json.loads(resumed.stdout)
    assert (resumed.exit_code, said["status"], said["answer"]) == (0, "ok", "forty-two")
    assert said["planner"] == {"name": "thinker", "why": "", "is_fallback": False}
    assert len(said["proposals"]) == 2


def test_failed_run_is_resumed_without_paying_twice(podium: Podium, config: Path, server: ChatServer) -> None:
    server.reply = last_step_down
    failed = podium("run", "What is it?")
    assert (failed.exit_code, failed.stdout) == (1, "")
    known = run_id(failed)
    assert f"podium resume {known[:12]}" in failed.stderr
    server.calls.clear()
    server.reply = lambda call: says(call, PLAN if plans(call) else "forty-two")
    resumed = podium("resume", known[:12])
    assert (resumed.exit_code, resumed.stdout, asked(server)) == (0, "forty-two\n", ["1"])
    assert json.loads(podium("show", known, "--json").stdout)["state"] == "ok"


def test_a_resumed_run_is_refreshed(podium: Podium, config: Path, server: ChatServer) -> None:
    """An answer that was made without an item is kept until `--refresh`, which the hint names."""
    is_down = [True]

    def reply(call: Call) -> Reply:
        text = call.body["messages"][-1]["content"]
        if plans(call):
            look = {"worker": 0, "subtask": "{{item}}", "access": [], "each": ["Fail.", "Look."]}
            join = {"worker": 1, "subtask": "Join them.", "access": [0]}
            return says(call, f"{json.dumps(look)}\n{json.dumps(join)}\n")
        if "Fail." in text and "Join" not in text and is_down[0]:
            return whole({"error": {"message": "no"}}, status=400)
        return says(call, "joined" if "Join" in text else "seen")

    server.reply = reply
    failed = podium("run", "What is it?", "--run-id", "job")
    assert failed.exit_code == 3
    assert "retry the failed steps with `podium resume job --refresh`" in failed.stderr
    is_down[0] = False
    for options, code, calls in (((), 3, 1), (("--refresh",), 0, 1), ((), 0, 0)):
        server.calls.clear()
        resumed = podium("resume", "job", *options)
        assert (resumed.exit_code, resumed.stdout, len(server.calls)) == (code, "joined\n", calls)
        assert ("with `podium resume job --refresh`" in resumed.stderr) == (code == 3)


@pytest.mark.long
def test_interrupted_run_is_resumed(podium: Podium, spawn: Spawn, config: Path, server: ChatServer) -> None:
    server.reply = stalls
    process = spawn("run", "What is it?")
    wait_for(lambda: len(server.calls) == 2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    told = err.decode().splitlines()
    assert (process.returncode, out, told[0]) == (130, b"", "podium: interrupted")
    wait_for(server.calls[1].hung_up.is_set)
    known = re.fullmatch(r"podium: continue with `podium resume (\w+)`", told[1])
    assert known is not None
    server.calls.clear()
    server.reply = lambda call: says(call, "forty-two")
    assert podium("resume", known[1]).stdout == "forty-two\n"
    assert "plan" not in asked(server)


@pytest.fixture
def waiting(podium: Podium, config: Path, server: ChatServer) -> str:
    config.write_text(config.read_text() + '[policy]\napprove = "later"\n')
    result = podium("run", "What is it?")
    assert (result.exit_code, result.stdout) == (4, "")
    assert " approve`" in result.stderr
    assert asked(server) == ["plan"]
    return run_id(result)


def test_approved_out_of_band(podium: Podium, waiting: str, server: ChatServer) -> None:
    shown = podium("show", waiting).stdout
    assert "waits for approval" in shown
    assert f"next: `podium decide {waiting[:12]} approve` or `podium decide" in shown
    assert "Expected: " in shown
    assert all(text not in shown for text in ("Actual: ", "cancelled"))
    assert podium("resume", waiting).exit_code == 4
    change = ("--step", "0", "--subtask", "Think of a prime.")
    assert podium("decide", waiting, "approve", "--by", "Ann", *change).exit_code == 0
    assert (asked(server), podium("resume", waiting).stdout) == (["plan"], "forty-two\n")
    assert asked(server) == ["0", "1", "plan"]
    assert "approved with changes by Ann" in podium("show", waiting).stdout
    assert not any("Think of a number." in str(call.body["messages"][-1]) for call in server.calls[1:])


def at_a_terminal(spawn: Spawn, typed: str, *args: str) -> tuple[int, str]:
    """Run a command at a terminal where this is typed; return how it left and what it showed."""
    leader, follower = pty.openpty()
    process = spawn(*args, terminal=follower)
    os.close(follower)
    os.write(leader, f"{typed}\n".encode())
    said = read_terminal(leader)
    os.close(leader)
    return process.wait(30), said


def test_replay_calls_what_depends_on_a_change(podium: Podium, config: Path, server: ChatServer) -> None:
    known = run_id(podium("run", "What is it?"))
    server.calls.clear()
    said = json.loads(podium("resume", known, "--replay", "--json").stdout)
    assert (said["answer"], said["cost"], said["usage"]["input_tokens"]) == ("forty-two", 0.0, 0)
    assert said["run_id"] != known
    assert not server.calls
    assert json.loads(podium("show", said["run_id"], "--json").stdout)["recalls"] == known
    assert f"reuses run {known[:12]}" in podium("show", said["run_id"]).stdout
    server.reply = lambda call: says(call, "forty-three")
    for change in (("--step", "1", "--subtask", "Whisper it."), ("--plan", "plan.json")):
        Path("plan.json").write_text(PLAN.replace("Say it aloud.", "Shout it."))
        server.calls.clear()
        changed = podium("resume", known, "--replay", *change)
        assert (changed.stdout, len(server.calls)) == ("forty-three\n", 1)


WRONG_CHANGES = [
    (("--step", "0"), "--step needs"),
    (("--step", "0", "--subtask", "x", "--edit"), "exclude each other"),
    (("--step", "1.0", "--subtask", "x"), "there is no step 1.0: the steps are 0, 1"),
    (("--step", "0", "--worker", "nobody"), "the workers are thinker, speaker"),
    (("--edit",), "the editor"),
]


def test_change_that_cannot_be(podium: Podium, config: Path, server: ChatServer) -> None:
    known = run_id(podium("run", "What is it?"))
    server.calls.clear()
    for change, told in WRONG_CHANGES:
        result = podium("resume", known, "--replay", *change, env={"VISUAL": "no-such-editor"})
        assert (result.exit_code, told in result.stderr) == (2, True), result.stderr
    assert not server.calls


def editor(path: Path, old: str, new: str) -> str:
    """Write an editor that replaces a text in the file it is given; return its command."""
    path.write_text(
        f"import sys\np = sys.argv[1]\nt = open(p).read().replace({old!r}, {new!r})\nopen(p, 'w').write(t)"
    )
    return f"python3 {path}"


@pytest.mark.long
@pytest.mark.parametrize(("typed", "code"), [("n", 1), ("?\nmaybe\ne\ny", 0)])
def test_plan_is_approved_at_the_terminal(
    spawn: Spawn, config: Path, server: ChatServer, monkeypatch: pytest.MonkeyPatch, typed: str, code: int
) -> None:
    """The plan is shown with what it may cost before it runs, and may be edited; `?` explains each answer."""
    config.write_text(f'{config.read_text()}[policy]\napprove = "later"\n')
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("VISUAL", editor(Path("edit.py"), "Think of a number.", "Think of a prime."))
    left, said = at_a_terminal(spawn, typed, "run", "What is it?", "--approve")
    assert left == code
    assert all(text in said for text in ("Run this plan?", "Expected: "))
    assert asked(server) == (["plan"] if code else ["0", "1", "plan"])
    assert any("Think of a prime." in str(call.body) for call in server.calls) is (code == 0)
    if not code:
        assert all(text in said for text in ("e, edit  change", "'maybe' is not an answer"))


def test_approval_needs_a_terminal(podium: Podium, waiting: str, server: ChatServer) -> None:
    """With nobody to ask, nothing is started."""
    server.calls.clear()
    for command in (("run", "What is it?"), ("resume", waiting)):
        result = podium(*command, "--approve")
        assert result.exit_code == 2
        assert "terminal" in result.stderr
    assert not server.calls


def test_a_limit_is_raised(podium: Podium, config: Path, server: ChatServer) -> None:
    limited = podium("run", "What is it?", "--run-id", "orders of Monday", "--steps", "1")
    found = re.search(r"`podium (resume 'orders of Monday' --steps N)`", limited.stderr)
    assert found is not None
    kept = podium("resume", "orders of Monday")
    assert kept.exit_code == limited.exit_code == 1
    assert "podium: the run keeps its original limits: steps 1" in kept.stderr
    assert podium(*shlex.split(found[1].replace(" N", " 2"))).stdout == "forty-two\n"
    again = podium("resume", "orders of Monday")
    assert again.stdout == "forty-two\n"
    assert "the run is complete: this is its recorded answer, and nothing is called" in again.stderr


def stalls(call: Call) -> Reply:
    """Plan, and then never finish a step."""
    if plans(call):
        return says(call, PLAN)
    return events(chunk({"content": "so far"}), STALL) if call.body.get("stream") else Reply((STALL,))


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until `condition` holds, half a minute at most."""
    end = monotonic() + 30
    while not condition():
        assert monotonic() < end, "it did not happen"
        sleep(0.02)


def read_terminal(fd: int) -> str:
    """Return all that is written to a terminal until its other side is closed."""
    said = b""
    while select.select([fd], [], [], 30)[0]:
        try:
            piece = os.read(fd, 65536)
        except OSError:  # Linux says so when the last writer has left
            break
        if not piece:
            break
        said += piece
    return said.decode()


@pytest.mark.long
def test_live_view(spawn: Spawn, config: Path, server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.reply = plans_then_says("forty-two\x1b]0;owned\x07")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    left, said = at_a_terminal(spawn, "", "run", "What is it?")
    assert left == 0
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", said)
    assert re.search(r"✓ 0 thinker +Think of a number\. +ok +218 +unknown +\d+\.\d s", plain)
    assert re.search(r"✓ 1 speaker +Say it aloud\. +0 +ok +218 +unknown", plain)
    assert plain.index("✓ 1 speaker") < plain.rindex("forty-two")
    assert "\x1b]0;" not in said
    assert "podium: answered by speaker: 2 steps ok, planned by thinker, 654 tokens, cost unknown" in plain
    assert said.count("\x1b[?25l") == said.count("\x1b[?25h"), "the cursor is shown again"
