"""Who holds a run in a database: leases, fences, processes that die; and who is told of its changes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from core.journal.happenings import ended, started, step_ended

from podium.errors import RunDead, RunHeld, RunLost
from podium.journal import Schema, SqlJournal, SqlTables
from podium.journal.journal import verify
from podium.journal.sql.changes import Follower
from podium.journal.sql.commits import Batch, SqlLog
from podium.journal.sql.lease import Lease, has_ended

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
HOLDER = "import sys; from podium.journal.sql.lease import new_holder; print(new_holder(), flush=True)"


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
    tables = SqlTables(Schema("none", [[]]), place)
    await tables.transaction(lambda each: each.execute("UPDATE podium_leases SET until = 1.0"))


async def test_a_stalled_holder_writes_nothing_once_its_run_is_taken(place: str) -> None:
    """It is told so; its other runs, which nobody took, are written; nothing of the new holder is touched."""
    lost: list[str] = []
    stalled = Stalling(place)
    async with stalled, SqlJournal(place) as other:
        taken = await stalled.begin(started("taken"), minted=False)
        kept = await stalled.begin(started("kept"), minted=False)
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
        events = [record.entry().event for record in records]
        assert events == [started("taken"), step_ended("taken", 0, "of the new"), ended("taken")]
        assert verify(records) is None
        assert len(await other.records("kept")) == 3
        assert {row.run_id: row.state for row in await other.runs()} == {"taken": "ok", "kept": "ok"}


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
        events = [record.entry().event for record in records]
        assert events == [started("mine"), step_ended("mine", 0), ended("mine")]


@pytest.fixture
def child(place: str) -> Callable[..., None]:
    """Return what has another process take a run, and kills it while it carries the run out."""

    def die(run_id: str, *how: str) -> None:
        tests = Path(__file__).parents[2]
        command = [sys.executable, "-c", CHILD, str(place), run_id, *how]
        environment = {**os.environ, "PYTHONPATH": str(tests)}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGKILL)

    return die


@pytest.mark.long
async def test_a_run_that_kills_its_process_is_not_taken_for_ever(place: str, child: Any) -> None:
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


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc here")
def test_a_process_that_was_killed_has_ended_before_anybody_waits_for_it() -> None:
    command = [sys.executable, "-c", f"{HOLDER}; sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        holder = process.stdout.readline().strip()
        assert not has_ended(holder)
        process.kill()
        assert process.stdout.read() == ""  # its files are closed: it is a zombie, or about to be
        stat, end = Path(f"/proc/{process.pid}/stat"), time.monotonic() + 10.0
        while stat.read_text().rpartition(")")[2].split()[0] != "Z":
            assert time.monotonic() < end
            time.sleep(0.01)
        assert has_ended(holder)
    assert has_ended(holder)


@pytest.fixture
def _untimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let followers look only when they are told to."""
    monkeypatch.setattr("podium.journal.sql.changes.PERIOD", 600.0)


@asynccontextmanager
async def following(journal: SqlJournal, run_id: str) -> AsyncGenerator[Follower, None]:
    """Follow a run, from the time when changes by other processes are seen."""
    async with journal, journal.following(run_id) as follower:
        with anyio.fail_after(20):
            assert await follower.wait()
            yield follower


@pytest.mark.usefixtures("_untimed")
@pytest.mark.parametrize("is_here", [True, False], ids=["the same process", "another process"])
async def test_each_change_is_told(place: str, *, is_here: bool) -> None:
    reader = SqlJournal(place)
    writer = reader if is_here else SqlJournal(place)
    async with writer, following(reader, "mine") as follower:
        log = await writer.begin(started("mine"), minted=False)
        assert await follower.wait()
        log.append(step_ended("mine", 0))
        assert await follower.wait()
        assert len(await reader.records("mine")) == 2
        log.append(ended("mine"))
        await log.aclose()
        assert await follower.wait()
        assert (await reader.runs())[0].state == "ok"
        await writer.delete("mine")
        assert await follower.wait()


async def test_a_follower_looks_from_time_to_time(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("podium.journal.sql.changes.PERIOD", 0.01)
    async with following(SqlJournal(place), "mine") as follower:
        for _ in range(3):
            assert await follower.wait()
