"""Reads and writes the rows of admitted requests and of days."""

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from operator import add, sub

from podium.journal import Transaction
from podium.journal.sql.database import marks
from podium.journal.sql.lease import Lease


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
