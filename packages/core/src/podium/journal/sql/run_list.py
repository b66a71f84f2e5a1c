"""Lists the runs of a database. A query reads no more rows than its result needs, however many there are."""

import json
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from types import UnionType
from typing import get_args

from podium.journal.entry import DAMAGED, LAST_CHARACTER, RunRow
from podium.journal.sql.database import Database, Row, Transaction, Value, marks
from podium.journal.sql.lease import is_held
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
        """Return the conditions of the query, and their values.

        Args:
            bytewise: see `Database`.
        """
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
    """The runs of one database.

    Args:
        database: the database.
    """

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
