"""The config of the tests' servers, the scripted team behind them, and helpers of the tests."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio.to_thread
import httpx2
import pytest
from servers.chat_server import STALL, Call, ChatServer, Pause, Reply, says
from servers.podium_server import Served

from podium.journal import SqlJournal
from podium_server.keys import KeyAccess, KeyStore

CONFIG = """
[endpoints.here]
base_url = "{url}"

[workers.one]
endpoint = "here"
model = "one"
description = "Answers anything."
price = {{ input = 1.0, output = 2.0 }}

[workers.two]
endpoint = "here"
model = "two"
description = "Writes poems."
price = {{ input = 10.0, output = 20.0 }}

[planner]
endpoint = "here"
model = "planner"
price = {{ input = 1.0, output = 2.0 }}

[journal]
path = "runs.db"

[server]
{server}

{models}
"""
PLAN = (
    '{"worker": 0, "subtask": "Collect facts.", "access": []}\n'
    '{"worker": 1, "subtask": "Write the answer.", "access": [0]}\n'
)
COST = (2 * (211 * 1.0 + 7 * 2.0) + 211 * 10.0 + 7 * 20.0) / 1e6
"""What a run of the team costs, in USD."""
ASKED: Any = [{"role": "user", "content": "Why is the sky blue?"}]
BODIES: dict[str, dict[str, Any]] = {
    "chat/completions": {"messages": ASKED},
    "responses": {"input": "Why?"},
    "messages": {"messages": ASKED, "max_tokens": 100},
}
"""The fields that each API needs besides the model."""
PODIUM = str(Path(sys.executable).parent / "podium")
Serve = Callable[..., Served]
POSTGRES = pytest.param("postgres", marks=pytest.mark.long)
both = pytest.mark.parametrize("url", ["sqlite", POSTGRES], indirect=True)
"""Runs a test with each kind of database."""


def config(url: str, database: str = "", *, models: str = "", server: str = "") -> str:
    """Return the text of the config with tables of a test; the journal is a file, or in a database."""
    text = CONFIG.format(url=url, models=models, server=server)
    return text.replace('path = "runs.db"', f'url = "{database}"') if database else text


def keys_in(place: str | Path) -> KeyAccess:
    """Return the access by the keys of a database, which also has the journal."""
    journal = SqlJournal(place)
    return KeyAccess(KeyStore(journal), journal=journal)


def called(upstream: ChatServer) -> list[str]:
    """Return the models that were called, in order."""
    return [call.body["model"] for call in upstream.calls]


def team(call: Call) -> Reply:
    """Reply as the planner, as the first worker, or as the second."""
    match call.body["model"]:
        case "planner":
            return says(call, PLAN)
        case "one":
            return says(call, "facts")
    return says(call, "the answer")


def stalled(call: Call) -> Reply:
    """Reply as the team, whose second worker never answers."""
    return Reply([STALL]) if call.body["model"] == "two" else team(call)


def slowly(call: Call) -> Reply:
    """Reply as the team, whose first worker takes some time."""
    made = team(call)
    return Reply((Pause(0.4), *made.parts)) if call.body["model"] == "one" else made


def until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Wait until a condition is met."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


async def happens(condition: Callable[[], bool]) -> bool:
    """Wait in a thread until a condition is met, so that this loop goes on."""
    return await anyio.to_thread.run_sync(until, condition)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def answers(url: str) -> bool:
    """Return whether a server answers at a URL with success."""
    try:
        return httpx2.get(url, timeout=5).is_success
    except httpx2.TransportError:
        return False


def start(client: httpx2.Client, **more: Any) -> Any:
    """Start a run in the background, and return it."""
    answer = client.post("/runs", json={"model": "podium", "query": ASKED, **more})
    assert answer.status_code == 202, answer.text
    assert answer.headers["location"] == f"/v1/runs/{answer.json()['id']}"
    return answer.json()


def ended(client: httpx2.Client, run_id: str) -> Any:
    """Follow a run to its end, and return it."""
    client.get(f"/runs/{run_id}/events")
    return client.get(f"/runs/{run_id}").json()


def post(client: httpx2.Client, run_id: str, action: str, status: int = 202, **body: Any) -> Any:
    """Post an action on a run, and return the body of the response."""
    answer = client.post(f"/runs/{run_id}/{action}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def command_of(folder: Path, *words: str, podium: str = PODIUM, **env: str) -> dict[str, Any]:
    """Return the arguments of `Popen` for a command of Podium."""
    known = {**os.environ, "XDG_CONFIG_HOME": str(folder / "none"), **env}
    return {"args": [podium, *words], "cwd": folder, "text": True, "env": known}


@contextmanager
def process(folder: Path, *options: str, podium: str = PODIUM, **env: str) -> Iterator[Any]:
    """Run `podium serve` on a free port; `url` of the process is its URL."""
    arguments = command_of(folder, "serve", "--port", "0", *options, podium=podium, **env)
    running: Any = subprocess.Popen(**arguments, stderr=subprocess.PIPE)
    with running:
        try:
            running.url = ""
            while not running.url:
                line = running.stderr.readline()
                assert line, running.wait(10)
                running.url = line.partition(" at ")[2].strip()
            yield running
        finally:
            running.kill()
