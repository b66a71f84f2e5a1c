"""How batches reach the database: one transaction each, in which every run's fence is checked.

A run's row says who holds it, and a fence that is made anew whenever the run is taken. A
batch reads the fences of its runs and keeps them so until it is committed; what is of a
run whose fence is another is left out. So a holder that was stopped beyond its lease, and
comes back, writes nothing. The numbers of records, being a primary key, see to it once more.
"""

from collections.abc import Collection
from contextlib import AsyncExitStack, suppress
from typing import Any

import anyio
from sqlalchemy import Double, bindparam, delete, func, literal_column, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from podium.journal.batch import Batch
from podium.journal.database import FIRST_WAIT, LONGEST_WAIT, Database, passes
from podium.journal.entry import question_of
from podium.journal.holder import new_holder
from podium.journal.log import SqlLog, State
from podium.journal.tables import EVENTS, HOLDERS, RUNS
from podium.journal.writer import Unwritable

_FORGOTTEN_AFTER = 86400.0
"""Seconds after which a lease that ran out is not worth a row."""


class Store:
    """Writes batches over a connection of its own.

    Args:
        database: where to.
        lease: for how long a run is held after a sign of life, in seconds.
    """

    def __init__(self, database: Database, lease: float) -> None:
        self.database = database
        self.holder = new_holder()
        self._lease = lease
        self._beaten = -lease
        self._opened = AsyncExitStack()
        self._connection: AsyncConnection | None = None
        dialect = database.dialect
        now = literal_column(dialect.now, Double)
        self._fences = dialect.fences()
        self._begin = dialect.insert(RUNS).on_conflict_do_nothing()
        self._change = (
            update(RUNS)
            .where(RUNS.c.run_id == bindparam("id"), RUNS.c.fence == bindparam("held_by"))
            .values(
                state=bindparam("name"), ended=bindparam("at"), cost=bindparam("usd"), holder=bindparam("who")
            )
        )
        beat = dialect.insert(HOLDERS).values(holder=self.holder, until=now + lease)
        self._beat = beat.on_conflict_do_update(index_elements=["holder"], set_={"until": now + lease})
        self._forget = delete(HOLDERS).where(HOLDERS.c.until < now - _FORGOTTEN_AFTER)

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
            except self.database.dialect.failures as error:
                await self._disconnect()
                twice = isinstance(error, IntegrityError) and not batch.is_again
                if not (passes(error) or twice):
                    raise Unwritable(str(self.database.failed(error))) from error
                if anyio.current_time() + wait > end:
                    raise self.database.failed(error) from error
            batch.is_again = True
            await anyio.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._opened.aclose()

    async def _write(self, batch: Batch) -> Collection[SqlLog]:
        connection = await self._connected()
        async with connection.begin():
            now = anyio.current_time()
            is_due = now - self._beaten >= self._lease / 3
            if is_due:
                await self.beat(connection)
            if batch.begun:
                await connection.execute(self._begin, [self._row(log, batch) for log in batch.begun])
            lost = await self._lost(connection, batch)
            records = batch.records
            if lost:
                ids = {log.run_id for log in lost}
                records = [record for record in records if record[0] not in ids]
            if batch.is_again:
                records = await self._missing(connection, records)
            if records:
                await self.database.dialect.add_records(connection, records)
            begun = set(batch.begun)
            changes = [self._changed(log, state) for log, state in batch.states.items() if log not in begun]
            if changes:
                await connection.execute(self._change, changes)
        if is_due:
            self._beaten = now
        return lost

    async def beat(self, connection: AsyncConnection) -> None:
        """Say that the holder lives."""
        await connection.execute(self._beat)
        await connection.execute(self._forget)

    async def _lost(self, connection: AsyncConnection, batch: Batch) -> set[SqlLog]:
        sure = {log for log in batch.begun if log.is_minted}
        logs = [log for log in batch.counts if log not in sure]
        if not logs:
            return set()
        ids = self.database.dialect.ids([log.run_id for log in logs])
        found = {row.run_id: row.fence for row in await connection.execute(self._fences, {"ids": ids})}
        return {log for log in logs if found.get(log.run_id) != log.fence}

    async def _missing(self, connection: AsyncConnection, records: list[Any]) -> list[Any]:
        """Return the records that are not there from an earlier try, whose acknowledgement was lost."""
        ids = {record[0] for record in records}
        last = select(EVENTS.c.run_id, func.max(EVENTS.c.number)).where(EVENTS.c.run_id.in_(ids))
        there: dict[str, int] = dict(map(tuple, await connection.execute(last.group_by(EVENTS.c.run_id))))
        return [record for record in records if record[1] > there.get(record[0], -1)]

    def _row(self, log: SqlLog, batch: Batch) -> dict[str, Any]:
        started, state = log.started, batch.states.get(log, State())
        assert started is not None
        return {
            "run_id": log.run_id,
            "parent": None if started.parent is None else started.parent[0],
            "question": question_of(started),
            "state": state.name,
            "began": next(record[2] for record in batch.records if record[0] == log.run_id),
            "ended": state.ended,
            "cost": state.cost,
            "holder": self.holder if state.is_held else None,
            "fence": log.fence,
            "recoveries": 0,
        }

    def _changed(self, log: SqlLog, state: State) -> dict[str, Any]:
        return {
            "id": log.run_id,
            "held_by": log.fence,
            "name": state.name,
            "at": state.ended,
            "usd": state.cost,
            "who": self.holder if state.is_held else None,
        }

    async def _connected(self) -> AsyncConnection:
        if self._connection is None:
            self._connection = await self._opened.enter_async_context(self.database.connect())
        return self._connection

    async def _disconnect(self) -> None:
        connection, self._connection, opened = self._connection, None, self._opened
        self._opened, self._beaten = AsyncExitStack(), -self._lease
        if connection is not None:
            with anyio.move_on_after(1.0), suppress(*self.database.dialect.failures):
                await connection.invalidate()
            with suppress(*self.database.dialect.failures):
                await opened.aclose()
