"""Requests are admitted within the limits of their key, and their costs are charged."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from uuid import uuid4

import anyio
import pytest
from core.actors import Actor, rows
from server.keys.conftest import both

from podium import Card, Conductor, Limits, Price
from podium.errors import WorkerUnavailable
from podium.journal import SqlJournal
from podium.planners import FixedPlanner
from podium.types import Completion, Result
from podium.usage import Usage
from podium.workers import Request
from podium_server.keys import (
    Ask,
    BudgetReserved,
    Caller,
    KeyAccess,
    KeyInvalid,
    KeyRefused,
    KeyRules,
    KeyStore,
    PolicyUnfit,
    RateLimited,
    TooManyAtOnce,
    Unpriced,
)

pytestmark = pytest.mark.anyio
PRICE = Price(input=0.0, output=100.0)
PLAN = rows((0, "Answer.", []))
COST = 0.01


def conductor(
    wait: Callable[[], Awaitable[object]] | None = None, price: Price | None = PRICE, **limits: float
) -> Conductor:
    """Return a conductor whose runs have one call of 100 tokens for $0.01; the call waits first."""

    async def act(request: Request) -> AsyncGenerator[Completion, None]:
        if wait is not None:
            await wait()
        yield Completion("done", usage=Usage(10, 100))

    worker = Actor(Card(name="w", price=price, labels=frozenset({"eu"})), act)
    return Conductor(FixedPlanner(PLAN), [worker], limits=Limits(answer_tokens=100, **limits))  # type: ignore[arg-type]


def stalling() -> tuple[Conductor, anyio.Event]:
    """Return a conductor whose runs have one call without an end, and an event that the call sets."""
    called = anyio.Event()

    async def wait() -> None:
        called.set()
        await anyio.sleep_forever()

    return conductor(wait), called


async def caller_of(store: KeyStore, access: KeyAccess, **rules: object) -> Caller:
    """Create a key, and return its caller."""
    _, token = await store.create(uuid4().hex, KeyRules(**rules))  # type: ignore[arg-type]
    return await access.authenticate(token)


async def ask(
    access: KeyAccess, caller: Caller, made: Conductor | None = None, *, run_id: str | None = None
) -> Result:
    """Make one request."""
    made, run = made or conductor(), run_id or uuid4().hex
    asked = Ask(model="m", conductor=made, run_id=run, tokens=20, may_exist=run_id is not None)
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
    """Return what the key has spent, in USD."""
    assert caller.key is not None
    await settled(store)
    return sum(day.cost for day in await store.days(caller.key.key_id, "2000")) / 1e9


@both
async def test_requests_at_the_same_time_cannot_spend_more_than_the_budget(
    store: KeyStore, journal: SqlJournal
) -> None:
    """Two replicas admit only what the budget allows by what runs cost; the others are told to wait."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(store)
        replicas = [await stack.enter_async_context(KeyAccess(store, journal=journal)) for _ in range(2)]
        await ask(replicas[0], await caller_of(store, replicas[0]))
        await settled(store)  # what a run costs is known now
        caller = await caller_of(store, replicas[0], day_cost=5 * COST)
        refused: list[KeyRefused] = []
        gate = anyio.Event()

        async def one(number: int) -> None:
            try:
                await ask(replicas[number % 2], caller, conductor(gate.wait))
            except KeyRefused as refusal:
                refused.append(refusal)
            if len(refused) == 15:
                gate.set()

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
    """A run that used more than a minute's tokens makes later requests wait."""
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


async def test_labels_and_policy_of_a_key_apply_to_its_runs(store: KeyStore, journal: SqlJournal) -> None:
    """A plan that the policy of the key forbids does not run."""
    async with store, KeyAccess(store, journal=journal) as access:
        free = await caller_of(store, access, labels=("secret",), regions=("eu",))
        held = await caller_of(store, access, regions=("us",))
        result = await ask(access, free)
        assert (await journal.read(result.run_id))[0].event.labels == {"secret"}  # type: ignore[union-attr]
        with pytest.raises(PolicyUnfit, match=r"Policy\.regions names"):
            await ask(access, held)


@pytest.mark.parametrize("retention_days", [None, 0])
async def test_a_cancelled_run_is_charged_what_may_be_billed(
    retention_days: int | None, store: KeyStore, journal: SqlJournal
) -> None:
    """The call in flight has its worst case, and not the reservation of the whole run."""
    made, called = stalling()
    async with store, journal, KeyAccess(store, journal=journal) as access:
        caller = await caller_of(store, access, day_cost=1.0, retention_days=retention_days)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, access, caller, made)
            await called.wait()
            tasks.cancel_scope.cancel()
        assert await spent(store, caller) == pytest.approx(COST)


async def test_a_request_that_starts_no_run_costs_nothing(store: KeyStore, journal: SqlJournal) -> None:
    """An error before the run frees the reservation."""
    async with store, KeyAccess(store, journal=journal) as access:
        caller = await caller_of(store, access, day_cost=1.0, concurrency=1)
        with pytest.raises(WorkerUnavailable):
            async with access.admit(caller, Ask(model="m", conductor=conductor(), run_id="r")):
                raise WorkerUnavailable("down")
        await settled(store)
        assert (await ask(access, caller)).status == "ok"
        assert await spent(store, caller) == COST


async def test_invalid_keys(store: KeyStore, journal: SqlJournal) -> None:
    """Each refusal says what is wrong with the key."""
    async with store, KeyAccess(store, journal=journal) as access:
        _, token = await store.create("old", KeyRules(), expires=1.0)
        _, revoked = await store.create("revoked", KeyRules())
        await store.revoke("revoked")
        unknown = (await KeyStore.create(store, "other", KeyRules()))[1]
        await store.rotate("other")
        for given, told in (
            (None, "there is no API key"),
            ("sk-123", "malformed"),
            (token, "has expired"),
            (revoked, "is revoked"),
            (unknown, "has expired"),
        ):
            with pytest.raises(KeyInvalid, match=told) as caught:
                await access.authenticate(given)
            assert caught.value.headers == {"www-authenticate": "Bearer"}


async def test_a_revoked_key_starts_no_run(store: KeyStore, journal: SqlJournal) -> None:
    """Also on a replica that still knows the key."""
    async with store, KeyAccess(store, journal=journal) as access:
        _, token = await store.create("alice", KeyRules())
        await access.authenticate(token)
        await store.revoke("alice")
        caller = await access.authenticate(token)
        with pytest.raises(KeyInvalid, match="revoked"):
            await ask(access, caller)
