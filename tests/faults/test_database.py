"""A journal whose database fails: stopped, full, locked, or written by a holder who was thought dead."""

import time
from signal import SIGCONT, SIGSTOP

import anyio
import pytest
from faults.child import Task
from faults.diamonds import PARTS, answer_of, asked, serve
from faults.leftovers import until
from faults.lives import Nursery, recorded

from benchmarks.postgres_server import PostgresServer
from podium import Conductor, Plan, ScriptedWorker, Step
from podium.journal import SqlJournal
from podium.journal.journal import verify
from podium.planners import FixedPlanner
from podium.types import RunResumed, StepEnded
from podium.workers import Request

pytestmark = [pytest.mark.anyio, pytest.mark.long, pytest.mark.timeout(120)]

STOPS = 4
IN_FLIGHT = 32
RUNS = tuple(f"run-{number}" for number in range(8))


def _doubling(number: int) -> Plan:
    """Return a plan whose steps' answers show their number: each is asked for twice its subtask's."""
    return Plan((Step(0, f"{number}"), Step(1, f"{number}", (0,)), Step(0, f"{number}", (0, 1))))


def _restart(server: PostgresServer) -> None:
    """Stop the server as a crash does, and start it again."""
    server.stop(immediate=True)
    time.sleep(0.5)
    server.start()


async def test_postgres_crashes_under_load() -> None:
    """Whenever the database crashes, every run ends with its own answer and is recorded whole."""

    def double(request: Request) -> str:
        return f"{2 * int(request.step_input.subtask)}" if request.step_input else ""

    workers = [ScriptedWorker(name, double, latency=0.01) for name in ("one", "two")]
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
                    await anyio.to_thread.run_sync(_restart, server)
                before = len(answers)
                await until(lambda: len(answers) > before + IN_FLIGHT, seconds=30)
                stopped = True
        async with SqlJournal(place) as journal:
            rows = {row.run_id: row.state for row in await journal.runs(limit=None)}
            broken = [verify(await journal.records(run_id)) for run_id in rows]
    assert len(answers) == number
    assert all(answer == (n, f"{2 * n}", "ok") for answer in answers.values() for n in answer[:1])
    assert (rows, set(broken)) == (dict.fromkeys(answers, "ok"), {None})


async def test_full_disk_is_waited_out(sqlite_place: str, nursery: Nursery) -> None:
    """While there is no room no run ends; once there is, all go on, and nothing is paid twice."""
    async with SqlJournal(sqlite_place):
        pass  # the tables are there
    async with serve() as server:
        task = Task(place=sqlite_place, workers=server.url, runs=RUNS, pages=1, room_after=2.0)
        async with nursery.living(task) as life:
            await life.end()
        paid = [asked(call) for call in server.calls]
    assert {"room": True, "ended": 0} in life.heard, life.heard
    assert life.answers == {run_id: answer_of(run_id) for run_id in RUNS}
    assert sorted(paid) == sorted((run_id, part) for run_id in RUNS for part in PARTS)
    assert await recorded(SqlJournal(sqlite_place), RUNS) == set(paid)


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
    assert (second.answers, first.errors) == ({"run-0": answer_of("run-0")}, {"run-0": "run_lost"})
    assert (len(events), sum(isinstance(event, RunResumed) for event in events)) == (entries, 1)
    assert safe == {("run-0", part) for part in PARTS}
    paid = [asked(call)[1] for call in server.calls]
    # C was under way when its process was stopped; that process begins no call without a commit
    assert sorted(paid) == ["A", "B", "C", "C", "D"]
    ended = [event.outcome for event in events if isinstance(event, StepEnded)]
    assert sum(outcome.status == "ok" for outcome in ended) >= len(PARTS)
