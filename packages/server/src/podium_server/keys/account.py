"""Decides whether a request of a key is admitted, and what it is charged, from the database."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime, timedelta
from operator import add, sub
from typing import Any, Literal

from podium.budget import Limits
from podium.journal import Transaction
from podium.journal.sql.database import marks
from podium.journal.sql.lease import Lease
from podium.types import Result
from podium_server.keys.key import BudgetReserved, BudgetSpent, Key, KeyRules, RateLimited, TooManyAtOnce
from podium_server.keys.store import KeyStore

BILLION = 1_000_000_000
"""Costs are counted in billionths of a dollar."""
BUSY_SECONDS = 2.0
"""When to try again while other requests of the key run, in seconds."""


@dataclass(slots=True)
class Bucket:
    """A rate limit: a bucket of `size` units that is filled evenly within a minute.

    A request of more units than the bucket holds is admitted when the bucket is full.
    """

    size: int
    left: float
    """May be below 0 after a request used more units than expected."""

    @classmethod
    def filled(cls, size: int | None, left: float | None, seconds: float) -> "Bucket | None":
        """Return a bucket some seconds after it had `left` units; `None` if there is no limit.

        A negative time, after the clock was set back, adds nothing.
        """
        if size is None:
            return None
        before = float(size) if left is None else left
        return cls(size, min(float(size), before + max(seconds, 0.0) * size / 60.0))

    def wait(self, units: float) -> float:
        """Return the seconds until the bucket has these units; 0 if it has them."""
        return max(min(units, self.size) - self.left, 0.0) * 60.0 / self.size

    @property
    def reset(self) -> float:
        """The seconds until the bucket is full."""
        return self.wait(self.size)


@dataclass(slots=True)
class Period:
    """A budget of a day or a month, in billionths of a dollar."""

    name: Literal["day", "month"]
    most: int
    spent: int
    reserved: int
    end: float
    """When the next period begins, in seconds of Unix time."""

    @property
    def left(self) -> int:
        """The amount that is neither spent nor reserved."""
        return max(self.most - self.spent - self.reserved, 0)

    @property
    def told(self) -> str:
        """The budget in words."""
        return f"the budget of this {self.name}, ${self.most / BILLION:g},"

    @property
    def next(self) -> str:
        """When the budget is renewed, in words."""
        end = datetime.fromtimestamp(self.end, UTC).strftime("%Y-%m-%d %H:%M UTC")
        return f"the next {self.name} begins at {end}"


@dataclass(slots=True)
class Account:
    """The amounts of one key, within a transaction."""

    rules: KeyRules
    now: float
    """Time of the database, in seconds of Unix time."""
    running: int
    requests: Bucket | None
    tokens: Bucket | None
    periods: tuple[Period, ...]
    usual: int = 0
    """What a request costs on average; 0 if it is unknown."""

    def admit(self, most: int | None, tokens: int, least: int, *, is_new: bool = False) -> int:
        """Admit a request, and return its reservation in billionths of a dollar: what such a run costs."""
        at_once = self.rules.concurrency
        if at_once is not None and self.running >= at_once:
            told = (
                f"the key runs {at_once} requests at the same time, its maximum: try again when one has ended"
            )
            raise TooManyAtOnce(told, BUSY_SECONDS)
        for bucket, units, name in ((self.requests, 1, "requests"), (self.tokens, tokens, "tokens")):
            if bucket is not None and (wait := bucket.wait(units)) > 0:
                told = f"the key may use {bucket.size} {name} per minute: try again in {wait:.1f} s"
                raise RateLimited(told, wait)
        cost = max(self.usual, least, 1) if self.rules.has_budget else 0
        cost = cost if most is None else min(cost, most)
        if self.periods and self.tightest.left < cost:
            self._check(self.tightest, least if is_new and least <= cost else 0)  # else its own limit is low
        reservation = self._take(cost)
        if self.requests is not None:
            self.requests.left -= 1
        if self.tokens is not None:
            self.tokens.left -= tokens
        self.running += 1
        return reservation

    def settle(self, day: str, reserved: int, cost: int, tokens: int) -> None:
        """Replace the reservation of a request that was admitted on `day` by its cost."""
        self.running -= 1
        if self.tokens is not None:
            self.tokens.left -= tokens
        today = day_of(self.now)
        for period in self.periods:
            if day == today or (period.name == "month" and day[:7] == today[:7]):
                period.reserved -= reserved
                period.spent += cost

    @property
    def tightest(self) -> Period:
        """The budget of which the least is left."""
        return min(self.periods, key=lambda period: period.left)

    def raise_by(self, cost: int) -> int:
        """Return what a running request may reserve besides, at most `cost`."""
        if self.periods and not self.tightest.left:
            self._check(self.tightest, 0)
        return self._take(cost)

    def _take(self, cost: int) -> int:
        reserved = min([cost, *(period.left for period in self.periods)])
        for period in self.periods:
            period.reserved += reserved
        return reserved

    def _check(self, period: Period, least: int) -> None:
        """Raise `KeyRefused` if too little is left, or if running requests may leave more."""
        if period.spent >= period.most:
            raise BudgetSpent(f"{period.told} is spent: {period.next}", period.end - self.now)
        if period.reserved:
            told = f"{period.told} is reserved for running requests of the key: try again when one has ended"
            raise BudgetReserved(told, BUSY_SECONDS)
        if period.left < least:
            told = f"${period.left / BILLION:g} is left of {period.told} and the first call of the run"
            told = f"{told} needs ${least / BILLION:g}: {period.next}"
            raise BudgetSpent(told, period.end - self.now)


def cost_of_run(rules: KeyRules, model_cost: float | None) -> int | None:
    """Return the maximum cost of a run by the limits of its model and key; `None` if neither has a limit."""
    known = [cost for cost in (rules.run_cost, model_cost) if cost is not None]
    return max(round(min(known) * BILLION), 1) if known else None


def day_of(at: float) -> str:
    """Return the day of a time, in UTC."""
    return datetime.fromtimestamp(at, UTC).date().isoformat()


def ends_of(day: str) -> tuple[float, float]:
    """Return the ends of a day and of its month, in seconds of Unix time."""
    start = datetime.fromisoformat(day).replace(tzinfo=UTC)
    tomorrow = start + timedelta(days=1)
    next_month = (start.replace(day=1) + timedelta(days=32)).replace(day=1)
    return tomorrow.timestamp(), next_month.timestamp()


@dataclass(frozen=True, slots=True)
class Amounts:
    """What requests are charged, or what a run has used."""

    cost: int = 0
    """In billionths of a dollar."""
    input_tokens: int = 0
    output_tokens: int = 0
    estimated_tokens: int = 0
    """The part of the tokens that is estimated."""

    def __add__(self, other: "Amounts") -> "Amounts":
        return Amounts(*map(add, astuple(self), astuple(other)))

    def __sub__(self, other: "Amounts") -> "Amounts":
        return Amounts(*map(sub, astuple(self), astuple(other)))

    def beyond(self, paid: "Amounts") -> "Amounts":
        """Return these amounts without what was paid; no amount falls below 0."""
        return Amounts(*(max(each, 0) for each in astuple(self - paid)))


@dataclass(slots=True)
class Turn:
    """A row of `podium_turns`: an admitted request."""

    turn_id: str
    key_id: str
    run_id: str
    day: str
    cost: int
    """Its reservation while it runs, and then its charge."""
    holder: str | None
    """The process that runs it; `None` after its end."""
    began: float
    forget_at: float | None
    """When its prompts and answers are deleted; `None` if they are kept."""
    input_tokens: int = 0
    output_tokens: int = 0
    estimated_tokens: int = 0

    @property
    def charge(self) -> Amounts:
        """What a settled request was charged."""
        return Amounts(self.cost, self.input_tokens, self.output_tokens, self.estimated_tokens)


@dataclass(slots=True)
class DaySpent:
    """What a batch adds to a row of `podium_key_days`."""

    key_id: str
    day: str
    cost: int = 0
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    estimated_tokens: int = 0

    def add(self, more: Amounts) -> None:
        """Add amounts."""
        self.cost += more.cost
        self.input_tokens += more.input_tokens
        self.output_tokens += more.output_tokens
        self.estimated_tokens += more.estimated_tokens


_OF_TURNS = ", ".join(each.name for each in fields(Turn))
_PUT_TURNS = """
ON CONFLICT (turn_id) DO UPDATE SET cost = excluded.cost, holder = excluded.holder,
    input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens,
    estimated_tokens = excluded.estimated_tokens
"""
_SUMS = ", ".join(f"CAST(sum({each.name}) AS BIGINT) AS {each.name}" for each in fields(Amounts))
_PAID = f"SELECT run_id, {_SUMS} FROM podium_turns WHERE holder IS NULL"  # noqa: S608 - no value from outside
_OF_DAYS = ", ".join(each.name for each in fields(DaySpent))
_ADD_DAYS = """
ON CONFLICT (key_id, day) DO UPDATE SET
    cost = podium_key_days.cost + excluded.cost, requests = podium_key_days.requests + excluded.requests,
    input_tokens = podium_key_days.input_tokens + excluded.input_tokens,
    output_tokens = podium_key_days.output_tokens + excluded.output_tokens,
    estimated_tokens = podium_key_days.estimated_tokens + excluded.estimated_tokens
"""

_HOLDERS = "SELECT DISTINCT holder FROM podium_turns WHERE holder IS NOT NULL"


async def read_turns(transaction: Transaction, ids: Sequence[str]) -> dict[str, Turn]:
    """Return the rows with these ids."""
    query = f"SELECT {_OF_TURNS} FROM podium_turns WHERE turn_id IN {marks(len(ids))}"  # noqa: S608 - placeholders
    return {row["turn_id"]: Turn(**dict(row)) for row in await transaction.fetch(query, *ids)}


async def read_paid(transaction: Transaction, runs: Sequence[str]) -> dict[str, Amounts]:
    """Return what all settled requests for each of these runs were charged."""
    query = f"{_PAID} AND run_id IN {marks(len(runs))} GROUP BY run_id"
    rows = await transaction.fetch(query, *runs)
    return {row["run_id"]: Amounts(*(row[each.name] for each in fields(Amounts))) for row in rows}


async def put_turns(transaction: Transaction, turns: Iterable[Turn]) -> None:
    """Add rows, or replace the charge and the holder of existing rows."""
    if rows := [astuple(turn) for turn in turns]:
        await _put(transaction, f"podium_turns ({_OF_TURNS})", rows, _PUT_TURNS)


async def add_days(transaction: Transaction, days: Iterable[DaySpent]) -> None:
    """Add amounts to the rows of days."""
    if rows := [astuple(day) for day in days]:
        await _put(transaction, f"podium_key_days ({_OF_DAYS})", rows, _ADD_DAYS)


async def _put(transaction: Transaction, table: str, rows: Sequence[tuple[object, ...]], end: str) -> None:
    places = ", ".join([marks(len(rows[0]))] * len(rows))
    values = [value for row in rows for value in row]
    await transaction.execute(f"INSERT INTO {table} VALUES {places} {end}", *values)  # type: ignore[arg-type]  # noqa: S608 - as above


async def ended_turns(transaction: Transaction, lease: Lease) -> Sequence[Turn]:
    """Return the open requests of other processes whose lease has ended."""
    if not (ended := await lease.ended(transaction, _HOLDERS)):
        return ()
    query = f"SELECT {_OF_TURNS} FROM podium_turns WHERE holder IN {marks(len(ended))}"  # noqa: S608 - placeholders
    return [Turn(**dict(row)) for row in await transaction.fetch(query, *ended)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """The end of an admitted request.

    The request is charged what no other request for its run has paid. So the charges of all requests for a
    run are together the cost of the run, in whatever order they are settled.
    """

    turn_id: str
    key: Key
    run: Amounts
    """What the whole run has cost and used so far."""
    is_priced: bool = True
    """Whether the cost is known; an unknown cost is charged at the reservation."""
    expected: int = 0
    """The tokens that were counted at the admission."""


def bill_of(
    turn_id: str,
    key: Key,
    result: Result,
    limits: Limits | None,
    *,
    expected: int = 0,
    excess: float = 0.0,
) -> Bill:
    """Return the bill of a request whose run has this result so far."""
    cost, usage = _cost(result, limits), result.usage
    tokens = (usage.total_input_tokens, usage.total_output_tokens, result.estimated_usage.total_tokens)
    run = Amounts(max((cost or 0) - round(excess * BILLION), 0), *tokens)
    return Bill(turn_id=turn_id, key=key, run=run, is_priced=cost is not None, expected=expected)


def _cost(result: Result, limits: Limits | None) -> int | None:
    """Return the cost of a run in billionths of a dollar; `None` if it is unknown.

    A call of unknown cost counts as `Limits.unpriced`.
    """
    if result.cost is not None:
        return round(result.cost * BILLION)
    if limits is None or limits.unpriced is None:
        return None
    costs = [limits.unpriced if bill.cost is None else bill.cost for bill in result.bills]
    return round(sum(costs) * BILLION)


Row = Mapping[str, Any]
"""A row of either driver."""
_SPENT = "SELECT coalesce(sum(cost), 0) FROM podium_key_days AS d WHERE d.key_id = k.key_id AND d.day"
_MEAN = "SELECT sum(cost) / nullif(sum(requests), 0) FROM podium_key_days AS d WHERE"
_OPEN = "FROM podium_turns AS t WHERE t.key_id = k.key_id AND t.holder IS NOT NULL"
_AMOUNTS = f"""
SELECT k.key_id, (SELECT count(*) {_OPEN}) AS running,
    CAST(coalesce(({_MEAN} d.key_id = k.key_id AND d.day BETWEEN ? AND ?),
        ({_MEAN} d.day BETWEEN ? AND ?), 0) AS BIGINT) AS usual,
    CAST(({_SPENT} = ?) AS BIGINT) AS day_spent,
    CAST(({_SPENT} BETWEEN ? AND ?) AS BIGINT) AS month_spent,
    CAST((SELECT coalesce(sum(cost), 0) {_OPEN} AND t.day = ?) AS BIGINT) AS day_reserved,
    CAST((SELECT coalesce(sum(cost), 0) {_OPEN} AND t.day BETWEEN ? AND ?) AS BIGINT) AS month_reserved
FROM podium_keys AS k WHERE k.key_id IN
"""  # noqa: S608 - no value from outside


async def read_amounts(transaction: Transaction, now: float, key_ids: Sequence[str]) -> Mapping[str, Row]:
    """Return what keys have spent and reserved in this day and month, by the ids of the keys.

    `usual` is the mean cost of the requests of the key in this month, or else of all keys. The amounts are in
    billionths of a dollar.
    """
    day = day_of(now)
    month = (f"{day[:8]}01", f"{day[:8]}31")
    days = *month, *month, day, *month, day, *month
    rows = await transaction.fetch(f"{_AMOUNTS} {marks(len(key_ids))}", *days, *key_ids)
    return {row["key_id"]: row for row in rows}


def periods_of(key: Key, amounts: Row, now: float) -> tuple[Period, ...]:
    """Return the budgets of a key: of the day, of the month, of both, or none."""
    names: tuple[Literal["day", "month"], ...] = ("day", "month")
    costs, ends = (key.rules.day_cost, key.rules.month_cost), ends_of(day_of(now))
    return tuple(
        Period(name, round(cost * BILLION), amounts[f"{name}_spent"], amounts[f"{name}_reserved"], end)
        for name, cost, end in zip(names, costs, ends, strict=True)
        if cost is not None
    )


async def read_budgets(store: KeyStore, key: Key) -> tuple[Period, ...]:
    """Return the budgets of a key, with what it has spent and reserved of them now."""
    async with store.opened() as database:
        clock = f"SELECT {database.now} AS now"

        async def read(transaction: Transaction) -> tuple[Period, ...]:
            now = (await transaction.fetch(clock))[0]["now"]
            amounts = await read_amounts(transaction, now, [key.key_id])
            return periods_of(key, amounts[key.key_id], now)

        return await database.transaction(read, reads=True)
