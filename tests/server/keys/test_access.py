"""Requests are admitted within the limits of their key, and charged; keys and sessions are stored."""

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from time import time
from uuid import uuid4

import anyio
import pytest
from core.actors import Actor, rows
from hypothesis import given, strategies as st
from server.scene import both

from podium import Card, Conductor, Limits, Price
from podium.errors import JournalError
from podium.journal import SqlJournal
from podium.planners import FixedPlanner
from podium.secrets import scrub
from podium.types import Completion, Result
from podium.usage import Usage
from podium.workers import Request
from podium_server.keys import (
    Ask,
    BudgetReserved,
    BudgetSpent,
    Caller,
    KeyAccess,
    KeyInvalid,
    KeyRefused,
    KeyRules,
    KeyStore,
    RateLimited,
    Sessions,
    TooManyAtOnce,
    Unpriced,
)
from podium_server.keys.account import BILLION, Account, Bucket, Period, day_of, ends_of
from podium_server.keys.key import is_token, new_token

pytestmark = pytest.mark.anyio
PRICE = Price(input=0.0, output=100.0)
PLAN = rows((0, "Answer.", []))
COST = 0.01


class Gate:
    """Holds calls until it is opened."""

    def __init__(self) -> None:
        self.called, self.opened = anyio.Event(), anyio.Event()

    async def wait(self) -> None:
        self.called.set()
        await self.opened.wait()


def conductor(gate: Gate | None = None, price: Price | None = PRICE, **limits: float) -> Conductor:
    """Return a conductor whose runs have one call of 100 tokens for $0.01; the call waits first."""

    async def act(request: Request) -> AsyncGenerator[Completion, None]:
        if gate is not None:
            await gate.wait()
        yield Completion("done", usage=Usage(10, 100))

    worker = Actor(Card(name="w", price=price, labels=frozenset({"eu"})), act)
    limited = Limits(**{"answer_tokens": 100, **limits})  # type: ignore[arg-type]
    return Conductor(FixedPlanner(PLAN), [worker], limits=limited)


async def caller_of(store: KeyStore, access: KeyAccess, **rules: object) -> Caller:
    _, token = await store.create(uuid4().hex, KeyRules(**rules))  # type: ignore[arg-type]
    return await access.authenticate(token)


async def ask(access: KeyAccess, caller: Caller, made: Conductor | None = None) -> Result:
    made, run = made or conductor(), uuid4().hex
    asked = Ask(model="m", conductor=made, run_id=run, tokens=20)
    async with access.admit(caller, asked) as admission:
        result = await made.run("Why?", run_id=run, **admission.options)
        admission.settle(result)
    return result


async def settled(store: KeyStore) -> None:
    """Wait until all requests are settled."""
    query = "SELECT 1 FROM podium_turns WHERE holder IS NOT NULL"
    with anyio.fail_after(15):
        while await store.transaction(lambda transaction: transaction.fetch(query), reads=True):  # noqa: ASYNC110 - another process may settle them
            await anyio.sleep(0.02)


async def spent(store: KeyStore, caller: Caller) -> float:
    assert caller.key is not None
    await settled(store)
    return sum(day.cost for day in await store.days(caller.key.key_id, "2000")) / 1e9


@both
async def test_requests_at_the_same_time(store: KeyStore, journal: SqlJournal) -> None:
    """They cannot spend more than the budget."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(store)
        replicas = [await stack.enter_async_context(KeyAccess(store, journal=journal)) for _ in range(2)]
        await ask(replicas[0], await caller_of(store, replicas[0]))
        await settled(store)  # what a run costs is known now
        caller = await caller_of(store, replicas[0], day_cost=5 * COST)
        refused: list[KeyRefused] = []
        gate = Gate()

        async def one(number: int) -> None:
            try:
                await ask(replicas[number % 2], caller, conductor(gate))
            except KeyRefused as refusal:
                refused.append(refusal)
            if len(refused) == 15:
                gate.opened.set()

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(one, number)
        assert {type(each) for each in refused} == {BudgetReserved}
        assert refused[0].retry_after
        assert await spent(store, caller) == pytest.approx(5 * COST)


async def test_unknown_prices_refuse_a_key_with_a_budget(store: KeyStore, journal: SqlJournal) -> None:
    """A key without a budget is admitted; with `Limits.unpriced`, each call costs that."""
    async with store, KeyAccess(store, journal=journal) as access:
        limited, free = await caller_of(store, access, run_cost=1.0), await caller_of(store, access)
        with pytest.raises(Unpriced, match="the price of 'w' is unknown"):
            await ask(access, limited, conductor(price=None))
        assert (await ask(access, free, conductor(price=None))).status == "ok"
        assert (await spent(store, limited), await spent(store, free)) == (0, 0)
        await ask(access, limited, conductor(price=None, unpriced=0.002))
        assert await spent(store, limited) == 0.002


async def test_tokens_per_minute_count_what_a_run_used(store: KeyStore, journal: SqlJournal) -> None:
    async with store, KeyAccess(store, journal=journal) as access:
        caller = await caller_of(store, access, tokens_per_minute=100)
        await ask(access, caller)  # 110 tokens
        await settled(store)
        with pytest.raises(RateLimited, match="100 tokens per minute") as caught:
            await ask(access, caller)
        assert caught.value.retry_after == pytest.approx(18, abs=2)


async def test_concurrency(store: KeyStore, journal: SqlJournal) -> None:
    """The third request at the same time is refused; after an end there is room again."""
    async with store, KeyAccess(store, journal=journal) as access:
        caller = await caller_of(store, access, concurrency=2)
        asked = Ask(model="m", conductor=conductor(), run_id="r")
        async with access.admit(caller, asked), access.admit(caller, asked):
            with pytest.raises(TooManyAtOnce, match="2 requests at the same time"):
                await ask(access, caller)
        await settled(store)
        assert (await ask(access, caller)).status == "ok"


@pytest.mark.parametrize("retention_days", [None, 0])
async def test_a_cancelled_run(retention_days: int | None, store: KeyStore, journal: SqlJournal) -> None:
    """It is charged what may be billed."""
    gate = Gate()
    async with store, journal, KeyAccess(store, journal=journal) as access:
        caller = await caller_of(store, access, day_cost=1.0, retention_days=retention_days)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, access, caller, conductor(gate))
            await gate.called.wait()
            tasks.cancel_scope.cancel()
        assert await spent(store, caller) == pytest.approx(COST)


async def test_invalid_keys(store: KeyStore, journal: SqlJournal) -> None:
    async with store, KeyAccess(store, journal=journal) as access:
        _, token = await store.create("old", KeyRules(), expires=1.0)
        _, revoked = await store.create("revoked", KeyRules())
        await store.revoke("revoked")
        _, rotated = await store.create("other", KeyRules())
        await store.rotate("other")
        for given, told in (
            (None, "there is no API key"),
            ("sk-123", "malformed"),
            (token, "has expired"),
            (revoked, "is revoked"),
            (rotated, "has expired"),
        ):
            with pytest.raises(KeyInvalid, match=told) as caught:
                await access.authenticate(given)
            assert caught.value.headers == {"www-authenticate": "Bearer"}
        _, token = await store.create("alice", KeyRules())
        await access.authenticate(token)
        await store.revoke("alice")
        caller = await access.authenticate(token)  # as on a replica that still knows the key
        with pytest.raises(KeyInvalid, match="revoked"):
            await ask(access, caller)


@both
async def test_a_run_that_another_request_executes(journal: SqlJournal) -> None:
    """The request of a process that died is settled after the run, whose calls may cost less than now."""
    journal = SqlJournal(journal.url, lease=0.4)
    store, gate = KeyStore(journal), Gate()
    async with journal, store, KeyAccess(store, journal=journal) as access:
        caller = await caller_of(store, access, day_cost=1.0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, access, caller, conductor(gate, answer_tokens=1000))
            await gate.called.wait()
            dead = """
                INSERT INTO podium_turns (turn_id, key_id, run_id, day, cost, holder, began, forget_at)
                SELECT 'dead', key_id, run_id, day, cost, 'dead', began, forget_at FROM podium_turns
            """
            await store.transaction(lambda each: each.execute(dead))
            await anyio.sleep(0.5)  # the housekeeping finds the dead request
            gate.opened.set()
        assert await spent(store, caller) == COST


@pytest.mark.long
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


async def test_the_text_is_not_stored(tmp_path: Path) -> None:
    path = tmp_path / "keys.db"
    _, token = await KeyStore(path).create("alice", KeyRules())
    with closing(sqlite3.connect(path)) as database:
        dump = "\n".join(database.iterdump())
    assert token[-4:] in dump
    assert token[10:30] not in dump


async def test_a_session_ends_with_its_key(store: KeyStore) -> None:
    sessions = Sessions(store)
    key, _ = await store.create("alice", KeyRules(), expires=time() + 60)
    begun = await sessions.begin(key)
    assert begun.until == key.expires
    await store.revoke("alice")
    with pytest.raises(KeyInvalid):
        await sessions.find(begun.token)


@given(at=st.integers(0, 58), digit=st.sampled_from("0aZ-é"))
def test_a_mistyped_key_is_recognized(at: int, digit: str) -> None:
    token = new_token()
    mistyped = token[:at] + digit + token[at + 1 :]
    assert is_token(token)
    assert mistyped == token or not is_token(mistyped)
    assert not is_token(token[:at])
    assert not is_token(token + digit)
    assert token not in scrub(f"the key {token} was refused")


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def account(spent: int, reserved: int, *, most: int = 100) -> Account:
    periods = (Period("day", most, spent, reserved, end=86_400.0),)
    return Account(KeyRules(day_cost=most / BILLION), 0.0, 0, None, None, periods)


@given(
    most=st.integers(1, 1000),
    orders=st.lists(st.tuples(st.integers(1, 300), st.floats(0, 1), st.booleans()), max_size=60),
)
def test_reservations_stay_within_the_budget(most: int, orders: list[tuple[int, float, bool]]) -> None:
    """Whatever is admitted and settled in any order: reserved and spent amounts stay within the budget."""
    current = account(0, 0, most=most)
    running: list[int] = []
    for wanted, share, settles in orders:
        if settles and running:
            reserved = running.pop(0)
            current.settle("1970-01-01", reserved, int(reserved * share), 0)
        else:
            try:
                running.append(current.admit(wanted, 0, wanted))
            except KeyRefused:
                continue
            assert 0 < running[-1] <= wanted
        (period,) = current.periods
        assert period.reserved == sum(running)
        assert period.spent + period.reserved <= most


def test_the_rest_is_granted_only_if_no_run_may_leave_more() -> None:
    assert (account(90, 0).admit(None, 0, 50), account(0, 0).admit(40, 0, 50)) == (10, 40)
    assert account(50, 40).raise_by(50) == 10
    for refusal, reserves in (
        (BudgetReserved, lambda: account(50, 40).admit(None, 0, 50)),
        (BudgetReserved, lambda: account(50, 50).raise_by(50)),
        (BudgetSpent, lambda: account(100, 0).admit(None, 0, 50)),
        (BudgetSpent, lambda: account(90, 0).admit(None, 0, 50, is_new=True)),
    ):
        with pytest.raises(refusal):
            reserves()


@given(size=st.integers(1, 100), waits=st.lists(st.floats(-100, 100), max_size=200))
def test_a_bucket_admits_its_size_and_what_was_filled_in(size: int, waits: list[float]) -> None:
    left: float | None = None
    admitted, seconds = 0, 0.0
    for wait in waits:
        bucket = Bucket.filled(size, left, wait)
        assert bucket is not None
        seconds += max(wait, 0.0)
        if bucket.wait(1) == 0:
            bucket.left -= 1
            admitted += 1
        left = bucket.left
    assert admitted <= size + seconds * size / 60 + 1e-6


@pytest.mark.parametrize(
    ("time", "day", "tomorrow", "next_month"),
    [
        ("2026-11-30T23:59:59.999", "2026-11-30", "2026-12-01", "2026-12-01"),
        ("2026-12-01T00:00:00", "2026-12-01", "2026-12-02", "2027-01-01"),
        ("2028-02-28T12:00:00", "2028-02-28", "2028-02-29", "2028-03-01"),
        ("2026-12-31T23:00:00", "2026-12-31", "2027-01-01", "2027-01-01"),
        ("2026-01-31T01:00:00", "2026-01-31", "2026-02-01", "2026-02-01"),
    ],
)
def test_days_and_months_are_in_utc(time: str, day: str, tomorrow: str, next_month: str) -> None:
    assert (day_of(at(time)), ends_of(day)) == (day, (at(tomorrow), at(next_month)))
