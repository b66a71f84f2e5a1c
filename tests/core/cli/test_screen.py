"""What the command line shows of secrets, of bugs, and of what others wrote."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from servers.chat_server import ChatServer, says, whole
from typer.testing import Result

Podium = Callable[..., Result]
KEY = "sk-loopback-0123456789"


def test_a_key_is_hidden(podium: Podium, config: Path, server: ChatServer) -> None:
    """A server quotes it in its refusal, or a model writes it: it is not on the screen."""
    server.reply = lambda call: whole({"error": {"message": f"bad key {KEY}"}}, status=401)
    for args in ("run Why?", "check --json"):
        result = podium(*args.split())
        assert result.exit_code == 1
        assert KEY not in result.output
    plan = '{"worker": 0, "subtask": "go", "access": []}'
    said = f"Your key is {KEY}"
    server.reply = lambda call: says(call, plan if "structured_outputs" in call.body else said)
    result = podium("run", "Why?", "--json")
    assert KEY not in result.output
    assert "[secret]" in result.output


def test_control_characters_reach_no_pipe(podium: Podium, config: Path, server: ChatServer) -> None:
    """What models wrote steers no terminal behind a pipe either, and JSON gives it back whole."""
    attack = "a\x1b]0;owned\x07\x9b31m\x7f\x08b\r\nc\td"
    plan = json.dumps({"worker": 0, "subtask": f"Think.{attack}", "access": []})
    server.reply = lambda call: says(call, plan if "structured_outputs" in call.body else attack)
    shown = podium("run", "What is it?")
    assert shown.stdout == "a�]0;owned��31m��b\nc\td\n"
    run_id = shown.stderr.split("run ")[1].split()[0]
    asked = ["run What? --json", "plan What?", "plan What? --json", "runs", "runs --json"]
    asked += [f"show {run_id}{form}" for form in ("", " --json", " --events", f" {run_id}")]
    asked += [f"audit export {run_id}", "plan --parse plan.txt --workers thinker"]
    Path("plan.txt").write_text(plan)
    for args in asked:
        result = podium(*args.split())
        assert result.exit_code == 0, (args, result.output)
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", result.stdout + result.stderr), args
    assert json.loads(podium("show", run_id, "--json").stdout)["answer"] == attack
    assert podium("audit", "export", run_id, "-o", "copy.jsonl").exit_code == 0
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", Path("copy.jsonl").read_bytes().decode())
    assert podium("audit", "verify", "copy.jsonl").exit_code == 0


def test_version(podium: Podium) -> None:
    """`--version` says which one."""
    assert podium("--version").output.startswith("podium ")


COMMANDS = [("run", "Why?"), ("--version",)]
"""A command whose result goes through its `Screen`, and an option of all commands."""


def test_nothing_is_said_of_a_reader_that_leaves_early() -> None:
    """The version ends well, as it would with a reader."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "podium", "--version"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.long
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("args", COMMANDS)
def test_result_that_cannot_be_written(config: Path, args: tuple[str, ...]) -> None:
    """A full disk behind stdout is told in one line, with exit code 1."""
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "podium", *args]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("podium: the result cannot be written to stdout: ")
    assert done.stderr.count("\n") == 1


def test_interrupt_before_the_command_begins(tmp_path: Path) -> None:
    """Ctrl-C while modules are imported ends the process without a traceback."""
    (tmp_path / "typer.py").write_text(
        "import sys, time\nsys.stdout.write('.')\nsys.stdout.flush()\ntime.sleep(60)\n"
    )
    command = [sys.executable, "-m", "podium", "runs"]
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read(1) == b"."
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30)[1] == b""
    assert process.returncode == -signal.SIGINT
