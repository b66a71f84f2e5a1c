"""Deletes runs with the runs nested in them."""

from collections.abc import Iterator, Sequence
from functools import partial
from math import inf
from time import time

from podium.errors import RunHeld, RunUnknown
from podium.journal.sql.database import Database, Row, Transaction, marks
from podium.journal.sql.lease import is_held, process_of

_AT_ONCE = 100
"""Maximum runs that one transaction deletes, without nested runs. Writers wait while it deletes them."""
_IDS = 500
"""Maximum ids of one statement."""
_NESTED = "SELECT run_id, parent FROM podium_runs WHERE parent IN %s"


class Deletion:
    """Deletes the runs of one database.

    Args:
        database: the database.
    """

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
        """Lock runs and the runs nested in them.

        Returns:
            For each of the runs the ids of these runs, and the row of a held one, if there is one.
        """
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
        """Lock the rows of runs until the transaction ends, and return them.

        A separate statement takes the locks. A single PostgreSQL statement that waits for a lock would read
        old rows of the other tables, from before the wait.
        """
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
