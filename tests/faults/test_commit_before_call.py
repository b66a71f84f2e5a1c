"""Killed while the journal cannot write: no step whose dependent had started is paid twice, limits hold.

The server of the workers lives through all kills and counts every call that it was sent.
"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager
from random import Random

import anyio
import pytest
from faults.leftovers import until
from servers.chat_server import Call, ChatServer, says

from podium.journal import SqlJournal
from podium.journal.journal import verify

pytestmark = [pytest.mark.anyio, pytest.mark.long, pytest.mark.timeout(180)]

CHILD = """
import json, sys
import anyio
from podium import Card, Conductor, Limits, Plan, Retry, Step
from podium.journal import SqlJournal
from podium.planners import FixedPlanner
from podium.workers import FREE, ChatWorker, Endpoint

async def main(task):
    steps = [Step(0, f"Do step {number} now.", tuple(shown)) for number, shown in enumerate(task["steps"])]
    worker = ChatWorker("a", endpoint=Endpoint(task["workers"]), card=Card(name="a", price=FREE))
    conductor = Conductor(
        FixedPlanner("{}"), [worker], retry=Retry(attempts=1),
        limits=Limits(calls=task["calls"], concurrency=4),
        journal=SqlJournal(task["place"], max_recoveries=1000),
    )
    async with conductor:
        print("ready", flush=True)
        result = await conductor.run(Plan(tuple(steps)), run_id="run")
    print(result.status, flush=True)

anyio.run(main, json.loads(sys.argv[1]))
"""


def serve() -> ChatServer:
    return ChatServer(lambda call: says(call, f"Did step {_step(call)}.", delay=0.02))


def _step(call: Call) -> int:
    subtask: str = call.body["messages"][-1]["content"]
    return int(subtask.rpartition("Do step ")[2].partition(" now.")[0])


@contextmanager
def _life(
    place: str, server: ChatServer, steps: list[list[int]], calls: int | None
) -> Generator["subprocess.Popen[str]"]:
    """Start a process that carries the run out, or goes on with it."""
    task = json.dumps({"place": place, "workers": server.url, "steps": steps, "calls": calls})
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "NO_PROXY": "127.0.0.1"}
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, task], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            yield process
        finally:
            process.kill()


async def _line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return (await anyio.to_thread.run_sync(process.stdout.readline)).strip()


async def test_a_locked_journal_holds_a_chain_up(sqlite_place: str) -> None:
    """Nine times the file is locked and the process killed: only a step that waits for it is paid again."""
    chain = [[number - 1] if number else [] for number in range(10)]
    path, kills, status = sqlite_place.removeprefix("sqlite:///"), 0, ""
    async with serve() as server:
        for kill in range(9):
            with _life(sqlite_place, server, chain, 100) as process:
                assert await _line(process) == "ready"
                before = len(server.calls)
                await until(lambda: len(server.calls) > before, seconds=20)  # noqa: B023
                with closing(sqlite3.connect(path, isolation_level=None, timeout=10)) as locker:
                    locker.execute("BEGIN IMMEDIATE")
                    await anyio.sleep(0.05)
                    started = len(server.calls)
                    await anyio.sleep(0.25)
                    assert len(server.calls) == started, (
                        f"a call was sent at kill {kill} while nothing is recorded"
                    )
                    process.send_signal(signal.SIGKILL)
                    process.wait()
                    kills += 1
        with _life(sqlite_place, server, chain, 100) as process:
            assert await _line(process) == "ready"
            status = await _line(process)
        steps = [_step(call) for call in server.calls]
    assert status == "ok"
    assert steps == sorted(steps), "a step was paid again after its dependent had started"
    assert len(steps) <= len(chain) + kills
    assert verify(await SqlJournal(sqlite_place).records("run")) is None


async def test_a_limit_on_calls_holds_over_kills(place: str) -> None:
    """All lives of a run together send no more calls than `Limits.calls`."""
    fan = [*([] for _ in range(8)), list(range(8))]
    moments, status = Random(3), ""  # noqa: S311
    async with serve() as server:
        for _ in range(100):
            with _life(place, server, fan, 30) as process:
                assert await _line(process) == "ready"
                before = len(server.calls)
                with anyio.move_on_after(5.0):
                    while len(server.calls) == before and process.poll() is None:  # noqa: ASYNC110  (nothing tells)
                        await anyio.sleep(0.002)
                await anyio.sleep(moments.uniform(0.0, 0.03))
                process.send_signal(signal.SIGKILL)
                status = await _line(process)
            if status:
                break
        assert status in ("failed", "partial")
        assert 10 <= len(server.calls) <= 30
