"""Who holds a run in a database: leases, fences, and processes that die."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection
from pathlib import Path

import anyio
import pytest
from core.journal.happenings import ended, started, step_ended

from podium.errors import RunDead, RunHeld, RunLost
from podium.journal import Log, Schema, SqlJournal, SqlTables
from podium.journal.journal import verify
from podium.journal.sql.commits import Batch, SqlLog
from podium.journal.sql.lease import Lease

pytestmark = pytest.mark.anyio

LEASE = 0.3
"""Seconds."""

CHILD = """
import sys, anyio
from core.journal.happenings import started, step_ended
from podium.journal import SqlJournal

async def main(place, run_id):
    async with SqlJournal(place) as journal:
        if "new" in sys.argv:
            log = await journal.begin(started(run_id), minted=False)
        else:
            log = await journal.claim(run_id, force="force" in sys.argv)
        log.append(step_ended(run_id, len(log.entries)))
        await log.flush()
        print("ready", flush=True)
        await anyio.sleep(60)

anyio.run(main, *sys.argv[1:3])
"""


class Stalling(SqlJournal):
    """Commits nothing while it is stalled, as a process that was stopped."""

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.goes = anyio.Event()
        self.goes.set()

    async def _commit(self, lease: Lease, batch: Batch) -> Collection[SqlLog]:
        await self.goes.wait()
        return await super()._commit(lease, batch)


class Unacknowledged(SqlJournal):
    """Commits every batch, hears nothing of it, and tries again."""

    async def _commit(self, lease: Lease, batch: Batch) -> Collection[SqlLog]:
        await super()._commit(lease, batch)
        return await super()._commit(lease, batch)


async def expire(place: str) -> None:
    """End all leases, as time does."""
    tables = SqlTables(Schema("none", [[]]), place)
    await tables.transaction(lambda each: each.execute("UPDATE podium_leases SET until = 1.0"))


async def test_a_stalled_holder_writes_nothing_once_its_run_is_taken(place: str) -> None:
    """It is told so; its other runs, which nobody took, are written; nothing of the new holder is touched."""
    lost: list[str] = []
    stalled = Stalling(place)
    async with stalled, SqlJournal(place) as other:
        taken, kept = (
            await stalled.begin(started("taken"), minted=False),
            await stalled.begin(started("kept"), minted=False),
        )
        taken.on_lost = lambda: lost.append("taken")
        stalled.goes = anyio.Event()
        taken.append(step_ended("taken", 0, "of the stalled"))
        kept.append(step_ended("kept", 0))
        await expire(place)
        log = await other.claim("taken")
        assert log.recovery == 1
        log.append(step_ended("taken", 0, "of the new"))
        await log.flush()
        stalled.goes.set()
        with pytest.raises(RunLost, match="taken"):
            await taken.flush()
        await kept.flush()
        assert lost == ["taken"]
        log.append(ended("taken"))
        await log.aclose()
        with pytest.raises(RunLost):
            await taken.aclose()
        kept.append(ended("kept"))
        await kept.aclose()
        records = await other.records("taken")
        assert [record.entry().event for record in records] == [
            started("taken"),
            step_ended("taken", 0, "of the new"),
            ended("taken"),
        ]
        assert verify(records) is None
        assert len(await other.records("kept")) == 3
        assert {row.run_id: row.state for row in await other.runs()} == {"taken": "ok", "kept": "ok"}


async def test_a_stalled_holder_does_not_end_a_run_that_was_taken(place: str) -> None:
    """Giving up, ending and deleting count only for who holds the run."""
    stalled = Stalling(place)
    async with stalled, SqlJournal(place) as other:
        logs = [await stalled.begin(started(f"run{number}"), minted=False) for number in range(3)]
        stalled.goes = anyio.Event()
        logs[0].append(ended("run0"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_close_lost, logs[1])
            await anyio.wait_all_tasks_blocked()
            await expire(place)
            new = [await other.claim("run0"), await other.claim("run1")]
            await (await other.claim("run2")).aclose()
            await other.delete("run2")
            logs[2].append(step_ended("run2", 0))
            stalled.goes.set()
        await _close_lost(logs[0])
        await _close_lost(logs[2])
        for log in new:
            with pytest.raises(RunHeld, match=rf"running in process {os.getpid()} on \S+: wait"):
                await stalled.claim(log.run_id)
            await log.aclose()
        assert [row.run_id for row in await other.runs()] == ["run1", "run0"]
        assert len(await other.records("run0")) == 1


async def _close_lost(log: Log) -> None:
    with pytest.raises(RunLost):
        await log.aclose()


async def test_runs_are_given_up_together(place: str) -> None:
    """When another process has ended the lease; what was queued is recorded, and new runs are held again."""
    lost: list[str] = []
    async with SqlJournal(place) as late, SqlJournal(place) as other, other.leased() as lease:
        logs = [await late.begin(started(f"run{number}"), minted=False) for number in range(3)]
        for log in logs:
            log.on_lost = lambda log=log: lost.append(log.run_id)
        await logs[2].aclose()
        holders = "SELECT holder FROM podium_runs WHERE holder IS NOT NULL"

        async def end() -> list[str]:
            return await lease.transaction(lambda each: lease.ended(each, holders))

        assert await end() == []
        await expire(place)
        assert await end() == [logs[0].holder]
        logs[0].append(step_ended("run0", 0))
        await late.check(5.0)
        with anyio.fail_after(10):
            while len(lost) < 2:  # noqa: ASYNC110 - as a run, which has its own event
                await anyio.sleep(0.01)
        for log in logs[:2]:
            with pytest.raises(RunLost, match=f"{log.run_id} was given up"):
                await log.aclose()
        assert sorted(lost) == ["run0", "run1"]
        new = await late.begin(started("new"), minted=False)
        assert await end() == []
        with pytest.raises(RunHeld):
            await other.claim("new")
        await new.aclose()
        with anyio.fail_after(10):
            while {row.state for row in await other.runs()} != {"stopped"}:  # noqa: ASYNC110 - of the writer
                await anyio.sleep(0.02)
        claimed = await other.claim("run0")
        assert [entry.event for entry in claimed.entries] == [started("run0"), step_ended("run0", 0)]
        await claimed.aclose()


async def test_a_lease_is_renewed_while_nothing_happens(place: str) -> None:
    """A run whose steps take long is not taken from a process that lives."""
    async with SqlJournal(place, lease=LEASE) as journal, SqlJournal(place, lease=LEASE) as other:
        log = await journal.begin(started("mine"), minted=False)
        for _ in range(3):
            await anyio.sleep(LEASE / 2)
            with pytest.raises(RunHeld):
                await other.claim("mine")
        await log.aclose()


async def test_a_lost_acknowledgement_writes_nothing_twice(place: str) -> None:
    """What was committed though nobody heard of it is seen to be there."""
    async with Unacknowledged(place) as journal:
        log = await journal.begin(started("mine"), minted=False)
        log.append(step_ended("mine", 0))
        await log.flush()
        log.append(ended("mine"))
        await log.aclose()
        records = await journal.records("mine")
        assert verify(records) is None
        assert [record.entry().event for record in records] == [
            started("mine"),
            step_ended("mine", 0),
            ended("mine"),
        ]


@pytest.fixture
def child(place: str) -> Callable[..., None]:
    """Return what has another process take a run, and kills it while it carries the run out."""

    def die(run_id: str, *how: str) -> None:
        tests = Path(__file__).parents[2]
        command = [sys.executable, "-c", CHILD, str(place), run_id, *how]
        environment = {**os.environ, "PYTHONPATH": str(tests)}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGKILL)

    return die


@pytest.mark.long
async def test_a_run_that_kills_its_process_is_not_taken_up_for_ever(
    place: str, child: Callable[..., None]
) -> None:
    """It is taken at once, without its lease; after so many recoveries it is dead, and taken by force."""
    await anyio.to_thread.run_sync(child, "mine", "new")
    async with SqlJournal(place) as journal:
        assert [row.state for row in await journal.runs()] == ["stopped"]
    await anyio.to_thread.run_sync(child, "mine")
    async with SqlJournal(place, max_recoveries=1) as journal:
        for _ in range(2):
            with pytest.raises(RunDead, match="mine was continued 1 time"):
                await journal.claim("mine")
            assert [row.state for row in await journal.runs()] == ["dead"]
        assert len(await journal.read("mine")) == 3
        log = await journal.claim("mine", force=True)
        assert log.recovery == 2
        log.append(ended("mine"))
        await log.aclose()
        assert [(row.state, row.recoveries) for row in await journal.runs()] == [("ok", 2)]
        log = await journal.claim("mine")
        await log.aclose()
