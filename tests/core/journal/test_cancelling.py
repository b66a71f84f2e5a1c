"""Transactions whose caller is cancelled, or whose event loop is held up: nothing stays open behind them."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from core.journal.happenings import course, ended, started, step_ended

from podium.errors import RunExists
from podium.journal import SqlJournal

pytestmark = pytest.mark.anyio

Work = Callable[[], Coroutine[Any, Any, object]]
Cancel = Callable[[Work, int], Coroutine[Any, Any, None]]
PATIENCE = 20.0
"""Seconds; longer than anything takes that nobody holds up."""
TURNS = range(0, 60, 3)
"""Of the event loop, after which something is cancelled or held up."""


async def record_one(journal: SqlJournal, run_id: str) -> None:
    """Record a whole run."""
    log = await journal.begin(started(run_id), minted=False)
    for event in course(run_id):
        log.append(event)
    await log.aclose()


async def by_scope(work: Work, turns: int) -> None:
    """Cancel work as anyio does, over and over until it heeds."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        await turn(turns)
        tasks.cancel_scope.cancel()


async def by_task(work: Work, turns: int) -> None:
    """Cancel work as asyncio does, once."""
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
        await record_one(journal, "mine")

        async def claim() -> None:
            await (await journal.claim("mine")).aclose()

        for turns in TURNS:
            for work in (claim, journal.runs, lambda: journal.records("mine")):
                await cancel(work, turns)
            with anyio.fail_after(10):
                while [row.holder for row in await other.runs(prefix="mine")] != [None]:  # noqa: ASYNC110
                    await anyio.sleep(0.01)  # given up by the next commit, which announces nothing
            await (await other.claim("mine")).aclose()
            await record_one(other, f"run{turns}")
        assert len(await other.runs(limit=None)) == 1 + len(TURNS)


@pytest.mark.long
async def test_a_loop_that_is_held_up_holds_up_no_other(place: str) -> None:
    """Whatever a loop was doing in the database when it stood still, another thread's loop writes."""
    failures: list[BaseException] = []

    def elsewhere(run_id: str) -> None:
        try:
            asyncio.run(record_one(SqlJournal(place, patience=PATIENCE), run_id))
        except BaseException as error:  # noqa: BLE001  (told below)
            failures.append(error)

    async with SqlJournal(place) as journal:
        for turns in range(30):
            log = await journal.begin(started(f"here{turns}"), minted=bool(turns % 2))
            log.append(step_ended(log.run_id, 0))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(journal.runs)
                for _ in range(turns):
                    await anyio.lowlevel.checkpoint()
                thread = threading.Thread(target=elsewhere, args=(f"there{turns}",))
                thread.start()
                thread.join()  # blocks this loop, as `run_sync` does
            log.append(ended(log.run_id))
            await log.aclose()
        assert failures == []
        assert len(await journal.runs(limit=None)) == 60


@pytest.fixture
def locked(tmp_path: Path) -> tuple[Path, sqlite3.Connection]:
    """Return a journal's file, and a connection that is to lock it."""
    path = tmp_path / "journal.db"
    asyncio.run(record_one(SqlJournal(path), "first"))
    return path, sqlite3.connect(path, isolation_level=None)


@pytest.mark.parametrize("cancel", [by_scope, pytest.param(by_task, marks=pytest.mark.long)])
async def test_leaving_by_a_cancel_waits_for_no_patience(
    locked: tuple[Path, sqlite3.Connection], cancel: Cancel
) -> None:
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
    await record_one(SqlJournal(path), "other")
    assert {run.run_id for run in await SqlJournal(path).runs()} >= {"first", "other"}


async def test_a_caller_that_is_cancelled_while_it_begins_a_run_that_exists(place: str) -> None:
    """It is cancelled, whenever it is; the refusal never replaces its one cancellation."""
    swallowed: list[int] = []
    async with SqlJournal(place) as journal:
        await record_one(journal, "r")
        for turns in range(0, 40, 3):
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
