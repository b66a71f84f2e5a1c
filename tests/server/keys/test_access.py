"""Requests are admitted within the limits of their key, and their costs are charged."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from uuid import uuid4

import anyio
import pytest
from core.actors import Actor, rows

from podium import Card, Conductor, Limits, Price
from podium.errors import RunUnknown, WorkerUnavailable
from podium.journal import SqlJournal
from podium.planners import FixedPlanner
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
    ModelNotAllowed,
    NoKeys,
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


async def test_an_admitted_run_is_charged(store: KeyStore, journal: SqlJournal) -> None:
    """The budget has the cost of the run, and the day has its request and its tokens."""
    async with store, KeyAccess(store, journal=journal) as access:
        caller = await caller_of(store, access, day_cost=1.0)
        await ask(access, caller)
        assert await spent(store, caller) == COST
        assert caller.key is not None
        (day,) = await store.days(caller.key.key_id, "2000")
        assert (day.requests, day.input_tokens, day.output_tokens) == (1, 10, 100)
        assert (await store.key(caller.key.key_id)).last_used is not None


async def test_a_spent_budget_refuses_requests(store: KeyStore, journal: SqlJournal) -> None:
    """The refusal names the budget and its end; OpenAI's clients do not repeat the request."""
    async with store, KeyAccess(store, journal=journal) as access:
        caller = await caller_of(store, access, day_cost=0.03, run_cost=COST)
        for _ in range(3):
            await ask(access, caller)
        with pytest.raises(BudgetSpent, match=r"the budget of this day, \$0.03, is spent") as caught:
            await ask(access, caller)
        headers = caught.value.headers
        assert 0 < int(headers["retry-after"]) <= 86_400
        assert headers["x-should-retry"] == "false"
        assert await spent(store, caller) == pytest.approx(0.03)


async def test_the_rest_of_the_budget_limits_the_run(store: KeyStore, journal: SqlJournal) -> None:
    """A run that needs more than the rest of the budget makes no call."""
    async with store, KeyAccess(store, journal=journal) as access:
        caller = await caller_of(store, access, month_cost=0.015, run_cost=COST)
        assert (await ask(access, caller)).status == "ok"
        await settled(store)
        second = await ask(access, caller)
        assert (second.status, second.problem and second.problem.code) == ("failed", "limit")
        assert await spent(store, caller) == COST


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
    """An unknown cost is not 0; a key without a budget is admitted."""
    async with store, KeyAccess(store, journal=journal) as access:
        limited, free = await caller_of(store, access, run_cost=1.0), await caller_of(store, access)
        with pytest.raises(Unpriced, match="the price of 'w' is unknown"):
            await ask(access, limited, conductor(price=None))
        assert (await ask(access, free, conductor(price=None))).status == "ok"
        assert (await spent(store, limited), await spent(store, free)) == (0, 0)


async def test_unpriced_calls_count_as_the_assumed_cost(store: KeyStore, journal: SqlJournal) -> None:
    """`Limits.unpriced` is charged for each call."""
    made = conductor(price=None, unpriced=0.002)
    async with store, KeyAccess(store, journal=journal) as access:
        caller = await caller_of(store, access, day_cost=1.0)
        await ask(access, caller, made)
        assert await spent(store, caller) == 0.002


async def test_requests_per_minute(store: KeyStore, journal: SqlJournal) -> None:
    """The headers count down, and the next request is refused with a time."""
    async with store, KeyAccess(store, journal=journal) as access:
        caller = await caller_of(store, access, requests_per_minute=2, tokens_per_minute=1000)
        seen = []
        for _ in range(2):
            async with access.admit(caller, Ask(model="m", conductor=conductor(), run_id="r")) as admission:
                seen.append(admission.headers)
        assert [each["x-ratelimit-remaining-requests"] for each in seen] == ["1", "0"]
        assert seen[0]["x-ratelimit-limit-requests"] == "2"
        assert seen[0]["x-ratelimit-reset-requests"] == "30s"
        assert seen[0]["x-ratelimit-limit-tokens"] == "1000"
        with pytest.raises(RateLimited, match="2 requests per minute") as caught:
            await ask(access, caller)
        assert 25 <= int(caught.value.headers["retry-after"]) <= 30


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


async def test_models_of_a_key(store: KeyStore, journal: SqlJournal) -> None:
    """Other models do not exist for the key."""
    async with store, KeyAccess(store, journal=journal) as access:
        caller = await caller_of(store, access, models=("mini",))
        assert (caller.may_call("mini"), caller.may_call("m")) == (True, False)
        with pytest.raises(ModelNotAllowed, match="the model 'm' does not exist"):
            await ask(access, caller)


async def test_labels_and_policy_of_a_key_apply_to_its_runs(store: KeyStore, journal: SqlJournal) -> None:
    """A plan that the policy of the key forbids does not run."""
    async with store, KeyAccess(store, journal=journal) as access:
        free = await caller_of(store, access, labels=("secret",), regions=("eu",))
        held = await caller_of(store, access, regions=("us",))
        result = await ask(access, free)
        assert (await journal.read(result.run_id))[0].event.labels == {"secret"}  # type: ignore[union-attr]
        with pytest.raises(PolicyUnfit, match=r"Policy\.regions names"):
            await ask(access, held)


async def test_a_key_without_retention_leaves_no_texts(store: KeyStore, journal: SqlJournal) -> None:
    """Its run is not in the journal, and its cost is charged also if it is cancelled."""
    async with store, journal, KeyAccess(store, journal=journal) as access:
        caller = await caller_of(store, access, retention_days=0, day_cost=1.0)
        result = await ask(access, caller)
        with pytest.raises(RunUnknown):
            await journal.read(result.run_id)
        assert await spent(store, caller) == COST


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


async def test_a_repeated_run_is_paid_for_once(store: KeyStore, journal: SqlJournal) -> None:
    """The second request with the same run gets the recorded answer."""
    async with store, journal, KeyAccess(store, journal=journal) as access:
        caller = await caller_of(store, access, day_cost=1.0)
        first = await ask(access, caller, run_id="mine")
        again = await ask(access, caller, run_id="mine")
        assert first.answer == again.answer
        assert await spent(store, caller) == COST
        assert caller.key is not None
        assert await access.owner("mine") == caller.caller_id
        assert await access.owner("other") is None


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


async def test_roles(store: KeyStore, journal: SqlJournal) -> None:
    """Each role includes the roles before it; a key sees its own runs."""
    async with store, KeyAccess(store, journal=journal) as access:
        user, admin = await caller_of(store, access), await caller_of(store, access, role="admin")
        result = await ask(access, user)
        assert await access.may_see(user, result.run_id)
        assert await access.may_see(admin, result.run_id)
        other = await ask(access, admin)
        assert not await access.may_see(user, other.run_id)
        assert (user.may("use"), user.may("see")) == (True, False)
        assert all(admin.may(role) for role in ("use", "see", "approve", "admin"))


async def test_a_server_without_keys_admits_everybody() -> None:
    """The caller may do everything."""
    access = NoKeys()
    caller = await access.authenticate("anything")
    made = conductor()
    async with access.admit(caller, Ask(model="m", conductor=made, run_id="r")) as admission:
        result = await made.run("Why?", **admission.options)
        admission.settle(result)
    assert (admission.headers, caller.may("admin"), caller.caller_id) == ({}, True, "local")
