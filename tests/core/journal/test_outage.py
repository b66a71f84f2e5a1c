"""Databases and drivers that fail: the writer goes on, and runs that were given up can be resumed at once."""

import sqlite3
from collections.abc import Callable, Collection
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

import anyio
import asyncpg  # type: ignore[import-untyped]
import pytest
from core.actors import boss, plan_of
from core.journal.happenings import ended, started, step_ended

from podium import Conductor, ScriptedWorker
from podium.errors import JournalError, RunUnknown
from podium.journal import Schema, SqlJournal, SqlTables, verify_runs
from podium.journal.sql import postgres, sqlite
from podium.journal.sql.commits import Batch, SqlLog
from podium.journal.sql.lease import Lease

pytestmark = pytest.mark.anyio

NOTES = Schema("notes", [["CREATE TABLE podium_notes (note TEXT NOT NULL)"]])
CHAIN = plan_of((0, "first", ()), (1, "second", (0,)))


async def test_whatever_a_driver_raises_is_tried_again(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drivers raise exceptions of any class when a server dies in the middle of a batch."""
    module, error = sqlite, Exception("bare")
    if not place.startswith("sqlite"):
        module, error = postgres, asyncpg.InternalClientError("got result for unknown protocol state")
    write: Callable[..., Any] = module._write
    failures = 2

    def failing(connection: Any, rows: Any) -> Any:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise error
        return write(connection, rows)

    monkeypatch.setattr(module, "_write", failing)
    workers = [ScriptedWorker("a", "one"), ScriptedWorker("b", "two")]
    async with Conductor(boss(""), workers, journal=SqlJournal(place)) as conductor:
        result = await conductor.run(CHAIN)
    assert (result.status, result.answer) == ("ok", "two")
    assert failures < 0
    assert [len(worker.requests) for worker in workers] == [1, 1]


@pytest.mark.parametrize("is_entered", [True, pytest.param(False, marks=pytest.mark.long)])
async def test_a_run_that_was_given_up_is_resumed_by_the_same_process(
    tmp_path: Path, *, is_entered: bool
) -> None:
    """At once, while nothing else tells the database that the run was released."""
    path = tmp_path / "journal.db"
    locker = sqlite3.connect(path, isolation_level=None)

    outages = 2

    def first(_: object) -> str:
        nonlocal outages
        outages -= 1
        if outages >= 0:
            locker.execute("BEGIN EXCLUSIVE")
        return "one"

    workers = [ScriptedWorker("a", first), ScriptedWorker("b", "two")]
    conductor = Conductor(boss(""), workers, journal=SqlJournal(path, patience=0.3, max_recoveries=0))

    async def fail_and_resume() -> None:
        for _ in range(2):
            with anyio.fail_after(10), pytest.raises(JournalError, match="locked") as caught:
                await (
                    conductor.resume("mine") if workers[0].requests else conductor.run(CHAIN, run_id="mine")
                )
            assert (caught.value.code, caught.value.result.problem.code) == ("journal", "journal")
            locker.execute("ROLLBACK")
        locker.close()
        with anyio.fail_after(2):
            result = await conductor.resume("mine")
        assert (result.status, result.answer) == ("ok", "two")

    if is_entered:
        async with conductor:
            await fail_and_resume()
    else:
        await fail_and_resume()


class Deaf(SqlJournal):
    """Hears of no commit that ends a run, and takes it as failed."""

    async def _commit(self, lease: Lease, batch: Batch) -> Collection[SqlLog]:
        lost = await super()._commit(lease, batch)
        if any(log.row is None or log.row.holder is None for log in batch.parts):
            raise JournalError("the connection was lost after the commit")
        return lost


async def test_a_commit_whose_acknowledgement_was_lost_keeps_the_end_of_its_run(place: str) -> None:
    """The run fails for its caller; its row is released, and says what its records say."""
    async with Deaf(place, patience=0.2) as journal:
        log = await journal.begin(started("mine"), minted=False)
        log.append(step_ended("mine", 0))
        log.append(ended("mine"))
        with pytest.raises(JournalError, match="lost after the commit"):
            await log.aclose()
        other = await journal.begin(started("other"), minted=False)  # its commit takes the release along
        other.append(step_ended("other", 0))
        await other.flush()
        assert {row.run_id: row.state for row in await journal.runs()} == {"mine": "ok", "other": "running"}
        assert await verify_runs(journal, ["mine"]) == ()
        with pytest.raises(JournalError):
            await other.aclose()


@pytest.mark.long
async def test_each_run_waits_for_its_own_patience(tmp_path: Path) -> None:
    """A run that begins late in an outage is not given up with those that waited before it."""
    path = tmp_path / "journal.db"
    async with SqlJournal(path, patience=1.0) as journal:
        first, second = [await journal.begin(started(name), minted=False) for name in ("first", "second")]
        with closing(sqlite3.connect(path, isolation_level=None)) as locker:
            locker.execute("BEGIN EXCLUSIVE")
            first.append(step_ended("first", 0))
            await anyio.sleep(0.8)
            second.append(step_ended("second", 0))
            with pytest.raises(JournalError, match="locked"):
                await first.flush()
        await second.flush()
        second.append(ended("second"))
        await second.aclose()
        with pytest.raises(JournalError):
            await first.aclose()


async def test_nobody_gives_up_before_the_patience_is_over(tmp_path: Path) -> None:
    """Neither who opens the journal nor a run under way."""
    path, patience = tmp_path / "journal.db", 0.25
    async with SqlJournal(path, patience=patience) as journal:
        log = await journal.begin(started("mine"), minted=False)

        async def flush() -> None:
            log.append(step_ended("mine", 0))
            await log.flush()

        async def open_anew() -> None:
            tables = SqlTables(NOTES, path, patience=patience)
            await tables.transaction(lambda each: each.fetch("SELECT 1"))

        with closing(sqlite3.connect(path, isolation_level=None)) as locker:
            locker.execute("BEGIN EXCLUSIVE")
            for use in (flush, open_anew):
                began = anyio.current_time()
                with pytest.raises(JournalError, match="locked"):
                    await use()
                assert anyio.current_time() - began >= patience
        with pytest.raises(JournalError):
            await log.aclose()


@pytest.mark.parametrize("is_open", [True, pytest.param(False, marks=pytest.mark.long)])
async def test_a_run_that_was_never_recorded_says_how_to_start_it(tmp_path: Path, *, is_open: bool) -> None:
    """There is nothing to resume: the same id starts the run once the database works."""
    path = tmp_path / "journal.db"
    journal = SqlJournal(path, patience=0.1)
    conductor = Conductor(boss(""), [ScriptedWorker("a", "one"), ScriptedWorker("b", "two")], journal=journal)
    async with journal:
        pass
    async with conductor if is_open else AsyncExitStack():
        with closing(sqlite3.connect(path, isolation_level=None)) as locker:
            locker.execute("BEGIN EXCLUSIVE")
            with pytest.raises(
                JournalError, match=r"run_id='mine'\)`, or `podium run --run-id mine`, starts it"
            ) as caught:
                await conductor.run(CHAIN, run_id="mine")
        assert caught.value.code == "journal"
        with pytest.raises(RunUnknown):
            await conductor.resume("mine")
        assert (await conductor.run(CHAIN, run_id="mine")).answer == "two"


async def test_a_deleted_file_gets_no_records(tmp_path: Path) -> None:
    """SQLite would write to the deleted file, and the records would be lost without an error."""
    path = tmp_path / "journal.db"
    async with SqlJournal(path, patience=5.0) as journal:
        await journal.check(0.5)
        log = await journal.begin(started("before"), minted=False)
        path.unlink()
        for use in (
            lambda: journal.check(0.5),
            lambda: journal.begin(started("after"), minted=False),
            journal.runs,
        ):
            with anyio.fail_after(3), pytest.raises(JournalError, match="file was deleted or replaced"):
                await use()
        log.append(ended("before"))
        with anyio.fail_after(3), pytest.raises(JournalError, match="file was deleted or replaced"):
            await log.aclose()
    assert not path.exists()
    async with SqlJournal(path) as journal:
        assert await journal.runs() == ()
