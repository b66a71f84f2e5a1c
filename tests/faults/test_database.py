"""A journal whose database fails: stopped, full, locked, or written by a holder who was thought dead."""

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from signal import SIGCONT, SIGKILL, SIGSTOP

import anyio
import psycopg
import pytest
from faults.child import Task
from faults.diamonds import PARTS, answer_of, asked, serve
from faults.leftovers import until
from faults.lives import Nursery, recorded

from benchmarks.postgres_server import PostgresServer
from podium.conductor import Conductor
from podium.journal import SqlJournal
from podium.journal.journal import verify
from podium.planners import FixedPlanner
from podium.types import Plan, RunResumed, Step, StepEnded
from podium.workers import ScriptedWorker

pytestmark = [pytest.mark.anyio, pytest.mark.long, pytest.mark.timeout(120)]

STOPS = 4
IN_FLIGHT = 32
RUNS = tuple(f"run-{number}" for number in range(8))
ROOM = 40_000
"""Bytes of a file that can be written: fewer than the tables take when they are made."""


def _doubling(number: int) -> Plan:
    """Return a plan whose steps' answers show their number: each is asked for twice its subtask's."""
    return Plan((Step(0, f"{number}"), Step(1, f"{number}", (0,)), Step(0, f"{number}", (0, 1))))


def _restart(server: PostgresServer) -> None:
    """Stop the server as a crash does, and start it again."""
    server.stop(immediate=True)
    time.sleep(0.5)
    server.start()


def _kill_backends(server: PostgresServer) -> None:
    """Kill the processes of all connections, in the middle of what they do: the server starts them anew."""
    others = (
        "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
    with psycopg.connect(server.url(driver="postgresql")) as connection:
        pids = [pid for (pid,) in connection.execute(others).fetchall()]
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, SIGKILL)


@pytest.mark.parametrize("crash", [_restart, _kill_backends])
async def test_postgres_crashes_under_load(crash: Callable[[PostgresServer], None]) -> None:
    """Whenever the database crashes, every run ends with its own answer and is recorded whole."""
    workers = [
        ScriptedWorker(
            name,
            lambda request: f"{2 * int(request.step_input.subtask)}" if request.step_input else "",
            latency=0.01,
        )
        for name in ("one", "two")
    ]
    answers: dict[str, tuple[int, str, str]] = {}
    stopped, number = False, 0
    with PostgresServer() as server:
        place = server.url(server.create_database(), driver="postgresql")
        async with Conductor(FixedPlanner(_doubling(0)), workers, journal=SqlJournal(place)) as conductor:

            async def lane() -> None:
                nonlocal number
                while not stopped:
                    number += 1
                    asked_for = number
                    result = await conductor.run(_doubling(asked_for))
                    answers[result.run_id] = (asked_for, result.answer, result.status)

            async with anyio.create_task_group() as lanes:
                for _ in range(IN_FLIGHT):
                    lanes.start_soon(lane)
                for _ in range(STOPS):
                    before = len(answers)
                    await until(lambda: len(answers) > before + IN_FLIGHT, seconds=30)  # noqa: B023
                    await anyio.to_thread.run_sync(crash, server)
                before = len(answers)
                await until(lambda: len(answers) > before + IN_FLIGHT, seconds=30)
                stopped = True
        async with SqlJournal(place) as journal:
            rows = {row.run_id: row.state for row in await journal.runs(limit=None)}
            broken = [verify(await journal.records(run_id)) for run_id in rows]
    assert len(answers) == number
    assert all(answer == (n, f"{2 * n}", "ok") for answer in answers.values() for n in answer[:1])
    assert rows == dict.fromkeys(answers, "ok")
    assert set(broken) == {None}


@pytest.mark.parametrize("starved", [{"file_bytes": ROOM}, {"pages": 1}], ids=["writes fail", "full"])
async def test_full_disk_is_waited_out(sqlite_place: str, nursery: Nursery, starved: dict[str, int]) -> None:
    """While there is no room no run ends; once there is, all go on, and nothing is paid twice."""
    async with SqlJournal(sqlite_place):
        pass  # the tables are there
    async with serve() as server:
        task = Task(place=sqlite_place, workers=server.url, runs=RUNS, room_after=2.0, **starved)
        async with nursery.living(task) as life:
            await life.end()
        paid = [asked(call) for call in server.calls]
    assert {"room": True, "ended": 0} in life.heard, life.heard
    assert life.answers == {run_id: answer_of(run_id) for run_id in RUNS}
    assert sorted(paid) == sorted((run_id, part) for run_id in RUNS for part in PARTS)
    assert await recorded(SqlJournal(sqlite_place), RUNS) == set(paid)


async def test_full_disk_that_stays_full_is_told(sqlite_place: str, nursery: Nursery) -> None:
    """After its patience the journal gives up, every run says so, and what was recorded is not paid again."""
    async with SqlJournal(sqlite_place):
        pass
    async with serve() as server:
        starved = Task(place=sqlite_place, workers=server.url, runs=RUNS, file_bytes=ROOM, patience=1.0)
        async with nursery.living(starved) as life:
            await life.end()
        assert life.errors == dict.fromkeys(RUNS, "journal")
        safe = await recorded(SqlJournal(sqlite_place), RUNS)
        first = len(server.calls)
        async with nursery.living(Task(place=sqlite_place, workers=server.url, runs=RUNS)) as life:
            await life.end()
        assert life.answers == {run_id: answer_of(run_id) for run_id in RUNS}
        assert not safe & {asked(call) for call in server.calls[first:]}


async def test_locked_file_is_waited_for(sqlite_place: str, nursery: Nursery) -> None:
    """A file that another process locks for longer than SQLite waits holds the runs up, and harms none."""
    async with serve() as server:
        task = Task(place=sqlite_place, workers=server.url, runs=RUNS)
        async with nursery.living(task) as life:
            path = sqlite_place.removeprefix("sqlite:///")
            with closing(sqlite3.connect(path, isolation_level=None)) as locker:
                locker.execute("BEGIN EXCLUSIVE")
                with anyio.move_on_after(6.0):
                    await life.hear()
                assert not life.answers
                locker.execute("ROLLBACK")
            await life.end()
        paid = [asked(call) for call in server.calls]
    assert life.answers == {run_id: answer_of(run_id) for run_id in RUNS}
    assert sorted(paid) == sorted((run_id, part) for run_id in RUNS for part in PARTS)


async def test_a_stopped_holder_is_fenced_out(postgres_place: str, nursery: Nursery) -> None:
    """A process that was stopped beyond its lease adds nothing to the run that another took."""
    async with serve(slow=20.0) as server:
        task = Task(place=postgres_place, workers=server.url, runs=("run-0",), lease=1.0)
        async with nursery.living(task) as first, SqlJournal(postgres_place) as journal:
            await until(lambda: len(server.calls) == 3, seconds=20)
            done: set[tuple[str, str]] = set()
            while ("run-0", "B") not in done:
                done = await recorded(journal, ["run-0"])
                await anyio.sleep(0.01)
            first.signal(SIGSTOP)
            async with nursery.living(task) as second:
                await second.end()
            entries = len(await journal.read("run-0"))
            first.signal(SIGCONT)
            await first.end()
            events = [entry.event for entry in await journal.read("run-0")]
            safe = await recorded(journal, ["run-0"])
    assert second.answers == {"run-0": answer_of("run-0")}
    assert first.errors == {"run-0": "run_lost"}
    assert len(events) == entries
    assert sum(isinstance(event, RunResumed) for event in events) == 1
    assert safe == {("run-0", part) for part in PARTS}
    paid = [asked(call)[1] for call in server.calls]
    # C was under way when its process was stopped; that process begins no call without a commit
    assert sorted(paid) == ["A", "B", "C", "C", "D"]
    assert sum(isinstance(event, StepEnded) and event.outcome.status == "ok" for event in events) >= len(
        PARTS
    )
