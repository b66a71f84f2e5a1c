"""What keys have spent and reserved of their budgets."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from podium.journal import Transaction
from podium.journal.sql.database import marks
from podium_server.keys.account import BILLION, Period, day_of, ends_of
from podium_server.keys.key import Key
from podium_server.keys.key_store import KeyStore

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
    """Return the budgets of a key, with what it has spent and reserved of them now.

    Raises:
        JournalError: the database cannot be used.
    """
    async with store.opened() as database:
        clock = f"SELECT {database.now} AS now"

        async def read(transaction: Transaction) -> tuple[Period, ...]:
            now = (await transaction.fetch(clock))[0]["now"]
            amounts = await read_amounts(transaction, now, [key.key_id])
            return periods_of(key, amounts[key.key_id], now)

        return await database.transaction(read, reads=True)
