"""Batches of real commands; the models behind the workers are scripted."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from server.chat.conftest import CONFIG, upstream
from servers.chat_server import Call, ChatServer, Reply, says

__all__ = ["upstream"]

MODELS = """
[models.alone]
worker = "one"

[models.team]
"""
Rows = list[dict[str, Any]]
Batch = Callable[..., subprocess.CompletedProcess[str]]


def asked_of(call: Call) -> str:
    """Return the question in a call."""
    return str(call.body["messages"][-1]["content"])


def echo(call: Call) -> Reply:
    """Answer with the question."""
    return says(call, f"answer to {asked_of(call)}")


def command(folder: Path, *words: str) -> dict[str, Any]:
    """Return the arguments of `Popen` for a batch in a folder."""
    podium = str(Path(sys.executable).parent / "podium")
    known = {**os.environ, "XDG_CONFIG_HOME": str(folder / "none"), "COLUMNS": "200"}
    return {"args": [podium, "batch", *words], "cwd": folder, "text": True, "env": known}


def write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a file of JSON lines."""
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def read(path: Path) -> Rows:
    """Return the lines of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def folder(tmp_path: Path, upstream: ChatServer) -> Iterator[Path]:
    """A folder with a config."""
    upstream.reply = echo
    (tmp_path / "podium.toml").write_text(CONFIG.format(url=upstream.url, models=MODELS, server=""))
    yield tmp_path


@pytest.fixture
def batch(folder: Path) -> Batch:
    """Return a function that runs a batch in its own process."""

    def run(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(**command(folder, *words), capture_output=True, check=False, timeout=50)
        assert done.returncode == code, done.stderr
        return done

    return run
