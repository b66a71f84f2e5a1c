"""The command line as a person meets it: a real terminal, and Ctrl-C."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

import pytest
from core.cli.conftest import plans_then_says
from rich.cells import cell_len
from servers import mcp_server
from servers.chat_server import STALL, Call, ChatServer, Reply, chunk, events, says, whole

Spawn = Callable[..., subprocess.Popen[bytes]]
PLAN = '{"worker": 0, "subtask": "Think.", "access": []}\n{"worker": 1, "subtask": "Speak.", "access": [0]}\n'


def stalls(call: Call) -> Reply:
    """Plan, and then never finish a step."""
    if "structured_outputs" in call.body:
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
    """Steps, answer and cost are shown; escape sequences that a worker wrote reach no terminal."""
    server.reply = plans_then_says("forty-two\x1b]0;owned\x07")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    leader, follower = pty.openpty()
    process = spawn("run", "What is it?", terminal=follower)
    os.close(follower)
    said = read_terminal(leader)
    os.close(leader)
    assert process.wait(30) == 0
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", said)
    assert re.search(r"✓ 0 thinker +Think of a number\. +ok +218 +unknown +\d+\.\d s", plain)
    assert re.search(r"✓ 1 speaker +Say it aloud\. +0 +ok +218 +unknown", plain)
    assert plain.index("✓ 1 speaker") < plain.rindex("forty-two")
    assert "\x1b]0;" not in said
    assert "podium: answered by speaker: 2 steps ok, planned by thinker, 654 tokens, cost unknown" in plain
    assert said.count("\x1b[?25l") == said.count("\x1b[?25h"), "the cursor is shown again"


@pytest.mark.long
def test_error_in_the_live_view(spawn: Spawn, config: Path, server: ChatServer) -> None:
    """What is raised while the view is drawn is told in one line, with its exit code."""
    server.reply = lambda call: says(call, "I would rather not.")
    leader, follower = pty.openpty()
    process = spawn("run", "What is it?", terminal=follower)
    os.close(follower)
    said = read_terminal(leader)
    os.close(leader)
    assert process.wait(30) == 1
    assert "its text has no plan" in said
    assert "begins: I would rather not." in said
    assert "Traceback" not in said


@pytest.mark.long
def test_interrupt_in_the_live_view(spawn: Spawn, config: Path, server: ChatServer) -> None:
    """Ctrl-C in a terminal leaves it tidy: cursor shown, one line, no traceback."""
    server.reply = stalls
    leader, follower = pty.openpty()
    process = spawn("run", "What is it?", terminal=follower)
    os.close(follower)
    wait_for(lambda: len(server.calls) == 2)
    process.send_signal(signal.SIGINT)
    said = read_terminal(leader)
    os.close(leader)
    assert process.wait(30) == 130
    assert "podium: interrupted" in said
    assert "Traceback" not in said
    assert said.count("\x1b[?25l") == said.count("\x1b[?25h")
    wait_for(server.calls[1].hung_up.is_set)


@pytest.mark.long
def test_interrupt_of_a_tool(spawn: Spawn, config: Path, tmp_path: Path, server: ChatServer) -> None:
    """Ctrl-C also ends a run whose MCP server does not react, as any other run."""
    log = tmp_path / "log.txt"
    args = json.dumps([mcp_server.__file__, str(log)])
    table = (
        f'\n[workers.test]\ntype = "mcp"\ncommand = "{sys.executable}"\nargs = {args}\ntools = ["freeze"]\n'
    )
    config.write_text(config.read_text() + table)
    plan = '{"worker": "test.freeze", "subtask": "for long", "access": []}'
    server.reply = lambda call: says(call, plan)
    process = spawn("run", "What is it?")
    wait_for(log.exists)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, b"")
    assert re.fullmatch(rb"podium: interrupted\npodium: continue with `podium resume \w+`\n", err)


@pytest.mark.long
def test_reader_that_leaves_is_no_traceback(spawn: Spawn, config: Path) -> None:
    """Of a pipe that is closed early nothing is said, and the exit code is that of the answer."""
    process = spawn("run", "What is it?", "--json")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait(30) == 0


LINK = (
    "https://status.example.com/incidents/2026/a-very-long-path-that-no-terminal-has-room-for/details?id=42"
)
TASKS = ["Find the prices", "価格表を調べて要約する：ボルトとナット", "Break", "Needs step 2", "Needs step 3"]
SEES: list[list[int]] = [[], [], [], [2], [3], *([[0]] * 8), [1, 4, *range(5, 13)]]


def fourteen_steps(call: Call) -> Reply:
    """Plan fourteen steps, of which the third fails."""
    if "structured_outputs" in call.body:
        tasks = [*TASKS, *(f"Write part {number}" for number in range(5, 13)), "Join"]
        rows = ({"worker": 0, "subtask": task, "access": SEES[step]} for step, task in enumerate(tasks))
        return says(call, "".join(json.dumps(row) + "\n" for row in rows))
    if "Your part:\nBreak" in call.body["messages"][-1]["content"]:
        return whole({"error": {"message": f"see {LINK}"}}, status=400)
    return says(call, "done")


@pytest.mark.long
def test_long_plan_at_a_width(
    spawn: Spawn, config: Path, server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step is one line with aligned columns; notes name the root cause, and no URL is broken."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "40")
    server.reply = fourteen_steps
    leader, follower = pty.openpty()
    process = spawn("run", "What is it?", terminal=follower)
    os.close(follower)
    said = read_terminal(leader)
    os.close(leader)
    assert process.wait(30) == 3
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", said).replace("\r", "\n")
    lines = plain[plain.rindex("  step ") :].splitlines()
    steps = [line for line in lines if re.match(r"[✓✗-] \d+ +thinker ", line)]
    assert [int(line.split()[1]) for line in steps] == list(range(14))
    assert all(cell_len(line) <= 80 for line in steps)
    parts = [re.split(r" (ok|failed|skipped)\b", line) for line in steps]  # before, state, after
    assert len({cell_len(before) for before, _, _ in parts}) == 1
    assert [state for _, state, _ in parts[:6]] == ["ok", "ok", "failed", "skipped", "skipped", "ok"]
    assert parts[3][2].strip() == "", "a skipped step has no tokens and no time"
    assert len({cell_len(line.rstrip()) for line in steps if " ok " in line}) == 1
    told = [line for line in lines if line.startswith("step")]
    assert told == ["steps 3, 4 skipped: step 2 failed"]
    assert sum(LINK in line for line in lines) == 1
    summary = next(line for line in lines if line.startswith("podium: "))
    assert summary.startswith(
        "podium: partial answer by thinker: 11 steps ok, 1 failed, 2 skipped, planned by"
    )


@pytest.mark.long
def test_plan_is_drawn_while_it_is_written(spawn: Spawn, config: Path, server: ChatServer) -> None:
    """Steps that cannot start yet are shown as waiting before the plan is whole, in their place."""
    head, rest = PLAN.splitlines(keepends=True)
    third = '{"worker": 1, "subtask": "Sing.", "access": [0, 1]}\n'

    def reply(call: Call) -> Reply:
        if "structured_outputs" in call.body:
            return events(*(chunk({"content": text}) for text in (head, rest, third)), STALL)
        return events(chunk({"content": "so far"}), STALL)

    server.reply = reply
    leader, follower = pty.openpty()
    process = spawn("run", "What is it?", terminal=follower)
    os.close(follower)
    wait_for(lambda: len(server.calls) == 2)
    sleep(0.5)
    process.send_signal(signal.SIGINT)
    said = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", read_terminal(leader))
    os.close(leader)
    assert process.wait(30) == 130
    waiting = r"0 thinker +Think\. +running.*?· 1 … +Speak\. +waiting.*?· 2 … +Sing\. +waiting"
    assert re.search(waiting, said, re.DOTALL)
