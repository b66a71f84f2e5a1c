"""Databases and drivers that fail, and callers that are cancelled: nothing stays open or is lost."""

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import asyncpg  # type: ignore[import-untyped]
import pytest
from core.actors import boss, plan_of
from core.journal.happenings import ended, record_run, started

from podium import Conductor, ScriptedWorker
from podium.errors import JournalError, RunExists, RunUnknown
from podium.journal import SqlJournal
from podium.journal.sql import postgres, sqlite

pytestmark = pytest.mark.anyio

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
async def test_a_run_that_was_given_up_is_resumed_by_its_process(tmp_path: Path, *, is_entered: bool) -> None:
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

    async with conductor if is_entered else AsyncExitStack():
        for _ in range(2):
            again = conductor.resume if workers[0].requests else partial(conductor.run, CHAIN)
            with anyio.fail_after(10), pytest.raises(JournalError, match="locked") as caught:
                await again(run_id="mine")
            result = caught.value.result
            assert (caught.value.code, result.problem.code, workers[1].requests) == ("journal", "journal", [])
            assert (result.status != "ok", result.outcomes[0].status) == (True, "ok")
            locker.execute("ROLLBACK")
        locker.close()
        with anyio.fail_after(2):
            result = await conductor.resume("mine")
        assert (result.status, result.answer) == ("ok", "two")


@pytest.mark.parametrize("is_open", [True, pytest.param(False, marks=pytest.mark.long)])
async def test_a_run_that_was_never_recorded_says_how_to_start_it(tmp_path: Path, *, is_open: bool) -> None:
    path = tmp_path / "journal.db"
    journal = SqlJournal(path, patience=0.1)
    conductor = Conductor(boss(""), [ScriptedWorker("a", "one"), ScriptedWorker("b", "two")], journal=journal)
    async with journal:
        pass
    async with conductor if is_open else AsyncExitStack():
        with closing(sqlite3.connect(path, isolation_level=None)) as locker:
            locker.execute("BEGIN EXCLUSIVE")
            told = r"run_id='mine'\)`, or `podium run --run-id mine`, starts it"
            with pytest.raises(JournalError, match=told) as caught:
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
        check, begin = partial(journal.check, 0.5), partial(journal.begin, started("b"), minted=False)
        for use in (check, begin, journal.runs):
            with anyio.fail_after(3), pytest.raises(JournalError, match="file was deleted or replaced"):
                await use()
        log.append(ended("before"))
        with anyio.fail_after(3), pytest.raises(JournalError, match="file was deleted or replaced"):
            await log.aclose()
    assert not path.exists()
    async with SqlJournal(path) as journal:
        assert await journal.runs() == ()


Work = Callable[[], Coroutine[Any, Any, object]]
Cancel = Callable[[Work, int], Coroutine[Any, Any, None]]
PATIENCE = 20.0
"""Seconds; longer than anything takes that nobody holds up."""
TURNS = range(0, 60, 6)
"""Of the event loop, after which something is cancelled or held up."""


async def by_scope(work: Work, turns: int) -> None:
    """Cancel work as anyio does, over and over until it heeds."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        await turn(turns)
        tasks.cancel_scope.cancel()


async def by_task(work: Work, turns: int) -> None:
    task = asyncio.create_task(work())
    await turn(turns)
    task.cancel()
    await asyncio.wait([task])


async def turn(turns: int) -> None:
    """Let the event loop go on for a while, at least a little of which is spent waiting for the database."""
    for _ in range(turns):
        await anyio.lowlevel.checkpoint()
    await anyio.sleep(turns / 10_000)


@pytest.mark.long
@pytest.mark.parametrize("cancel", [by_scope, by_task])
async def test_who_is_cancelled_leaves_no_transaction_and_no_run_behind(place: str, cancel: Cancel) -> None:
    """Whenever it is cancelled: others write at once, and take the run at once."""
    async with SqlJournal(place, patience=PATIENCE) as journal, SqlJournal(place, patience=PATIENCE) as other:
        await record_run(journal, "mine")

        async def claim() -> None:
            await (await journal.claim("mine")).aclose()

        for turns in TURNS:
            for work in (claim, journal.runs, lambda: journal.records("mine")):
                await cancel(work, turns)
            with anyio.fail_after(10):
                while [row.holder for row in await other.runs(prefix="mine")] != [None]:  # noqa: ASYNC110
                    await anyio.sleep(0.01)  # given up by the next commit, which announces nothing
            await (await other.claim("mine")).aclose()
            await record_run(other, f"run{turns}")
        assert len(await other.runs(limit=None)) == 1 + len(TURNS)


@pytest.fixture
def locked(tmp_path: Path) -> tuple[Path, sqlite3.Connection]:
    path = tmp_path / "journal.db"
    asyncio.run(record_run(SqlJournal(path), "first"))
    return path, sqlite3.connect(path, isolation_level=None)


@pytest.mark.long
@pytest.mark.parametrize("cancel", [by_scope, by_task])
async def test_leaving_by_a_cancel_waits_for_no_patience(locked: tuple[Path, Any], cancel: Cancel) -> None:
    """A database that does not answer keeps nobody who is cancelled; the run can be taken up later."""
    path, locking = locked
    locking.execute("BEGIN IMMEDIATE")

    async def carry_out() -> None:
        async with SqlJournal(path, patience=600.0, lease=600.0) as journal:
            log = await journal.begin(started("mine"), minted=True)
            try:
                await anyio.sleep_forever()
            finally:
                await log.aclose()

    with anyio.fail_after(60):
        await cancel(carry_out, 50)
    locking.execute("ROLLBACK")
    locking.close()
    await record_run(SqlJournal(path), "other")
    assert {run.run_id for run in await SqlJournal(path).runs()} >= {"first", "other"}


async def test_a_caller_that_is_cancelled_while_it_begins_a_run_that_exists(place: str) -> None:
    """It is cancelled, whenever it is; the refusal never replaces its one cancellation."""
    swallowed: list[int] = []
    async with SqlJournal(place) as journal:
        await record_run(journal, "r")
        for turns in range(0, 40, 8):
            task = asyncio.create_task(journal.begin(started("r"), minted=False))
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            is_late = task.done()
            task.cancel()
            await asyncio.wait([task])
            if is_late:
                assert isinstance(task.exception(), RunExists)
            elif not task.cancelled():
                swallowed.append(turns)
                task.exception()
    assert not swallowed
