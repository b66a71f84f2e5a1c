"""What the command line shows of secrets, of bugs, and of what others wrote."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from servers.chat_server import ChatServer, says, whole
from typer.testing import Result

Podium = Callable[..., Result]
KEY = "sk-loopback-0123456789"
COMMANDS = (
    *("run", "plan", "parse", "check", "init", "demo"),
    *("show", "diff", "resume", "approve", "refuse", "replay"),
    *("runs", "runs delete", "runs prune", "audit", "audit verify", "audit export"),
)


def test_key_in_an_error_is_hidden(podium: Podium, config: Path, server: ChatServer) -> None:
    """A server that quotes the key in its refusal does not bring it to the screen."""
    server.reply = lambda call: whole({"error": {"message": f"bad key {KEY}"}}, status=401)
    for args in ("run Why?", "run Why? --json", "run Why? --explain", "check --json"):
        result = podium(*args.split())
        assert result.exit_code == 1
        assert KEY not in result.output


def test_key_in_an_answer_is_hidden(podium: Podium, config: Path, server: ChatServer) -> None:
    """A model that writes the key does not bring it to the screen."""
    plan = '{"worker": 0, "subtask": "go", "access": []}'
    said = f"Your key is {KEY}"
    server.reply = lambda call: says(call, plan if "structured_outputs" in call.body else said)
    result = podium("run", "Why?", "--json")
    assert KEY not in result.output
    assert "[secret]" in result.output


def test_help_states_the_exit_codes(podium: Podium) -> None:
    """`--help` of every command says what the exit codes mean."""
    for command in ("", *COMMANDS):
        said = " ".join(podium(*command.split(), "--help").output.split())
        assert "3 the answer is partial; 4 a plan waits for approval; 130 interrupted" in said


def test_version(podium: Podium) -> None:
    """`--version` says which one."""
    assert podium("--version").output.startswith("podium ")


def test_help_and_parse_import_no_http(tmp_path: Path) -> None:
    """What needs no network does not wait for a library that speaks HTTP."""
    (tmp_path / "plan.txt").write_text('{"steps": [{"worker": 0, "subtask": "a", "access": []}]}')
    for args in (["--help"], ["parse", "--workers", "1", "--json", str(tmp_path / "plan.txt")]):
        command = [sys.executable, "-X", "importtime", "-m", "podium", *args]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
        assert not imported & {"httpx2", "aiohttp"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("args", [("run", "Why?"), ("run", "Why?", "--json"), ("check",)])
def test_result_that_cannot_be_written(config: Path, args: tuple[str, ...]) -> None:
    """A full disk behind stdout is told in one line, with exit code 1."""
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "podium", *args]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("podium: the result cannot be written to stdout: ")
    assert done.stderr.count("\n") == 1
