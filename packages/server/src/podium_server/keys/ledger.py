"""The shared ledger of all keys: admits and settles requests in batches, on any number of replicas.

While one transaction is committed, further requests wait for the next. When the lease of a replica has ended,
or its process, another replica settles its reservations.
"""

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from types import TracebackType
from typing import Any, Self

import anyio
from anyio.abc import TaskGroup

from podium.errors import JournalBroken, JournalError, PodiumError, RunHeld, RunUnknown
from podium.journal import Journal, Transaction
from podium.journal.sql.database import marks
from podium.journal.sql.lease import Lease
from podium_server.background_tasks import repeat
from podium_server.keys.account import (
    Account,
    Amounts,
    Bill,
    Bucket,
    DaySpent,
    Period,
    Row,
    Turn,
    add_days,
    bill_of,
    day_of,
    ended_turns,
    periods_of,
    put_turns,
    read_amounts,
    read_paid,
    read_turns,
)
from podium_server.keys.key import BudgetReserved, Key, KeyInvalid, KeyRefused
from podium_server.keys.recorded import recorded_run
from podium_server.keys.store import KeyStore

LOGGER = logging.getLogger("podium")
_NONE_OPEN = dict.fromkeys(
    ("running", "usual", "day_spent", "month_spent", "day_reserved", "month_reserved"), 0
)
_STATE = "SELECT key_id, revoked, last_used, requests_left, tokens_left, filled"
_FILL = (
    "UPDATE podium_keys SET requests_left = ?, tokens_left = ?, filled = ?, last_used = ? WHERE key_id = ?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bid:
    """A request that asks for admission."""

    turn_id: str
    """A new random id."""
    key: Key
    run_id: str
    cost: int | None
    """Maximum cost of the run, in billionths of a dollar; `None` if it has no limit."""
    tokens: int
    """Tokens that count before the run ends, such as those of the request."""
    least: int = 0
    """What the first call of the run costs at least, in billionths of a dollar."""
    is_new: bool = False
    """Whether the run needs this call, because it has not begun before."""
    raised: int | None = None
    """For a request that was admitted: the reservation that it asks for now."""
    is_recorded: bool = True
    """Whether the run may be recorded."""

    def unused(self) -> Bill:
        """Return the bill of a request that was not carried out."""
        return Bill(turn_id=self.turn_id, key=self.key, run=Amounts(), expected=self.tokens)


@dataclass(frozen=True, slots=True)
class Grant:
    """The admission of a request."""

    reserved: int
    """In billionths of a dollar."""
    requests: Bucket | None
    """The rate limits after the admission; `None` if the key has none."""
    tokens: Bucket | None
    usual: int
    """What such a run costs, in billionths of a dollar."""
    budget: Period | None
    """The budget of which the least is left beside the reservations; `None` if there is none."""
    now: float
    """Time of the database, in seconds of Unix time."""


Answer = Grant | KeyRefused


@dataclass(slots=True)
class Batch:
    """The requests that one transaction admits and settles; a second bill of one replaces the first."""

    bids: Sequence[Bid]
    bills: Sequence[Bill]
    holder: str
    now: str
    for_update: str
    _attempts: int = field(init=False, default=0)
    _rows: dict[str, Row] = field(init=False)
    """The locked rows of the keys."""
    _turns: dict[str, Turn] = field(init=False)
    """The requests that an earlier transaction has admitted."""
    _paid: dict[str, Amounts] = field(init=False)
    """What was paid for the runs of the bills, by the ids of the runs."""
    _accounts: dict[str, Account] = field(init=False)
    _changed: dict[str, Turn] = field(init=False)
    _days: dict[tuple[str, str], DaySpent] = field(init=False)

    async def commit(self, transaction: Transaction) -> dict[str, Answer]:
        """Carry out the batch, and return the answer to each bid, by the id of its turn.

        A second call changes nothing if the transaction of the first was committed, and its acknowledgement
        was lost.
        """
        self._attempts += 1
        await self._read(transaction)
        for bill in self.bills:
            self._settle(bill)
        answers = {bid.turn_id: self._admit(bid) for bid in self.bids}
        await self._write(transaction)
        return answers

    async def _read(self, transaction: Transaction) -> None:
        keys = {bill.key.key_id: bill.key for bill in self.bills}
        keys |= {bid.key.key_id: bid.key for bid in self.bids}
        turns = [bill.turn_id for bill in self.bills]
        may_exist = self._attempts > 1  # the first may have admitted them
        turns += [bid.turn_id for bid in self.bids if may_exist or bid.raised is not None]
        lock = f"{_STATE}, {self.now} AS now FROM podium_keys WHERE key_id IN {marks(len(keys))}"
        rows = await transaction.fetch(f"{lock} ORDER BY key_id {self.for_update}", *keys)
        self._rows = {row["key_id"]: row for row in rows}
        self._turns = await read_turns(transaction, turns) if turns else {}
        runs = {turn.run_id for turn in self._turns.values()}
        self._paid = await read_paid(transaction, list(runs)) if runs else {}
        amounts = await self._amounts(transaction)
        self._accounts = {each: _account(keys[each], row, amounts[each]) for each, row in self._rows.items()}
        self._changed, self._days = {}, {}

    async def _amounts(self, transaction: Transaction) -> Mapping[str, Row]:
        """Return what each key has reserved and spent, if a limit depends on it."""
        found: dict[str, Row] = dict.fromkeys(self._rows, _NONE_OPEN)
        rules = {bid.key.key_id: bid.key.rules for bid in self.bids}
        counted = [each for each, rule in rules.items() if rule.has_budget or rule.concurrency is not None]
        if counted and self._rows:
            now = next(iter(self._rows.values()))["now"]
            found |= await read_amounts(transaction, now, counted)
        return found

    def _settle(self, bill: Bill) -> None:
        """Replace the reservation, or an earlier charge, by the charge."""
        turn, account = self._turns.get(bill.turn_id), self._accounts.get(bill.key.key_id)
        if turn is None or account is None:  # deleted by somebody
            return
        before = Amounts() if turn.holder is not None else turn.charge
        paid = self._paid.get(turn.run_id, Amounts()) - before
        charge = bill.run.beyond(paid)
        if not bill.is_priced:
            charge = replace(charge, cost=turn.cost)
        if turn.holder is None and paid != Amounts():  # others paid the rest of the run
            charge = before + charge.beyond(before)
        day = self._days.setdefault((turn.key_id, turn.day), DaySpent(turn.key_id, turn.day))
        day.add(charge - before)
        if turn.holder is not None:
            day.requests += 1
            used = charge.input_tokens + charge.output_tokens - bill.expected
            account.settle(turn.day, turn.cost, charge.cost, used)
        self._paid[turn.run_id] = paid + charge
        turn = replace(turn, holder=None, **asdict(charge))
        self._turns[turn.turn_id] = self._changed[turn.turn_id] = turn

    def _admit(self, bid: Bid) -> Answer:
        key_id = bid.key.key_id
        account = self._accounts.get(key_id)
        turn = self._turns.get(bid.turn_id)
        if account is None or (turn is None and self._rows[key_id]["revoked"] is not None):
            return KeyInvalid("the API key is revoked")
        try:
            if turn is None:
                turn = self._admitted(bid, account)
            elif turn.holder is None:  # this process was suspended, and another has settled the request
                return BudgetReserved("the request was settled, because its process was suspended")
            elif bid.raised is not None and turn.cost < bid.raised:
                turn = replace(turn, cost=turn.cost + account.raise_by(bid.raised - turn.cost))
        except KeyRefused as refusal:
            return refusal
        self._turns[bid.turn_id] = self._changed[bid.turn_id] = turn
        requests, tokens = (
            None if each is None else replace(each) for each in (account.requests, account.tokens)
        )
        budget = replace(account.tightest) if account.periods else None
        return Grant(turn.cost, requests, tokens, max(account.usual, bid.least, 1), budget, account.now)

    def _admitted(self, bid: Bid, account: Account) -> Turn:
        cost = account.admit(bid.cost, bid.tokens, bid.least, is_new=bid.is_new)
        now, days = account.now, bid.key.rules.retention_days if bid.is_recorded else 0
        forget_at = None if days is None else now + days * 86400.0
        return Turn(bid.turn_id, bid.key.key_id, bid.run_id, day_of(now), cost, self.holder, now, forget_at)

    async def _write(self, transaction: Transaction) -> None:
        await put_turns(transaction, self._changed.values())
        await add_days(transaction, self._days.values())
        admitted = {turn.key_id for turn in self._changed.values() if turn.holder is not None}
        for key_id, account in self._accounts.items():
            if key_id in admitted or account.tokens is not None:
                left = (None if each is None else each.left for each in (account.requests, account.tokens))
                used = account.now if key_id in admitted else self._rows[key_id]["last_used"]
                await transaction.execute(_FILL, *left, account.now, used, key_id)


def _account(key: Key, row: Row, amounts: Row) -> Account:
    rules, now = key.rules, row["now"]
    seconds = 0.0 if row["filled"] is None else now - row["filled"]
    buckets = (
        Bucket.filled(rules.requests_per_minute, row["requests_left"], seconds),
        Bucket.filled(rules.tokens_per_minute, row["tokens_left"], seconds),
    )
    return Account(rules, now, amounts["running"], *buckets, periods_of(key, amounts, now), amounts["usual"])


_MOST = 200
"""Maximum requests of one batch."""
_CLOSE_SECONDS = 5.0
_RETRY_SECONDS = 1.0
_GATHER_SECONDS = 0.05
"""How long a bill waits for the next admission, which is then written by the same transaction."""


@dataclass(slots=True, eq=False)
class _Waiting:
    """A request that waits for its admission."""

    bid: Bid
    done: anyio.Event = field(default_factory=anyio.Event)
    answer: Answer | PodiumError | None = None


class Ledger:
    """Admits and settles requests of keys. `async with ledger:` starts its task."""

    def __init__(self, store: KeyStore) -> None:
        self._store = store
        self.lease: Lease
        """The lease of this process, which holds the reservations."""
        self._opened = AsyncExitStack()
        self._bids: list[_Waiting] = []
        self._bills: list[Bill] = []
        self._woken = anyio.Event()
        self._has_bids = anyio.Event()
        self._is_idle = anyio.Event()
        self._tasks: TaskGroup | None = None

    async def admit(self, bid: Bid) -> Grant:
        """Admit a request, or raise the reservation of an admitted request."""
        waiting = _Waiting(bid)
        self._bids.append(waiting)
        self._woken.set()
        self._has_bids.set()
        try:
            await waiting.done.wait()
        except BaseException:  # a cancelled request that may be admitted: free its reservation
            if bid.raised is None:
                self.settle(bid.unused())
            raise
        if isinstance(waiting.answer, Grant):
            return waiting.answer
        assert waiting.answer is not None
        raise waiting.answer

    def settle(self, bill: Bill) -> None:
        """Settle a request, with the next batch. If the process dies before, its lease ends."""
        self._bills.append(bill)
        self._woken.set()

    def start(self, work: Callable[..., Coroutine[Any, Any, None]], *arguments: object) -> None:
        """Start a task that ends with the ledger."""
        assert self._tasks is not None
        self._tasks.start_soon(work, *arguments)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._store)
            self.lease = await stack.enter_async_context(self._store.journal.leased())
            self._tasks = anyio.create_task_group()
            await self._tasks.__aenter__()
            self._opened = stack.pop_all()
        self._tasks.start_soon(self._commit_batches)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._tasks is not None
        try:
            with anyio.move_on_after(_CLOSE_SECONDS):
                while self._bids or self._bills or not self._is_idle.is_set():
                    self._woken.set()
                    await anyio.sleep(0.01)
            self._tasks.cancel_scope.cancel()
            await self._tasks.__aexit__(None, None, None)  # an error of the block is not a group
        finally:
            await self._opened.__aexit__(kind, error, traceback)

    async def _commit_batches(self) -> None:
        while True:
            self._is_idle.set()
            await self._woken.wait()
            self._is_idle = anyio.Event()
            with anyio.move_on_after(_GATHER_SECONDS):
                await self._has_bids.wait()
            bids, self._bids = self._bids[:_MOST], self._bids[_MOST:]
            bills, self._bills = self._bills[:_MOST], self._bills[_MOST:]
            if not self._bids:
                self._has_bids = anyio.Event()
            if not (self._bids or self._bills):
                self._woken = anyio.Event()
            if not await self._commit(bids, bills):
                self._bills[:0] = bills
                await anyio.sleep(_RETRY_SECONDS)
                self._woken.set()

    async def _commit(self, waiting: list[_Waiting], bills: list[Bill]) -> bool:
        """Commit a batch, and return whether the database was usable."""
        if not (waiting or bills):
            return True
        bids = [each.bid for each in waiting]
        answers: dict[str, Answer] = {}
        failure: PodiumError | None = None
        try:
            async with self._store.opened() as database:
                await self.lease.keep(patience=database.patience)  # without it, others settle reservations
                batch = Batch(bids, bills, self.lease.holder, database.now, database.for_update)
                answers = await database.transaction(batch.commit)
        except JournalError as error:
            failure = error
            LOGGER.warning("the ledger of API keys cannot be written: %s", error)
            unused = [bid.unused() for bid in bids if bid.raised is None]
            self._bills += unused  # the transaction may have been committed
        for each in waiting:
            each.answer = failure or answers[each.bid.turn_id]
            each.done.set()
        return failure is None


_DELETED_AT_ONCE = 100


class Housekeeping:
    """The background work of a replica."""

    def __init__(self, store: KeyStore, ledger: Ledger, journal: Journal | None) -> None:
        self._store = store
        self._ledger = ledger
        self._journal = journal

    async def run(self, period: float) -> None:
        """Do the work now, and then every `period` seconds; log failures of the database."""
        told = "the housekeeping of API keys failed"
        await repeat(self.settle_expired, self.forget_expired, period=period, told=told)

    async def settle_expired(self) -> int:
        """Settle the requests of replicas whose lease has ended, and return their number.

        A request is charged what the journal has recorded of its run and no other request has paid. If the
        run was not recorded, it is charged its reservation. While the journal cannot be read, or a process
        executes the run, it keeps its reservation.
        """
        async with self._store.opened() as database:
            turns = await database.transaction(lambda each: ended_turns(each, self._ledger.lease))
        keys = {key.key_id: key for key in await self._store.keys()} if turns else {}
        settled = 0
        for turn in turns:
            if turn.key_id not in keys:
                continue
            with suppress(RunHeld):
                self._ledger.settle(await self._bill(turn, keys[turn.key_id]))
                settled += 1
        return settled

    async def _bill(self, turn: Turn, key: Key) -> Bill:
        """Return the bill of a request."""
        unknown = Bill(turn_id=turn.turn_id, key=key, run=Amounts(), is_priced=False)
        is_recorded = turn.forget_at is None or turn.forget_at > turn.began
        if self._journal is None or not is_recorded:
            return unknown
        try:
            run = await recorded_run(self._journal, turn.run_id)
        except JournalBroken as error:
            LOGGER.warning("run %s is charged its reservation: %s", turn.run_id, error)
            return unknown
        if run is None:
            return replace(unknown, is_priced=True)
        return bill_of(turn.turn_id, key, run.result, run.limits, excess=run.excess)

    async def forget_expired(self) -> int:
        """Delete the runs whose time has ended, and return their number."""
        deleted = count = await self._forget_some()
        while count == _DELETED_AT_ONCE:
            deleted += (count := await self._forget_some())
        return deleted

    async def _forget_some(self) -> int:
        """Delete some of these runs, and return their number."""
        async with self._store.opened() as database:
            query = (
                "SELECT turn_id, run_id FROM podium_turns WHERE forget_at IS NOT NULL AND "  # noqa: S608 - no value from outside
                f"forget_at < {database.now} AND holder IS NULL ORDER BY forget_at LIMIT {_DELETED_AT_ONCE}"
            )
            rows = await database.transaction(lambda transaction: transaction.fetch(query), reads=True)
            deleted = [row["turn_id"] for row in rows if await self._delete(row["run_id"])]

            async def forget(transaction: Transaction) -> None:
                statement = f"DELETE FROM podium_turns WHERE turn_id IN {marks(len(deleted))}"  # noqa: S608 - placeholders
                await transaction.execute(statement, *deleted)

            if deleted:
                await database.transaction(forget)
        return len(deleted)

    async def _delete(self, run_id: str) -> bool:
        """Delete a run, and return whether it no longer exists."""
        if self._journal is None:
            return True
        try:
            await self._journal.delete(run_id)
        except RunUnknown:
            return True
        except RunHeld:
            return False
        return True
