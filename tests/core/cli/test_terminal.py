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
from servers import mcp_server
from servers.chat_server import STALL, Call, ChatServer, Reply, chunk, events, says

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
