"""Carries diamonds out in a process of its own, which the tests of durability kill, stop and starve.

Started with a `Task` as JSON on a line of its input, it forks one process for each, so that
they start at once; all that they need is imported before. A process tells over a connection
of its own, in lines of JSON, that it is ready, of each run that ends, and that it is over.
"""

import json
import os
import signal
import socket
import sqlite3
import sys
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from typing import Any, Literal

import anyio
import asyncpg  # noqa: F401  (this and others below are else imported when they are first used)
from faults.diamonds import PARTS, plan_of

import podium.journal.sql.commits
import podium.journal.sql.postgres
import podium.journal.sql.sqlite
import podium.workers.openai.http  # noqa: F401
from podium import Card, ChatWorker, Conductor, Endpoint, Retry
from podium.errors import PodiumError
from podium.journal import SqlJournal
from podium.planners import FixedPlanner
from podium.workers import FREE

APART_SECONDS = 0.02
"""From one run's beginning to the next one's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What the process is to do."""

    port: int = 0
    """On this machine, where it tells how it goes."""
    place: str
    """URL of the journal."""
    workers: str
    """Base URL of all workers."""
    runs: tuple[str, ...]
    """Begun, or gone on with."""
    warm: bool = False
    """Whether it has carried out another run before it is ready, as a process that dies mostly has."""
    crash_at: int = 0
    """The commit at which it kills itself, counted from 1; 0 never does."""
    crash: Literal["before", "after"] = "before"
    """On which side of that commit's acknowledgement."""
    lease: float = 30.0
    pages: int = 0
    """Most pages of an SQLite file until then, or what it has already; 0 sets no limit."""
    room_after: float = 0.0
    """Seconds until it has room again; 0 never gives any."""

    @classmethod
    def of(cls, line: str) -> "Task":
        told = json.loads(line)
        return cls(**{**told, "runs": tuple(told["runs"])})

    def to_json(self) -> str:
        return json.dumps(asdict(self))


class CrashingJournal(SqlJournal):
    """A journal whose process dies at a commit."""

    def __init__(self, task: Task) -> None:
        super().__init__(task.place, lease=task.lease, max_recoveries=1000)
        self._task = task
        self._commits = 0

    async def _commit(self, store: Any, batch: Any) -> Collection[Any]:
        self._commits += 1
        dies = self._commits == self._task.crash_at
        if dies and self._task.crash == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        lost = await super()._commit(store, batch)
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return lost


async def carry_out(task: Task, say: Callable[[dict[str, Any]], None]) -> None:
    """Carry all runs out, each begun a little after the one before."""
    endpoint = Endpoint(task.workers)
    pool = [ChatWorker(part, endpoint=endpoint, card=Card(name=part, price=FREE)) for part in PARTS]
    planner = FixedPlanner(plan_of("none"))
    ended = 0

    async def step_starter(run_id: str) -> None:
        nonlocal ended
        try:
            result = await conductor.run(plan_of(run_id), run_id=run_id)
        except PodiumError as error:
            say({"run": run_id, "error": error.code, "told": str(error)})
        else:
            say({"run": run_id, "status": result.status, "answer": result.answer})
        ended += 1

    room = _starve(task)
    async with (
        Conductor(planner, pool, retry=Retry(attempts=1), journal=CrashingJournal(task)) as conductor,
        anyio.create_task_group() as runs,
    ):
        if task.warm:
            await conductor.run(plan_of(f"warm-{os.getpid()}"))
        say({"ready": True, "pid": os.getpid()})
        for run_id in task.runs:
            runs.start_soon(step_starter, run_id)
            await anyio.sleep(APART_SECONDS)
        if task.room_after:
            await anyio.sleep(task.room_after)
            say({"room": True, "ended": ended})
            room.set()


def _starve(task: Task) -> anyio.Event:
    """Leave the journal no room; return what gives it some again."""
    room = anyio.Event()
    if task.pages:
        connect = sqlite3.connect

        def limited(*args: Any, **settings: Any) -> sqlite3.Connection:
            connection = connect(*args, **settings)
            connection.execute(f"PRAGMA max_page_count = {1_000_000 if room.is_set() else task.pages}")
            return connection

        sqlite3.connect = limited
    return room


def live(task: Task) -> None:
    """Be the process of one task."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with socket.create_connection(("127.0.0.1", task.port)) as heard, heard.makefile("w") as lines:

        def say(data: dict[str, Any]) -> None:
            lines.write(json.dumps(data) + "\n")
            lines.flush()

        anyio.run(carry_out, task, say)
        say({"over": True})


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    for line in sys.stdin:
        if not os.fork():
            live(Task.of(line))
            os._exit(0)
