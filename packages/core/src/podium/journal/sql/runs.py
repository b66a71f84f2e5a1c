"""The runs of a database: claims, lists and deletion."""

import json
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf, isfinite
from time import time
from types import UnionType
from typing import get_args

from podium.errors import RunDead, RunHeld, RunUnknown
from podium.journal.journal import DAMAGED, LAST_CHARACTER, Entry, Record, RunRow
from podium.journal.sql.commits import FencedStore, RunState
from podium.journal.sql.database import Database, Row, Transaction, Value, marks
from podium.journal.sql.lease import is_given_up, is_held, process_of
from podium.types.result import RunStatus

_ALL = 2**62
"""A limit above any number of rows. `LIMIT NULL` and `LIMIT -1` each work in only one of the databases."""
_PAGE = 500
"""Rows of one transaction that reads all runs."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which runs to list; see `Journal.runs` and `Journal.pages`."""

    nested: bool = False
    prefix: str = ""
    parent: str | None = None
    since: float | None = None
    until: float | None = None
    ids: Collection[str] | None = None
    after: RunRow | None = None
    """Only runs after this run in the list."""

    def conditions(self, bytewise: str) -> tuple[list[str], list[Value]]:
        """Return the conditions of the query, and their values."""
        which: list[str] = []
        values: list[Value] = []
        if self.parent is not None:
            which, values = ["run.parent = ?"], [self.parent]
        elif not self.nested:
            which.append("run.parent IS NULL")
        if self.prefix:
            run_id = f"run.run_id {bytewise}"
            which.append(f"{run_id} >= ? AND {run_id} < ?")
            values += [self.prefix, self.prefix + LAST_CHARACTER]
        for test, bound in (("run.began >= ?", self.since), ("run.began <= ?", self.until)):
            if bound is not None:
                which.append(test)
                values.append(bound)
        if self.after is not None:
            which.append("(run.began, run.run_id) < (?, ?)")
            values += [self.after.began, self.after.run_id]
        if self.ids is not None:
            which.append(f"run.run_id IN {marks(len(self.ids))}" if self.ids else "FALSE")
            values += self.ids
        return which or ["TRUE"], values


class RunList:
    """The runs of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._select = select_runs(database)

    async def rows(self, wanted: Wanted, limit: int | None) -> tuple[RunRow, ...]:
        """Return the latest runs, newest first."""
        which, values = wanted.conditions(self._database.bytewise)
        # the sum keeps both databases from reading all runs in the order of the index until some match
        began = "run.began + 0" if wanted.prefix else "run.began"
        order = f"ORDER BY {began} DESC, run.run_id DESC LIMIT ?"
        statement = f"{self._select} WHERE {' AND '.join(which)} {order}"

        async def read(transaction: Transaction) -> tuple[RunRow, ...]:
            rows = await transaction.fetch(statement, *values, _ALL if limit is None else limit)
            return tuple(map(_run_row, rows))

        return await self._database.transaction(read, reads=True)

    async def pages(self, wanted: Wanted) -> AsyncGenerator[Sequence[RunRow], None]:
        """Yield all runs in pages, newest first; each page is one transaction."""
        while page := await self.rows(wanted, _PAGE):
            yield page
            wanted = replace(wanted, after=page[-1])

    async def answer_labels(self, keys: Collection[str]) -> Mapping[str, frozenset[str]]:
        """Return the labels of answers; see `Journal.answer_labels`."""
        wanted, found = sorted(keys), dict[str, frozenset[str]]()

        async def read(transaction: Transaction) -> None:
            for first in range(0, len(wanted), _PAGE):
                some = wanted[first : first + _PAGE]
                query = f"SELECT DISTINCT key, labels FROM podium_answers WHERE key IN {marks(len(some))}"  # noqa: S608 - placeholders
                for row in await transaction.fetch(query, *some):
                    found[row["key"]] = found.get(row["key"], frozenset()).union(json.loads(row["labels"]))

        await self._database.transaction(read, reads=True)
        return found

    async def strays(self) -> list[str]:
        """Return the ids that have records but no row."""
        found: list[str] = []
        after = ""
        while rows := await self._ids_after(after):
            found += [row["run_id"] for row in rows if row["has_row"] is None]
            after = rows[-1]["run_id"]
        return found

    async def _ids_after(self, run_id: str) -> Sequence[Row]:
        return await self._database.transaction(
            lambda transaction: transaction.fetch(_STRAYS, run_id, _PAGE), reads=True
        )


def select_runs(database: Database) -> str:
    """Return the beginning of a query for rows of runs."""
    return f"""
        SELECT run.*, lease.until > {database.now} AS is_live
        FROM podium_runs AS run LEFT JOIN podium_leases AS lease ON lease.holder = run.holder
    """  # noqa: S608 - no value from outside


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


_AT_ONCE = 100
"""Maximum runs that one transaction deletes, without nested runs. Writers wait while it deletes them."""
_IDS = 500
"""Maximum ids of one statement."""
_NESTED = "SELECT run_id, parent FROM podium_runs WHERE parent IN %s"


class Deletion:
    """Deletes the runs of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        lock, skip = database.for_update, " SKIP LOCKED" if database.for_update else ""
        # no value from outside is in these statements
        self._lock = f"SELECT run_id FROM podium_runs WHERE run_id IN %s ORDER BY run_id {lock}"  # noqa: S608
        old = "parent IS NULL AND began < ? AND coalesce(ended, began) < ?"
        self._old = f"""
            SELECT run_id, began FROM podium_runs
            WHERE {old} AND (began, run_id) > (?, ?)
            ORDER BY began, run_id LIMIT {_AT_ONCE} {lock}{skip}
        """  # noqa: S608
        self._count = f"SELECT count(*) AS count FROM podium_runs WHERE {old} AND holder IS NULL"  # noqa: S608
        self._with_holder = f"""
            SELECT run.holder, run.fence, lease.until > {database.now} AS is_live
            FROM podium_runs AS run LEFT JOIN podium_leases AS lease ON lease.holder = run.holder
            WHERE {old} AND run.holder IS NOT NULL
        """  # noqa: S608
        self._rows = f"""
            SELECT run.run_id, run.holder, run.fence, lease.until > {database.now} AS is_live
            FROM podium_runs AS run LEFT JOIN podium_leases AS lease ON lease.holder = run.holder
            WHERE run.run_id IN %s
        """  # noqa: S608

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

        async def count(transaction: Transaction) -> int:
            rows = await transaction.fetch(self._with_holder, before, before)
            left = sum(not is_held(row) for row in rows)
            return left + int((await transaction.fetch(self._count, before, before))[0]["count"])

        return await self._database.transaction(count, reads=True)

    async def _delete(self, transaction: Transaction, *, run_id: str) -> None:
        families, held = await self._families(transaction, [run_id])
        if held:
            row = held[run_id]
            told = f"run {row['run_id']} is running in {process_of(row['holder'])}"
            raise RunHeld(f"{told}: wait for it to end")
        if not families[run_id]:
            raise RunUnknown(f"run {run_id} is not in the journal")
        await _delete(transaction, families[run_id])

    async def _prune(
        self, transaction: Transaction, *, before: float, after: tuple[float, str]
    ) -> tuple[int, tuple[float, str] | None]:
        """Delete the next old runs; return their number, and the last run that was looked at, if any."""
        old = await transaction.fetch(self._old, before, before, *after)
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
            for row in await _fetch(transaction, _NESTED, left):
                if row["run_id"] not in outer:
                    outer[row["run_id"]] = outer[row["parent"]]
                    level.append(row["run_id"])
        return families, held

    async def _locked(self, transaction: Transaction, run_ids: Sequence[str]) -> list[Row]:
        """Lock the rows of runs until the transaction ends, and return them."""
        if self._database.for_update:
            await _fetch(transaction, self._lock, run_ids)
        return await _fetch(transaction, self._rows, run_ids)


async def _delete(transaction: Transaction, run_ids: Sequence[str]) -> None:
    for some in _parts(run_ids):
        for table in ("podium_events", "podium_answers", "podium_runs"):
            statement = f"DELETE FROM {table} WHERE run_id IN {marks(len(some))}"  # noqa: S608 - placeholders
            await transaction.execute(statement, *some)


async def _fetch(transaction: Transaction, query: str, run_ids: Sequence[str]) -> list[Row]:
    """Return the rows of a query with the ids of runs in the place of `%s`."""
    found: list[Row] = []
    for some in _parts(run_ids):
        found += await transaction.fetch(query % marks(len(some)), *some)
    return found


def _parts(run_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(run_ids), _IDS):
        yield run_ids[first : first + _IDS]


_RECORDS = "SELECT run_id, number, at, text, hash FROM podium_events WHERE run_id = ? ORDER BY number"
_CLAIM = "UPDATE podium_runs SET holder = ?, fence = ?, recoveries = ? WHERE run_id = ?"
_BURY = "UPDATE podium_runs SET state = 'dead', holder = NULL, recoveries = ? WHERE run_id = ?"


@dataclass(frozen=True, slots=True)
class Claim:
    """A run that was claimed."""

    entries: tuple[Entry, ...]
    state: RunState
    """The state before the claim."""
    recoveries: int
    is_refused: bool = False
    """Whether the claim was refused, because too many processes died while they executed the run."""


class RunTable:
    """The runs of one database."""

    def __init__(self, store: FencedStore, max_recoveries: int) -> None:
        self._store = store
        self._database = store.database
        self._max_recoveries = max_recoveries
        self._select = f"{select_runs(self._database)} WHERE run.run_id = ?"
        self._lock = f"SELECT run_id FROM podium_runs WHERE run_id = ? {self._database.for_update}"  # noqa: S608

    async def claim(self, run_id: str, fence: str, *, force: bool) -> Claim:
        """Claim a run that no live process holds; `Journal.claim` describes the exceptions."""
        claim = await self._database.transaction(
            partial(self._claim, run_id=run_id, fence=fence, force=force)
        )
        if claim.is_refused:
            raise RunDead(
                f"run {run_id} was continued {claim.recoveries - 1} times after its process died: "
                "find the cause before you force it"
            )
        return claim

    async def _claim(self, transaction: Transaction, *, run_id: str, fence: str, force: bool) -> Claim:
        row = await self._locked(transaction, run_id)
        is_claimed = row["fence"] == fence  # by an earlier attempt whose acknowledgement was lost
        if is_held(row) and not is_claimed:
            raise RunHeld(
                f"run {run_id} is running in {process_of(row['holder'])}: wait for it to end or stop"
            )
        entries = tuple(record.entry() for record in await _records(transaction, run_id))
        claim = Claim(entries, RunState(row["state"], row["ended"], row["cost"]), row["recoveries"])
        if is_claimed:
            return claim
        has_died = row["holder"] is not None and not is_given_up(row["holder"], row["fence"])
        recoveries = claim.recoveries + has_died
        if (row["state"] == "dead" or (has_died and recoveries > self._max_recoveries)) and not force:
            await transaction.execute(_BURY, recoveries, run_id)
            return replace(claim, recoveries=recoveries, is_refused=True)
        await self._store.renew(transaction)
        await transaction.execute(_CLAIM, self._store.holder, fence, recoveries, run_id)
        return replace(claim, recoveries=recoveries)

    async def records(self, run_id: str) -> tuple[Record, ...]:
        """Return all records of a run; `Journal.records` describes the exceptions."""

        async def read(transaction: Transaction) -> tuple[Record, ...]:
            await self._row(transaction, run_id)
            return await _records(transaction, run_id)

        return await self._database.transaction(read, reads=True)

    async def _locked(self, transaction: Transaction, run_id: str) -> Row:
        """Lock a run's row until the transaction ends, and return the row."""
        await transaction.fetch(self._lock, run_id)
        return await self._row(transaction, run_id)

    async def _row(self, transaction: Transaction, run_id: str) -> Row:
        rows = await transaction.fetch(self._select, run_id)
        if not rows:
            raise RunUnknown(f"run {run_id} is not in the journal")
        return rows[0]


async def _records(transaction: Transaction, run_id: str) -> tuple[Record, ...]:
    return tuple(Record(**dict(row)) for row in await transaction.fetch(_RECORDS, run_id))
