"""How batches reach the database: one transaction each, in which every run's fence is checked.

A run's row says who holds it, and a fence that is made anew whenever the run is taken. The
fences of a batch's runs are checked, and kept so, in the transaction that writes it; where
one is another, nothing is written, and the batch is tried again without what is of that run.
So a holder that was stopped beyond its lease, and comes back, writes nothing. The numbers of
records, being a primary key, see to it once more.
"""

from collections.abc import Collection
from typing import Any

import anyio
from sqlalchemy import Connection, Double, delete, literal_column, select

from podium.journal.entry import question_of
from podium.journal.sql.batch import Batch
from podium.journal.sql.database import FIRST_WAIT, LONGEST_WAIT, Database, Rows, is_taken, passes
from podium.journal.sql.group_commit import Unwritable
from podium.journal.sql.lease import new_holder
from podium.journal.sql.run_log import SqlLog, State
from podium.journal.sql.tables import EVENTS, HOLDERS

_FORGOTTEN_AFTER = 86400.0
"""Seconds after which a lease that ran out is not worth a row."""


class Store:
    """Writes batches.

    Args:
        database: where to.
        lease: for how long a run is held after a sign of life, in seconds.
    """

    def __init__(self, database: Database, lease: float) -> None:
        self.database = database
        self.holder = new_holder()
        self._lease = lease
        self._beaten = -lease
        until = literal_column(database.now, Double) + lease
        beat = database.dialect.insert(HOLDERS).values(holder=self.holder, until=until)
        self._beat = beat.on_conflict_do_update(index_elements=["holder"], set_={"until": until})
        self._forget = delete(HOLDERS).where(HOLDERS.c.until < until - lease - _FORGOTTEN_AFTER)

    async def commit(self, batch: Batch) -> Collection[SqlLog]:
        """Write a batch and return once it is durable, with the logs that hold their run no longer.

        Raises:
            Unwritable: the database refuses something in it.
            JournalError: the database cannot be used.
        """
        end, wait = anyio.current_time() + self.database.patience, FIRST_WAIT
        while True:
            try:
                return await self._write(batch)
            except self.database.failures as error:
                self._beaten = -self._lease
                if not (passes(error) or (is_taken(error) and not batch.is_again)):
                    raise Unwritable(str(self.database.failed(error))) from error
                if anyio.current_time() + wait > end:
                    raise self.database.failed(error) from error
            batch.is_again = True
            await anyio.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)

    def beat(self, connection: Connection) -> None:
        """Say that the holder lives."""
        connection.execute(self._beat)
        connection.execute(self._forget)

    async def _write(self, batch: Batch) -> Collection[SqlLog]:
        now = anyio.current_time()
        if now - self._beaten >= self._lease / 3:
            await self.database.attempt(self.beat)  # before there are runs that it holds
            self._beaten = now
        if not batch.counts and not batch.states:
            return ()
        there = await self._there(batch) if batch.is_again else frozenset[str]()
        lost: set[SqlLog] = set()
        while True:
            gone = await self.database.write(self._rows(batch, lost, there))
            if not gone:
                return lost
            lost |= {log for log in batch.counts if log.fence in gone}

    async def _there(self, batch: Batch) -> frozenset[str]:
        """Return the hashes of records that are there from an earlier try, whose acknowledgement was lost."""
        ids = [log.run_id for log in batch.records]
        query = select(EVENTS.c.hash).where(EVENTS.c.run_id.in_(ids))
        return await self.database.attempt(lambda c: frozenset(c.execute(query).scalars()), reads=True)

    def _rows(self, batch: Batch, lost: Collection[SqlLog], there: Collection[str]) -> Rows:
        logs = [log for log in batch.counts if log not in lost]
        begun = [log for log in batch.begun if log not in lost]
        news = set(begun)
        return Rows(
            begun=[self._row(log, batch) for log in begun],
            is_sure=all(log.is_minted for log in begun),
            held=[(log.run_id, log.fence) for log in logs if log not in news],
            records=[row for log in logs for row in batch.records.get(log, ()) if row[4] not in there],
            changed=[
                self._changed(log, state)
                for log, state in batch.states.items()
                if log not in news and log not in lost
            ],
        )

    def _row(self, log: SqlLog, batch: Batch) -> tuple[Any, ...]:
        started, state = log.started, batch.states.get(log, State())
        assert started is not None
        parent = None if started.parent is None else started.parent[0]
        began, holder = batch.records[log][0][2], self.holder if state.is_held else None
        question = question_of(started)
        return (
            log.run_id,
            parent,
            question,
            state.name,
            began,
            state.ended,
            state.cost,
            holder,
            log.fence,
            0,
        )

    def _changed(self, log: SqlLog, state: State) -> tuple[Any, ...]:
        holder = self.holder if state.is_held else None
        return state.name, state.ended, state.cost, holder, log.run_id, log.fence
