"""Claims and reads the runs of a database."""

from dataclasses import dataclass, replace
from functools import partial

from podium.errors import RunDead, RunHeld, RunUnknown
from podium.journal.entry import Entry, Record
from podium.journal.sql.database import Row, Transaction
from podium.journal.sql.fenced_store import FencedStore
from podium.journal.sql.lease import is_given_up, is_held, process_of
from podium.journal.sql.run_list import select_runs
from podium.journal.sql.run_log import RunState

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
    """The runs of one database.

    Args:
        store: the store whose holder claims the runs.
        max_recoveries: maximum number of claims after a process of the run died.
    """

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
        """Lock a run's row until the transaction ends, and return the row.

        A separate statement takes the lock. A single PostgreSQL statement that waits for the lock would read
        old rows of the other tables, from before the wait.
        """
        await transaction.fetch(self._lock, run_id)
        return await self._row(transaction, run_id)

    async def _row(self, transaction: Transaction, run_id: str) -> Row:
        rows = await transaction.fetch(self._select, run_id)
        if not rows:
            raise RunUnknown(f"run {run_id} is not in the journal")
        return rows[0]


async def _records(transaction: Transaction, run_id: str) -> tuple[Record, ...]:
    return tuple(Record(**dict(row)) for row in await transaction.fetch(_RECORDS, run_id))
