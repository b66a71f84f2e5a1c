"""The config of the tests' servers, the scripted team behind them, and helpers of the tests."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from servers.chat_server import STALL, Call, Pause, Reply, says
from servers.podium_server import Served

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
Serve = Callable[..., Served]


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


def in_parallel(
    served: Served, path: str, body: Any, key: str = "none", name: str = "same"
) -> list[httpx2.Response]:
    """Make a request three times at once, with an API key and an idempotency key."""
    headers = {"idempotency-key": name, "x-api-key": key}

    def ask(_: int) -> httpx2.Response:
        return httpx2.post(f"{served.url}{path}", json=body, headers=headers, timeout=20)

    with ThreadPoolExecutor() as threads:
        return list(threads.map(ask, range(3)))


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


@contextmanager
def process(
    folder: Path, *options: str, env: Mapping[str, str] | None = None, command: str | None = None
) -> Iterator[Any]:
    """Run `podium serve` on a free port; `url` of the process is its URL."""
    podium = command or str(Path(sys.executable).parent / "podium")
    arguments = [podium, "serve", "--port", "0", *options]
    known = {**os.environ, "XDG_CONFIG_HOME": str(folder / "none"), **(env or {})}
    running: Any = subprocess.Popen(arguments, cwd=folder, stderr=subprocess.PIPE, text=True, env=known)
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
