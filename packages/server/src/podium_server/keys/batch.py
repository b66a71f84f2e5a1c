"""Admits and settles requests of any keys, in one transaction.

The transaction locks the rows of its keys first, so that replicas cannot spend the same money twice. It reads
the other rows after that, because PostgreSQL would otherwise read rows from before the wait for the lock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from podium.journal import Transaction
from podium.journal.sql.database import marks
from podium_server.keys.account import Account, Bucket, Period, day_of
from podium_server.keys.bills import Bill
from podium_server.keys.budgets import Row, periods_of, read_amounts
from podium_server.keys.key import Key
from podium_server.keys.refusals import BudgetReserved, KeyInvalid, KeyRefused
from podium_server.keys.turns import (
    Amounts,
    DaySpent,
    Turn,
    add_days,
    put_turns,
    read_paid,
    read_turns,
)

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
    """The requests that one transaction admits and settles.

    Args:
        bids: the requests to admit.
        bills: the requests to settle. A second bill for a request replaces the first.
        holder: the process that runs the admitted requests.
        now: SQL expression for the time of the database.
        for_update: SQL clause that locks the selected rows.
    """

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
