"""Fixtures for tests of the command line: a config with a scripted server, and ways to run commands."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from servers.chat_server import Call, ChatServer, Reply, says
from typer.testing import CliRunner, Result

from podium.cli.root import app
from podium.journal import SqlJournal

PLAN = (
    '{"worker": 0, "subtask": "Think of a number.", "access": []}\n'
    '{"worker": 1, "subtask": "Say it aloud.", "access": [0]}\n'
)
KEY = "sk-loopback-0123456789"

CONFIG = """
[endpoints.loopback]
base_url = "{url}"
provider = "vllm"
key_env = "LOOPBACK_KEY"

[workers.thinker]
endpoint = "loopback"
model = "small"

[workers.speaker]
endpoint = "loopback"
model = "small"

[planner]
worker = "thinker"
"""


def plans_then_says(text: str) -> Callable[[Call], Reply]:
    """Return a script that writes a plan if the request has a grammar, and otherwise answers `text`."""

    def reply(call: Call) -> Reply:
        return says(call, PLAN if "structured_outputs" in call.body else text)

    return reply


@pytest.fixture
def server() -> Iterator[ChatServer]:
    """Serve a planner, and workers that answer "forty-two"."""
    with ChatServer(plans_then_says("forty-two")).in_thread() as serving:
        yield serving


@pytest.fixture
def config(server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a config for the scripted server, and set its key."""
    monkeypatch.setenv("LOOPBACK_KEY", KEY)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "podium.toml"
    path.write_text(CONFIG.format(url=server.url))
    return path


@pytest.fixture
def journal(tmp_path: Path, config: Path) -> SqlJournal:
    """Let the config name a journal that the test shares."""
    config.write_text(config.read_text() + f'[journal]\npath = "{tmp_path / "runs.db"}"\n')
    return SqlJournal(tmp_path / "runs.db")


@pytest.fixture
def podium() -> Callable[..., Result]:
    """Return a function that runs a command in this process, without a terminal."""
    runner = CliRunner()
    return lambda *args, **kwargs: runner.invoke(app, list(args), **kwargs)


@pytest.fixture
def spawn() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Yield a function that starts a command in its own process, with pipes or with a `terminal`."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*args: str, terminal: int | None = None) -> subprocess.Popen[bytes]:
        stream = subprocess.PIPE if terminal is None else terminal
        command = [sys.executable, "-m", "podium", *args]
        process = subprocess.Popen(command, stdin=stream, stdout=stream, stderr=stream)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
