"""Writes each batch in one transaction, which checks the fences of its runs.

The row of a run has a holder and a fence. The fence is a random value that each claim of the run replaces.
The transaction that writes a batch checks the fences of its runs, and locks them until it commits. If a fence
has changed, nothing is written, and the batch is retried without that run. So a process that was suspended
for longer than its lease writes nothing. The primary key of the records (run, number) is a second protection.
"""

from collections.abc import Collection
from time import monotonic

from podium.journal.entry import question_of
from podium.journal.sql.batch import Batch
from podium.journal.sql.database import BatchRows, Database, Transaction, Value
from podium.journal.sql.run_log import RunState, SqlLog

_FORGET_SECONDS = 86400.0
"""Seconds from the end of a lease to its deletion."""


class FencedStore:
    """Writes batches to a database.

    Args:
        database: the database.
        lease: the time in seconds for which a run stays held after its holder has last renewed its lease.
    """

    def __init__(self, database: Database, lease: float) -> None:
        self.database = database
        self.holder = database.tenure.holder
        self._lease = lease
        # no value from outside is in these statements
        self._renew = f"""
            INSERT INTO podium_leases (holder, until) VALUES (?, {database.now} + ?)
            ON CONFLICT (holder) DO UPDATE SET until = excluded.until
        """  # noqa: S608
        self._forget = f"DELETE FROM podium_leases WHERE until < {database.now} - ?"  # noqa: S608

    async def commit(self, batch: Batch) -> Collection[SqlLog]:
        """Make one attempt to write a batch durably, and return the logs whose run another process holds.

        Raises:
            Refused: the database refuses a statement or a value of the batch.
            JournalError: the database fails.
        """
        try:
            return await self._write(batch)
        except Exception as error:  # drivers raise many types; `failure` translates them
            is_first, batch.is_retry = not batch.is_retry, True
            if is_first and self.database.is_duplicate_key(error):
                return await self.commit(batch)  # without the records that were already written
            raise self.database.failure(error) from error

    async def renew(self, transaction: Transaction) -> None:
        """Renew the lease."""
        await transaction.execute(self._renew, self.holder, self._lease)
        await transaction.execute(self._forget, _FORGET_SECONDS)

    async def _write(self, batch: Batch) -> Collection[SqlLog]:
        now, tenure = monotonic(), self.database.tenure
        if now - tenure.renewed_at >= self._lease / 3:
            await self.database.attempt(self.renew)  # a held run needs a lease
            tenure.renewed_at = now
        if not batch.counts and not batch.released:
            return ()
        written = await self._hashes(batch) if batch.is_retry else frozenset[str]()
        lost: set[SqlLog] = set()
        while True:
            fences = await self.database.write(self._rows(batch, lost, written))
            if not fences:
                return lost
            lost |= {log for log in batch.counts if log.fence in fences}

    async def _hashes(self, batch: Batch) -> frozenset[str]:
        """Return the hashes of the recorded events of the batch's runs.

        An earlier attempt may have been committed although its acknowledgement was lost.
        """

        async def read(transaction: Transaction) -> frozenset[str]:
            hashes: set[str] = set()
            for log in batch.records:
                rows = await transaction.fetch("SELECT hash FROM podium_events WHERE run_id = ?", log.run_id)
                hashes |= {row["hash"] for row in rows}
            return frozenset(hashes)

        return await self.database.attempt(read, reads=True)

    def _rows(self, batch: Batch, lost: Collection[SqlLog], written: Collection[str]) -> BatchRows:
        logs = [log for log in batch.counts if log not in lost]
        new = {log for log in batch.new if log not in lost}
        changed = [log for log in batch.states if log not in new and log not in lost]
        return BatchRows(
            new_runs=[self._new_run(log, batch) for log in batch.new if log in new],
            ids_are_new=not batch.is_retry and all(log.is_minted for log in new),
            fences=[(log.run_id, log.fence) for log in logs if log not in new],
            records=[row for log in logs for row in batch.records.get(log, ()) if row[4] not in written],
            changes=[self._change(log, batch.states[log]) for log in changed],
            answers=[row for log in logs for row in batch.answers.get(log, ())],
            releases=[(log.run_id, log.fence) for log in batch.released],
        )

    def _new_run(self, log: SqlLog, batch: Batch) -> tuple[Value, ...]:
        assert log.started is not None
        parent = None if log.started.parent is None else log.started.parent[0]
        _, _, began, text, _ = batch.records[log][0]
        name, ended, cost, holder, run_id, fence = self._change(log, batch.states.get(log, RunState()))
        return run_id, parent, question_of(text), name, began, ended, cost, holder, fence, 0

    def _change(self, log: SqlLog, state: RunState) -> tuple[Value, ...]:
        holder = self.holder if state.is_held else None
        return state.name, state.ended, state.cost, holder, log.run_id, log.fence
