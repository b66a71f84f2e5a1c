"""The runs of a database: claims, lists and deletion."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf, isfinite
from time import time
from types import UnionType
from typing import get_args

from podium.errors import RunDead, RunHeld, RunUnknown
from podium.journal.journal import DAMAGED, LAST_CHARACTER, Entry, Record, RunRow, Wanted
from podium.journal.sql.commits import FencedStore
from podium.journal.sql.database import Row, Transaction, Value, marks
from podium.journal.sql.lease import is_given_up, is_held, process_of
from podium.types.result import RunStatus

_ALL = 2**62
"""A limit above any number of rows. `LIMIT NULL` and `LIMIT -1` each work in only one of the databases."""
_VALUES = 500
"""Maximum values of one statement, and rows of one transaction that reads all runs."""
_AT_ONCE = 100
"""Maximum runs that one transaction deletes, without nested runs. Writers wait while it deletes them."""
_STRAYS = """
WITH RECURSIVE ids (run_id, number) AS (
    SELECT (SELECT min(run_id) FROM podium_events WHERE run_id > ?), 1
    UNION ALL
    SELECT (SELECT min(run_id) FROM podium_events WHERE run_id > ids.run_id), number + 1
    FROM ids WHERE run_id IS NOT NULL AND number < ?
)
SELECT ids.run_id, run.run_id AS has_row FROM ids LEFT JOIN podium_runs AS run ON run.run_id = ids.run_id
WHERE ids.run_id IS NOT NULL ORDER BY number
"""
"""The next ids of the events: each id needs one step in the index, however many events it has."""
_RECORDS = "SELECT run_id, number, at, text, hash FROM podium_events WHERE run_id = ? ORDER BY number"
_CLAIM = "UPDATE podium_runs SET holder = ?, fence = ?, recoveries = ? WHERE run_id = ?"
_BURY = "UPDATE podium_runs SET state = 'dead', holder = NULL, recoveries = ? WHERE run_id = ?"
_OLD = "parent IS NULL AND began < ? AND coalesce(ended, began) < ?"


class Runs:
    """The runs of one database."""

    def __init__(self, store: FencedStore, max_recoveries: int) -> None:
        self._store = store
        self._database = store.database
        self._max_recoveries = max_recoveries
        # no value from outside is in these statements
        self._select = f"""
            SELECT run.*, lease.until > {self._database.now} AS is_live
            FROM podium_runs AS run LEFT JOIN podium_leases AS lease ON lease.holder = run.holder
        """  # noqa: S608
        lock, skip = self._database.for_update, " SKIP LOCKED" if self._database.for_update else ""
        self._lock = f"SELECT run_id FROM podium_runs WHERE run_id IN %s ORDER BY run_id {lock}"  # noqa: S608
        self._next_old = f"""
            SELECT run_id, began FROM podium_runs WHERE {_OLD} AND (began, run_id) > (?, ?)
            ORDER BY began, run_id LIMIT {_AT_ONCE} {lock}{skip}
        """  # noqa: S608

    async def claim(self, run_id: str, fence: str, *, force: bool) -> tuple[RunRow, tuple[Entry, ...]]:
        """Claim a run that no live process holds; return its row before the claim, and its entries."""
        work = partial(self._claim, run_id=run_id, fence=fence, force=force)
        row, entries = await self._database.transaction(work)
        if entries is None:
            raise RunDead(
                f"run {run_id} was continued {row.recoveries - 1} times after its process died: "
                "find the cause before you force it"
            )
        return row, entries

    async def records(self, run_id: str) -> tuple[Record, ...]:
        """Return all records of a run; `Journal.records` describes the exceptions."""

        async def read(transaction: Transaction) -> tuple[Record, ...]:
            if not await transaction.fetch("SELECT 1 FROM podium_runs WHERE run_id = ?", run_id):
                raise _unknown(run_id)
            return await _records(transaction, run_id)

        return await self._database.transaction(read, reads=True)

    async def rows(self, wanted: Wanted, limit: int | None) -> tuple[RunRow, ...]:
        """Return the latest runs, newest first."""
        which, values = _conditions(wanted, self._database.bytewise)
        # the sum keeps both databases from reading all runs in the order of the index until some match
        began = "run.began + 0" if wanted.prefix else "run.began"
        order = f"ORDER BY {began} DESC, run.run_id DESC LIMIT ?"
        statement = f"{self._select} WHERE {' AND '.join(which)} {order}"
        rows = await self._read(statement, *values, _ALL if limit is None else limit)
        return tuple(map(_run_row, rows))

    async def answer_labels(self, keys: Collection[str]) -> Mapping[str, frozenset[str]]:
        """Return the labels of answers; see `Journal.answer_labels`."""
        found = dict[str, frozenset[str]]()
        query = "SELECT DISTINCT key, labels FROM podium_answers WHERE key IN %s"
        for row in await self._database.transaction(
            lambda each: _fetch(each, query, sorted(keys)), reads=True
        ):
            found[row["key"]] = found.get(row["key"], frozenset()).union(json.loads(row["labels"]))
        return found

    async def strays(self) -> list[str]:
        """Return the ids that have records but no row."""
        found: list[str] = []
        after = ""
        while rows := await self._read(_STRAYS, after, _VALUES):
            found += [row["run_id"] for row in rows if row["has_row"] is None]
            after = rows[-1]["run_id"]
        return found

    async def delete(self, run_id: str) -> None:
        """Delete a run and all runs nested in it; `Journal.delete` describes the exceptions."""
        await self._database.transaction(partial(self._delete, run_id=run_id))

    async def prune(self, older_than: float) -> int:
        """Delete old runs, like `Journal.prune`; each transaction deletes some of them."""
        before, deleted = time() - older_than, 0
        after: tuple[float, str] | None = (-inf, "")
        while after is not None:
            count, after = await self._database.transaction(partial(self._prune, before=before, after=after))
            deleted += count
        return deleted

    async def count_old(self, older_than: float) -> int:
        """Return the number of runs that `prune` would delete now."""
        before = time() - older_than
        free = f"SELECT count(*) AS count FROM podium_runs WHERE {_OLD} AND holder IS NULL"  # noqa: S608
        with_holder = f"{self._select} WHERE {_OLD} AND run.holder IS NOT NULL"
        counted = (await self._read(free, before, before))[0]["count"]
        return int(counted) + sum(not is_held(row) for row in await self._read(with_holder, before, before))

    async def _read(self, query: str, *values: Value) -> Sequence[Row]:
        return await self._database.transaction(lambda each: each.fetch(query, *values), reads=True)

    async def _claim(
        self, transaction: Transaction, *, run_id: str, fence: str, force: bool
    ) -> tuple[RunRow, tuple[Entry, ...] | None]:
        """Claim a run, and return its row and entries; without entries, the claim was refused."""
        rows = await self._locked(transaction, [run_id])
        if not rows:
            raise _unknown(run_id)
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
        if (row.state == "dead" or (has_died and row.recoveries > self._max_recoveries)) and not force:
            await transaction.execute(_BURY, row.recoveries, run_id)
            return row, None
        await self._store.renew(transaction)
        await transaction.execute(_CLAIM, self._store.holder, fence, row.recoveries, run_id)
        return row, entries

    async def _delete(self, transaction: Transaction, *, run_id: str) -> None:
        families, held = await self._families(transaction, [run_id])
        if held:
            raise _held(held[run_id], "end")
        if not families[run_id]:
            raise _unknown(run_id)
        await _delete(transaction, families[run_id])

    async def _prune(
        self, transaction: Transaction, *, before: float, after: tuple[float, str]
    ) -> tuple[int, tuple[float, str] | None]:
        """Delete the next old runs; return their number, and the last run that was looked at, if any."""
        old = await transaction.fetch(self._next_old, before, before, *after)
        families, held = await self._families(transaction, [row["run_id"] for row in old])
        doomed = [family for run_id, family in families.items() if run_id not in held]
        await _delete(transaction, [run_id for family in doomed for run_id in family])
        return len(doomed), (old[-1]["began"], old[-1]["run_id"]) if len(old) == _AT_ONCE else None

    async def _families(
        self, transaction: Transaction, run_ids: Sequence[str]
    ) -> tuple[dict[str, list[str]], dict[str, Row]]:
        """Lock runs and the runs nested in them."""
        families: dict[str, list[str]] = {run_id: [] for run_id in run_ids}
        held: dict[str, Row] = {}
        outer = {run_id: run_id for run_id in run_ids}
        level = list(run_ids)
        while level:
            for row in await self._locked(transaction, level):
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

    async def _locked(self, transaction: Transaction, run_ids: Sequence[str]) -> list[Row]:
        """Lock the rows of runs until the transaction ends, and return them."""
        if self._database.for_update:
            await _fetch(transaction, self._lock, run_ids)
        return await _fetch(transaction, f"{self._select} WHERE run.run_id IN %s", run_ids)


def _unknown(run_id: str) -> RunUnknown:
    return RunUnknown(f"run {run_id} is not in the journal")


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
        await _fetch(transaction, f"DELETE FROM {table} WHERE run_id IN %s", run_ids)  # noqa: S608 - as above


async def _fetch(transaction: Transaction, query: str, values: Sequence[str]) -> list[Row]:
    """Return the rows of a query with the values in the place of `%s`, some of them at a time."""
    found: list[Row] = []
    for first in range(0, len(values), _VALUES):
        some = values[first : first + _VALUES]
        found += await transaction.fetch(query % marks(len(some)), *some)
    return found


async def _records(transaction: Transaction, run_id: str) -> tuple[Record, ...]:
    return tuple(Record(**dict(row)) for row in await transaction.fetch(_RECORDS, run_id))
