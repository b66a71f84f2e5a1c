"""The runs of a database: claims, lists and deletion, each as the work of a transaction."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from types import UnionType
from typing import get_args

from podium.errors import RunHeld
from podium.journal.journal import DAMAGED, LAST_CHARACTER, Entry, Record, RunRow, Wanted, unknown
from podium.journal.sql.database import Database, Row, Transaction, Value, marks
from podium.journal.sql.lease import Lease, is_given_up, is_held, process_of
from podium.types.result import RunStatus

_ALL = 2**62
"""A limit above any number of rows. `LIMIT NULL` and `LIMIT -1` each work in only one of the databases."""
_VALUES = 500
"""Maximum values of one statement, and rows of one that reads all runs."""
_BEGUN = """
SELECT record.run_id, run.run_id AS has_row
FROM podium_events AS record LEFT JOIN podium_runs AS run ON run.run_id = record.run_id
WHERE record.run_id > ? AND record.number = 0 ORDER BY record.run_id LIMIT ?
"""
_RECORDS = "SELECT run_id, number, at, text, hash FROM podium_events WHERE run_id = ? ORDER BY number"
_CLAIM = "UPDATE podium_runs SET holder = ?, fence = ?, recoveries = ? WHERE run_id = ?"
_BURY = "UPDATE podium_runs SET state = 'dead', holder = NULL, recoveries = ? WHERE run_id = ?"


async def claim(
    transaction: Transaction, lease: Lease, run_id: str, fence: str, most_recoveries: int | None
) -> tuple[RunRow, tuple[Entry, ...] | None]:
    """Claim a run that no live process holds; return its row before, and its entries if it is not dead."""
    rows = await _locked(transaction, lease.database, [run_id])
    if not rows:
        raise unknown(run_id)
    held = rows[0]
    is_claimed = held["fence"] == fence  # by an earlier attempt whose acknowledgement was lost
    if is_held(held) and not is_claimed:
        raise _held(held, "end or stop")
    entries = tuple(record.entry() for record in await _records(transaction, run_id))
    row = RunRow(state=held["state"], **{name: held[name] for name in _FORMS})
    if is_claimed:
        return row, entries
    has_died = held["holder"] is not None and not is_given_up(held["holder"], held["fence"])
    row = replace(row, recoveries=row.recoveries + has_died)
    if most_recoveries is not None and (
        row.state == "dead" or (has_died and row.recoveries > most_recoveries)
    ):
        await transaction.execute(_BURY, row.recoveries, run_id)
        return row, None
    await transaction.execute(_CLAIM, lease.holder, fence, row.recoveries, run_id)
    return row, entries


async def records_of(transaction: Transaction, run_id: str) -> tuple[Record, ...]:
    """Return all records of a run."""
    if not await transaction.fetch("SELECT 1 FROM podium_runs WHERE run_id = ?", run_id):
        raise unknown(run_id)
    return await _records(transaction, run_id)


async def list_runs(
    transaction: Transaction, database: Database, wanted: Wanted, limit: int | None
) -> tuple[RunRow, ...]:
    """Return the latest runs, newest first."""
    which, values = _conditions(wanted, database.bytewise)
    # the sum keeps both databases from reading all runs in the order of the index until some match
    began = "run.began + 0" if wanted.prefix else "run.began"
    order = f"ORDER BY {began} DESC, run.run_id DESC LIMIT ?"
    statement = f"{_select(database)} WHERE {' AND '.join(which)} {order}"
    rows = await transaction.fetch(statement, *values, _ALL if limit is None else limit)
    return tuple(map(_run_row, rows))


async def labels_of(transaction: Transaction, keys: Collection[str]) -> Mapping[str, frozenset[str]]:
    """Return the labels of answers; see `Journal.answer_labels`."""
    found = dict[str, frozenset[str]]()
    query = "SELECT DISTINCT key, labels FROM podium_answers WHERE key IN %s"
    for row in await _fetch(transaction, query, sorted(keys)):
        found[row["key"]] = found.get(row["key"], frozenset()).union(json.loads(row["labels"]))
    return found


async def strays(transaction: Transaction) -> list[str]:
    """Return the ids that have records but no row."""
    found, after = list[str](), ""
    while rows := await transaction.fetch(_BEGUN, after, _VALUES):
        found += [row["run_id"] for row in rows if row["has_row"] is None]
        after = rows[-1]["run_id"]
    return found


async def delete_run(transaction: Transaction, database: Database, run_id: str) -> None:
    """Delete a run and all runs nested in it; `Journal.delete` describes the exceptions."""
    families, held = await _families(transaction, database, [run_id])
    if held:
        raise _held(held[run_id], "end")
    if not families[run_id]:
        raise unknown(run_id)
    await _delete(transaction, families[run_id])


async def delete_free(transaction: Transaction, database: Database, run_ids: Sequence[str]) -> int:
    """Delete those of the runs that no process holds, with the runs nested in them; return their number."""
    families, held = await _families(transaction, database, run_ids)
    doomed = [family for run_id, family in families.items() if family and run_id not in held]
    await _delete(transaction, [run_id for family in doomed for run_id in family])
    return len(doomed)


async def _families(
    transaction: Transaction, database: Database, run_ids: Sequence[str]
) -> tuple[dict[str, list[str]], dict[str, Row]]:
    """Lock runs and the runs nested in them; return the ids of each family, and a held run of some."""
    families: dict[str, list[str]] = {run_id: [] for run_id in run_ids}
    held: dict[str, Row] = {}
    outer = {run_id: run_id for run_id in run_ids}
    level = list(run_ids)
    while level:
        for row in await _locked(transaction, database, level):
            top = outer[row["run_id"]]
            families[top].append(row["run_id"])
            if is_held(row):
                held[top] = row
        # below a held run nothing is locked: its process may wait for a lock that this transaction has
        left = [run_id for run_id in level if outer[run_id] not in held]
        level = []
        nested = "SELECT run_id, parent FROM podium_runs WHERE parent IN %s"
        for row in await _fetch(transaction, nested, left):
            if row["run_id"] not in outer:
                outer[row["run_id"]] = outer[row["parent"]]
                level.append(row["run_id"])
    return families, held


async def _locked(transaction: Transaction, database: Database, run_ids: Sequence[str]) -> list[Row]:
    """Lock the rows of runs until the transaction ends, and return them."""
    if lock := database.for_update:
        query = f"SELECT run_id FROM podium_runs WHERE run_id IN %s ORDER BY run_id {lock}"  # noqa: S608
        await _fetch(transaction, query, run_ids)
    return await _fetch(transaction, f"{_select(database)} WHERE run.run_id IN %s", run_ids)


def _select(database: Database) -> str:
    return (
        f"SELECT run.*, lease.until > {database.now} AS is_live "  # noqa: S608 - no value from outside
        "FROM podium_runs AS run LEFT JOIN podium_leases AS lease ON lease.holder = run.holder"
    )


def _held(row: Row, until: str) -> RunHeld:
    return RunHeld(f"run {row['run_id']} is running in {process_of(row['holder'])}: wait for it to {until}")


def _conditions(wanted: Wanted, bytewise: str) -> tuple[list[str], list[Value]]:
    """Return the conditions of the query for some runs, and their values."""
    which: list[str] = []
    values: list[Value] = []

    def require(condition: str, *given: Value) -> None:
        which.append(condition)
        values.extend(given)

    if wanted.parent is not None:
        require("run.parent = ?", wanted.parent)
    elif not wanted.nested:
        require("run.parent IS NULL")
    if wanted.prefix:
        run_id = f"run.run_id {bytewise}"
        require(f"{run_id} >= ? AND {run_id} < ?", wanted.prefix, wanted.prefix + LAST_CHARACTER)
    if wanted.since is not None:
        require("run.began >= ?", wanted.since)
    if wanted.until is not None:
        require("run.began <= ?", wanted.until)
    if wanted.after is not None:
        require("(run.began, run.run_id) < (?, ?)", wanted.after.began, wanted.after.run_id)
    if wanted.ids is not None:
        require(f"run.run_id IN {marks(len(wanted.ids))}" if wanted.ids else "FALSE", *wanted.ids)
    return which or ["TRUE"], values


def _run_row(row: Row) -> RunRow:
    """Return a row; of a row with an invalid value, which SQLite can store, only the id."""
    values = {name: row[name] for name in _FORMS}
    state = "stopped" if row["state"] == "running" and not is_held(row) else row["state"]
    if state not in _STATES or not all(map(_fits, _FORMS.values(), values.values())):
        emptied = {"question": "", "began": 0.0, "recoveries": 0, "run_id": str(row["run_id"])}
        state, values = DAMAGED, {name: emptied.get(name) for name in _FORMS}
    return RunRow(state=state, **values)


def _fits(form: UnionType | type, value: object) -> bool:
    return isinstance(value, form) and (not isinstance(value, float) or isfinite(value))


_STATES = (*get_args(RunStatus), "running", "stopped", "dead")
_FORMS: Mapping[str, UnionType | type] = {
    "run_id": str,
    "parent": str | None,
    "question": str,
    "began": float,
    "ended": float | None,
    "cost": float | None,
    "holder": str | None,
    "recoveries": int,
}


async def _delete(transaction: Transaction, run_ids: Sequence[str]) -> None:
    for table in ("podium_events", "podium_answers", "podium_runs"):
        await _fetch(transaction, f"DELETE FROM {table} WHERE run_id IN %s", run_ids)  # noqa: S608 - no value from outside


async def _fetch(transaction: Transaction, query: str, values: Sequence[str]) -> list[Row]:
    """Return the rows of a query with the values in the place of `%s`, some of them at a time."""
    found: list[Row] = []
    for first in range(0, len(values), _VALUES):
        some = values[first : first + _VALUES]
        found += await transaction.fetch(query % marks(len(some)), *some)
    return found


async def _records(transaction: Transaction, run_id: str) -> tuple[Record, ...]:
    return tuple(Record(**dict(row)) for row in await transaction.fetch(_RECORDS, run_id))
