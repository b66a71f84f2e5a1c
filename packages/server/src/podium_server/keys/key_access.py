"""Admits requests with the keys of a database."""

from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from math import ceil
from time import monotonic, time
from types import TracebackType
from typing import Literal, Self
from uuid import uuid4

import anyio

from podium.budget import Limits
from podium.conductor import Conductor
from podium.errors import ConfigError, JournalBroken, JournalError, LimitExceeded, PodiumError, RunHeld
from podium.journal import Journal, MemoryJournal
from podium.run import RunOptions
from podium.types import Result
from podium_server.keys.access import KNOWN_SECONDS, Access, Admission, Ask
from podium_server.keys.account import (
    BILLION,
    BUSY_SECONDS,
    Account,
    Bill,
    Period,
    bill_of,
    cost_of_run,
    read_budgets,
)
from podium_server.keys.key import (
    BudgetReserved,
    BudgetSpent,
    Caller,
    Key,
    KeyInvalid,
    PolicyUnfit,
    RateLimited,
    Unpriced,
    is_token,
    token_hash,
)
from podium_server.keys.ledger import LOGGER, Bid, Grant, Housekeeping, Ledger
from podium_server.keys.recorded import recorded_run
from podium_server.keys.sessions import Sessions
from podium_server.keys.store import Found, KeyStore

_MOST_KNOWN = 10_000
_HELD_SECONDS = 10.0
_PLANNER_TOKENS = 2000
"""Fewest tokens that are reserved for the prompt of a planner."""
_ANSWER_TOKENS = 64
"""Tokens of the shortest answer that is reserved."""
_RETRY_SECONDS = 1.0
"""How long to wait before the journal is read again."""


class KeyAccess(Access):
    """Admits requests with keys, and charges their costs to the budgets of the keys.

    Args:
        store: the keys.
        journal: records the runs of keys that keep texts; `None` records no runs.
    """

    def __init__(self, store: KeyStore, *, journal: Journal | None) -> None:
        self._store = store
        self._journal = journal
        self._ledger = Ledger(store)
        self._housekeeping = Housekeeping(store, self._ledger, journal)
        self._period = store.journal.lease / 4
        self._known: OrderedDict[str, tuple[Found, float]] = OrderedDict()
        """What is known about the keys, by hash, and until when on the monotonic clock."""
        self._sessions = Sessions(store)
        self._opened = AsyncExitStack()

    async def authenticate(self, token: str | None) -> Caller:
        """Return the caller with this key."""
        if not token:
            raise KeyInvalid("there is no API key: send it in the header `Authorization: Bearer …`")
        if not is_token(token):
            raise KeyInvalid("the API key is malformed: it begins with podium_sk_ and may be cut or mistyped")
        found = await self._find(token)
        return _valid(None if found is None else found.key, None if found is None else found.until)

    async def caller(self, caller_id: str) -> Caller:
        """Return the caller with this id."""
        key = await self._store.by_id(caller_id)
        return _valid(key, None if key is None else key.expires)

    async def _find(self, token: str) -> Found | None:
        digest, now = token_hash(token), monotonic()
        found, until = self._known.get(digest, (None, 0.0))
        if until > now:
            return found
        self._known.pop(digest, None)
        found = await self._store.find(token)
        if found is not None:
            self._known[digest] = found, now + KNOWN_SECONDS
            if len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
        return found

    @asynccontextmanager
    async def admit(self, caller: Caller, ask: Ask) -> AsyncGenerator[Admission, None]:
        """Reserve the cost of the run, and charge it at the end."""
        assert caller.key is not None
        key = caller.key
        caller.check_model(ask.model)
        limits = _limits(key, ask.conductor)
        keeps = caller.keeps_texts and ask.is_recorded
        journal = self._journal if keeps and self._journal is not None else MemoryJournal()
        bid = _bid(key, ask, limits)
        grant = await self._ledger.admit(bid)
        admission = KeyAdmission(bid, grant, self._ledger, _options(key, limits, bid, grant, journal))
        try:
            yield admission
        finally:
            if admission.bill is not None:
                self._ledger.settle(admission.bill)
            else:
                self._ledger.start(self._settle_unfinished, admission)

    async def check_budget(self, caller: Caller, ask: Ask) -> None:
        """Check that the budget of the key is not spent, and has enough for the first call of the run."""
        key = caller.key
        if key is None or not key.rules.has_budget:
            return
        bid = _bid(key, ask, _limits(key, ask.conductor))
        account = Account(key.rules, time(), 0, None, None, await read_budgets(self._store, key))
        with suppress(BudgetReserved):  # until the running requests have ended
            account.admit(bid.cost, 0, bid.least, is_new=bid.is_new)

    async def _settle_unfinished(self, admission: "KeyAdmission") -> None:
        """Settle a request that ended without a result, such as a request whose client disconnected.

        While the journal cannot be read, or another request continues the run, the request keeps its
        reservation. If the process ends before, its lease ends too.
        """
        journal, bid = admission.options["journal"], admission.bid
        assert journal is not None
        while True:
            try:
                run = await recorded_run(journal, bid.run_id, _HELD_SECONDS)
            except RunHeld:
                continue  # another request has continued the run
            except JournalBroken as error:
                LOGGER.warning("run %s is charged its reservation: %s", bid.run_id, error)
                self._ledger.settle(replace(bid.unused(), is_priced=False))
                return
            except JournalError as error:
                LOGGER.warning("run %s is charged later: %s", bid.run_id, error)
                await anyio.sleep(_RETRY_SECONDS)
            else:
                break
        if run is not None:
            admission.settle(run.result, run.excess)
        self._ledger.settle(admission.bill or bid.unused())

    async def prune(self, before: float) -> int:
        """Delete the rows of old requests; see `KeyStore.prune`."""
        return await self._store.prune(before)

    async def check(self, patience: float) -> None:
        """Check that the ledger can be written."""
        await self._store.journal.check(patience)

    @property
    def store(self) -> KeyStore:
        """The keys."""
        return self._store

    @property
    def sessions(self) -> Sessions:
        """The sessions of browsers."""
        return self._sessions

    async def budgets(self, caller: Caller) -> Sequence[Period]:
        """Return the budgets of the key."""
        assert caller.key is not None
        return await read_budgets(self._store, caller.key)

    async def owner(self, run_id: str) -> str | None:
        """Return the id of the key that began a run."""
        query = "SELECT key_id FROM podium_turns WHERE run_id = ? ORDER BY began LIMIT 1"
        rows = await self._store.transaction(lambda each: each.fetch(query, run_id), reads=True)
        return rows[0]["key_id"] if rows else None

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._ledger)
            self._ledger.start(self._housekeeping.run, self._period)
            self._opened = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._opened.__aexit__(kind, error, traceback)


def _valid(key: Key | None, until: float | None) -> Caller:
    """Return the caller with a key; raise `KeyInvalid` if the key cannot be used."""
    if key is None:
        raise KeyInvalid("the API key is unknown")
    if key.revoked is not None:
        raise KeyInvalid("the API key is revoked")
    if until is not None and until <= time():
        raise KeyInvalid("the API key has expired")
    return Caller(key)


@dataclass(slots=True)
class KeyAdmission(Admission):
    """The admission of a request with a key."""

    bid: Bid
    grant: Grant
    ledger: Ledger
    options: RunOptions
    headers: Mapping[str, str] = field(init=False)
    bill: Bill | None = field(init=False, default=None)
    """`None` until the request is settled."""
    _refusal: BudgetSpent | None = field(init=False, default=None)
    """Why the run may make no further call."""
    _raising: anyio.Lock = field(init=False, default_factory=anyio.Lock)

    def __post_init__(self) -> None:
        self.headers = limit_headers(self.grant)
        if self.grant.budget is not None:
            self.options["allows"] = self._allows

    async def _allows(self, spent: float) -> None:
        """Raise the reservation before a call of a run that has spent it.

        So a key spends more than its budget only by what the calls in flight cost.
        """
        cost = round(spent * BILLION)
        async with self._raising:
            if cost < self.grant.reserved:
                return
            try:
                bid = replace(self.bid, raised=cost + self.grant.usual)
                self.grant = await self.ledger.admit(bid)
            except RateLimited:
                told = "the rest of the budget of the API key is reserved for its other running requests"
                self._refusal = BudgetSpent(f"{told}: continue the run when they have ended", BUSY_SECONDS)
            except BudgetSpent as refusal:
                self._refusal = refusal
            else:
                return
        raise LimitExceeded("cost", str(self._refusal))

    def failure(self, error: PodiumError) -> PodiumError:
        """Return an error that says which limit of the key a run has reached, if it has reached one."""
        if (refusal := self._refusal) is None:
            if not self.bid.key.rules.has_budget or "Limits.cost" not in str(error):
                return error
            most, budget = _most(self.bid, self.grant), self.grant.budget
            left = f"${(most or 0) / BILLION:g}"
            if budget is None or most == self.bid.cost:
                told = f"the API key allows {left} for this run: see --run of `podium keys create`"
                error.args = (f"{error} ({told})", *error.args[1:])
                return error
            told = f"{left} is left of {budget.told} and the run may need more: {budget.next}"
            refusal = BudgetSpent(told, budget.end - self.grant.now)
        refusal.run_id = self.bid.run_id
        return refusal

    def settle(self, result: Result, excess: float = 0.0) -> None:
        """Charge the part of the cost and of the tokens that no other request for the run has paid."""
        bid = self.bid
        limits = self.options.get("limits")
        self.bill = bill_of(bid.turn_id, bid.key, result, limits, expected=bid.tokens, excess=excess)


def _limits(key: Key, conductor: Conductor) -> Limits:
    """Return the limits of the conductor's runs."""
    if (policy := key.rules.policy) is not None or key.rules.labels:
        own, cards = conductor.policy, conductor.pool.cards
        try:
            if policy is not None:
                (policy & own).fit(cards)
            own.check_labels(key.rules.labels, cards)
        except ConfigError as error:
            raise PolicyUnfit(f"the API key may not call this model: {error}") from error
    limits = conductor.limits
    if key.rules.has_budget and limits.unpriced is None and (unpriced := conductor.unpriced):
        told = f"the API key has a budget, and the price of {', '.join(map(repr, unpriced))} is unknown"
        raise Unpriced(f"{told}: set the `price` of the worker, or `unpriced` in [limits]")
    return limits


def _bid(key: Key, ask: Ask, limits: Limits) -> Bid:
    """Return the bid for the run of a request, with the limits of its conductor."""
    is_new = ask.first is not None
    least = least_cost(ask.conductor, ask.tokens, ask.first or "worker") if key.rules.has_budget else 0
    return Bid(
        turn_id=uuid4().hex,
        key=key,
        run_id=ask.run_id,
        cost=cost_of_run(key.rules, limits.cost),
        tokens=ask.tokens,
        least=least,
        is_new=is_new,
        is_recorded=ask.is_recorded,
    )


def least_cost(conductor: Conductor, tokens: int, first: Literal["planner", "worker"]) -> int:
    """Return what the first call of a run costs at least, in billionths of a dollar."""
    planner = conductor.planner.card if first == "planner" else None
    read = tokens + (_PLANNER_TOKENS if planner is not None else 0)
    cards = conductor.pool.cards if planner is None else [planner]
    costs = [card.most(read, _ANSWER_TOKENS) or 0.0 for card in cards]
    return ceil(min(costs) * BILLION)


def _most(bid: Bid, grant: Grant) -> int | None:
    """Return what a run may cost: by its own limit, and by what other requests leave of the budget."""
    if grant.budget is None:
        return bid.cost
    left = grant.reserved + grant.budget.left
    return left if bid.cost is None else min(bid.cost, left)


def _options(key: Key, limits: Limits, bid: Bid, grant: Grant, journal: Journal) -> RunOptions:
    options = RunOptions(labels=frozenset(key.rules.labels), policy=key.rules.policy, journal=journal)
    if key.rules.has_budget and (most := _most(bid, grant)) is not None:
        options["limits"] = replace(limits, cost=most / BILLION)
    if key.rules.retention_days is not None:  # the cache has no end of its answers for each key
        options["uses_cache"] = False
    return options


def limit_headers(grant: Grant) -> dict[str, str]:
    """Return the headers of an admitted request."""
    headers: dict[str, str] = {}
    for name, bucket in (("requests", grant.requests), ("tokens", grant.tokens)):
        if bucket is not None:
            headers[f"x-ratelimit-limit-{name}"] = str(bucket.size)
            headers[f"x-ratelimit-remaining-{name}"] = str(max(int(bucket.left), 0))
            headers[f"x-ratelimit-reset-{name}"] = _duration(bucket.reset)
    return headers


def _duration(seconds: float) -> str:
    """Return a time span as OpenAI writes it: 120ms, 3.5s or 1m2s."""
    if seconds < 1:
        return f"{ceil(seconds * 1000)}ms"
    minutes, rest = divmod(round(seconds, 3), 60)
    return f"{int(minutes)}m{rest:g}s" if minutes else f"{rest:g}s"
