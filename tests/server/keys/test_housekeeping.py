"""Prompts and answers are deleted after their time, and failures of the database lose no charge."""

import sqlite3
from pathlib import Path
from uuid import uuid4

import anyio
import pytest
from server.keys.conftest import both
from server.keys.test_access import COST, PLAN, ask, caller_of, conductor, settled, spent

from podium import Conductor, Limits
from podium.errors import JournalError, RunUnknown
from podium.journal import SqlJournal
from podium.planners import FixedPlanner
from podium_server.keys import Ask, KeyAccess, KeyRules, KeyStore
from podium_server.keys.account import Amounts, Bill
from podium_server.keys.ledger import Bid, Ledger

pytestmark = pytest.mark.anyio


async def test_runs_are_deleted_after_the_retention(store: KeyStore, journal: SqlJournal) -> None:
    """Runs of other keys stay, and so do the costs of the key."""
    async with journal, store:
        async with KeyAccess(store, journal=journal) as access:
            short = await caller_of(store, access, retention_days=1)
            first, second = await ask(access, short), await ask(access, short)
            other = await ask(access, await caller_of(store, access))
            await settled(store)
        for result in (first, second, other):
            assert await journal.read(result.run_id)
        await store.transaction(
            lambda each: each.execute(
                "UPDATE podium_turns SET forget_at = forget_at - 86400 WHERE run_id = ?", first.run_id
            )
        )
        async with KeyAccess(store, journal=journal):
            with anyio.fail_after(10):
                while await _exists(journal, first.run_id):  # noqa: ASYNC110 - a database has no events
                    await anyio.sleep(0.05)
        assert await _exists(journal, second.run_id)
        assert await _exists(journal, other.run_id)
        assert await spent(store, short) == 2 * COST


@both
async def test_a_run_that_another_request_executes(journal: SqlJournal) -> None:
    """The request of a process that died is settled after the run, whose calls may cost less than now."""
    journal = SqlJournal(journal.url, lease=0.4)
    store = KeyStore(journal)
    gate, called = anyio.Event(), anyio.Event()

    async def wait() -> None:
        called.set()
        await gate.wait()

    made = Conductor(FixedPlanner(PLAN), conductor(wait).pool.workers, limits=Limits(answer_tokens=1000))
    async with journal, store, KeyAccess(store, journal=journal) as access:
        caller = await caller_of(store, access, day_cost=1.0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, access, caller, made)
            await called.wait()
            dead = """
                INSERT INTO podium_turns (turn_id, key_id, run_id, day, cost, holder, began, forget_at)
                SELECT 'dead', key_id, run_id, day, cost, 'dead', began, forget_at FROM podium_turns
            """
            await store.transaction(lambda each: each.execute(dead))
            await anyio.sleep(0.5)  # the housekeeping finds the dead request
            gate.set()
        assert await spent(store, caller) == COST


async def _exists(journal: SqlJournal, run_id: str) -> bool:
    try:
        await journal.read(run_id)
    except RunUnknown:
        return False
    return True


async def test_a_failing_database_admits_nothing_and_loses_no_charge(tmp_path: Path) -> None:
    """While the file is locked, requests fail; a charge is written when the lock is released."""
    path = tmp_path / "runs.db"
    store = KeyStore(path, patience=0.2)
    async with store, KeyAccess(store, journal=None) as access:
        caller, made = await caller_of(store, access, day_cost=1.0), conductor()
        async with access.admit(caller, Ask(model="m", conductor=made, run_id=uuid4().hex)) as admission:
            admission.settle(await made.run("Why?", **admission.options))
            locked = sqlite3.connect(path, isolation_level=None)
            locked.execute("BEGIN EXCLUSIVE")
        with pytest.raises(JournalError):
            await ask(access, caller)
        locked.execute("ROLLBACK")
        locked.close()
        assert await spent(store, caller) == COST


@pytest.mark.parametrize(
    ("bills", "charged"),
    [
        ((("one", 600), ("two", 5404), ("one", 600)), 5404),
        ((("one", 600), ("two", 5404), ("one", 6000)), 6000),
    ],
)
async def test_a_late_bill_takes_nothing_back(
    store: KeyStore, bills: tuple[tuple[str, int], ...], charged: int
) -> None:
    """A process was suspended, another settled its request and continued the run, and the first goes on."""
    async with store, Ledger(store) as ledger:
        key, _ = await store.create("alice", KeyRules())
        for name in ("one", "two"):
            await ledger.admit(Bid(turn_id=name, key=key, run_id="run", cost=9000, tokens=0))
        for name, cost in bills:
            ledger.settle(Bill(turn_id=name, key=key, run=Amounts(cost)))
            await anyio.sleep(0.2)
    assert sum(day.cost for day in await store.days(key.key_id, "2000")) == charged
