"""Batches of real commands; the models behind the workers are scripted."""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from server.scene import command_of, config
from servers.chat_server import Call, ChatServer, Reply, says
from typer.testing import Result

MODELS = """
[models.alone]
worker = "one"

[models.team]
"""
Rows = list[dict[str, Any]]
Batch = Callable[..., Result]


def asked_of(call: Call) -> str:
    """Return the question in a call."""
    return str(call.body["messages"][-1]["content"])


def echo(call: Call) -> Reply:
    """Answer with the question."""
    return says(call, f"answer to {asked_of(call)}")


def command(folder: Path, *words: str) -> dict[str, Any]:
    """Return the arguments of `Popen` for a batch in its own process."""
    return command_of(folder, "batch", *words, COLUMNS="200")


def questions(count: int) -> Rows:
    """Return the rows of some questions."""
    return [{"id": f"q{number}", "query": f"question {number}"} for number in range(count)]


def write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a file of JSON lines."""
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def read(path: Path) -> Rows:
    """Return the lines of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def folder(tmp_path: Path, upstream: ChatServer) -> Path:
    """A folder with a config."""
    upstream.reply = echo
    (tmp_path / "podium.toml").write_text(config(upstream.url, models=MODELS))
    return tmp_path


@pytest.fixture
def batch(folder: Path, podium: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> Batch:
    """Return a function that runs a batch in this process."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words: str, code: int = 0) -> Result:
        done = podium("batch", *words)
        assert done.exit_code == code, done.output
        return done

    return run
