"""A journal's database on a PostgreSQL server, for many.

A batch is one statement, and so one round trip: the server commits it by itself.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import AsyncExitStack, suppress
from importlib.util import find_spec
from typing import Any, TypeVar

import anyio
from sqlalchemy import Connection, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import create_async_engine

from podium.errors import ConfigError
from podium.journal.sql.database import Database, Dialect, Rows
from podium.secrets import register

_CONNECT_SECONDS = 10.0
_ADVISORY_LOCK = 0x706F6469756D
"""Held while the tables are made or changed; `podium` in ASCII."""

_PLANS = """
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off
"""
"""By keys, once and for all: a plan made while the tables are small would else be kept as they grow."""

_WRITE = """
WITH held AS (
    SELECT run.fence FROM unnest($1::text[], $2::text[]) AS ours (run_id, fence)
    JOIN podium_runs AS run ON run.run_id = ours.run_id AND run.fence = ours.fence
    FOR SHARE OF run
), begun AS (
    INSERT INTO podium_runs (run_id, parent, question, state, began, ended, cost, holder, fence, recoveries)
    SELECT * FROM unnest(
        $3::text[], $4::text[], $5::text[], $6::text[], $7::double precision[], $8::double precision[],
        $9::double precision[], $10::text[], $11::text[], $12::integer[]
    ) WHERE (SELECT count(*) FROM held) = cardinality($1::text[])
    ON CONFLICT (run_id) DO UPDATE SET fence = excluded.fence WHERE podium_runs.fence = excluded.fence
    RETURNING fence
), sound AS (
    SELECT (SELECT count(*) FROM held) = cardinality($1::text[])
        AND (SELECT count(*) FROM begun) = cardinality($3::text[]) AS is_so
), added AS (
    INSERT INTO podium_events (run_id, number, at, text, hash)
    SELECT * FROM unnest($13::text[], $14::integer[], $15::double precision[], $16::text[], $17::text[])
    WHERE (SELECT is_so FROM sound)
), changed AS (
    UPDATE podium_runs AS run
    SET state = new.state, ended = new.ended, cost = new.cost, holder = new.holder
    FROM unnest(
        $18::text[], $19::double precision[], $20::double precision[], $21::text[], $22::text[], $23::text[]
    ) AS new (state, ended, cost, holder, run_id, fence)
    WHERE run.run_id = new.run_id AND run.fence = new.fence AND (SELECT is_so FROM sound)
)
SELECT fence FROM held UNION ALL SELECT fence FROM begun
"""
"""Locks the runs that are held against being taken, and only then, if all are, writes. Of a run that
was begun by an earlier try, whose acknowledgement was lost, it says that it is begun."""

_Value = TypeVar("_Value")


class Postgres(Dialect):
    """A server."""

    insert = staticmethod(postgresql.insert)

    def __init__(self, url: URL) -> None:
        super().__init__(url.set(drivername="postgresql+asyncpg"))
        if find_spec("asyncpg") is None:
            raise ConfigError(
                "PostgreSQL needs asyncpg: pip install './packages/core[postgres]' in a clone of Podium"
            )
        if url.password is not None:
            register(str(url.password))

    def open(self, patience: float) -> "PostgresDatabase":
        """Open nothing yet."""
        return PostgresDatabase(self, patience)


class PostgresDatabase(Database):
    """The connections to a server; batches have one of their own."""

    now = "extract(epoch from clock_timestamp())::double precision"

    def __init__(self, dialect: Postgres, patience: float) -> None:
        import asyncpg  # type: ignore[import-untyped]  # noqa: PLC0415  (an extra)

        super().__init__(dialect, patience)
        self.failures = (*self.failures, asyncpg.PostgresError, asyncpg.InterfaceError)
        self._engine = create_async_engine(
            dialect.url,
            hide_parameters=True,
            connect_args={"timeout": _CONNECT_SECONDS, "command_timeout": patience},
        )
        self._opened = AsyncExitStack()
        self._writing: Any = None
        """The driver's connection for batches; `None` before the first, and after a failure."""

    async def attempt(self, work: Callable[[Connection], _Value], *, reads: bool = False) -> _Value:
        """Do it on a connection."""
        del reads
        async with self._engine.begin() as connection:
            return await connection.run_sync(work)

    async def write(self, rows: Rows) -> Collection[str]:
        """Write it by one statement over columns."""
        try:
            connection = await self._connected()
            if rows.is_sure:
                return await _put(connection, rows)
            transaction = connection.transaction()
            await transaction.start()
            lost = await _put(connection, rows)
            await (transaction.rollback() if lost else transaction.commit())
        except BaseException:
            await self._disconnect()
            raise
        return lost

    async def _connected(self) -> Any:
        if self._writing is None:
            connection = await self._opened.enter_async_context(self._engine.connect())
            driver: Any = (await connection.get_raw_connection()).driver_connection
            await driver.execute(_PLANS)
            self._opened.push_async_callback(connection.invalidate)  # its settings are not for others
            self._writing = driver
        return self._writing

    async def _disconnect(self) -> None:
        self._writing, opened, self._opened = None, self._opened, AsyncExitStack()
        with anyio.move_on_after(1.0), suppress(*self.failures):
            await opened.aclose()

    def lock_schema(self, connection: Connection) -> None:
        """Take a lock of ours, which the transaction's end gives back."""
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})

    async def aclose(self) -> None:
        """Close all connections."""
        await self._disconnect()
        await self._engine.dispose()


async def _put(connection: Any, rows: Rows) -> Collection[str]:
    """Write it; return the fences that are not so."""
    columns = (
        *_columns(rows.held, 2),
        *_columns(rows.begun, 10),
        *_columns(rows.records, 5),
        *_columns(rows.changed, 6),
    )
    found = {row[0] for row in await connection.fetch(_WRITE, *columns)}
    lost = {fence for _, fence in rows.held} - found
    return lost or {row[8] for row in rows.begun} - found  # nothing is begun unless all are held


def _columns(rows: Sequence[tuple[Any, ...]], number: int) -> Sequence[Sequence[Any]]:
    return tuple(zip(*rows, strict=True)) if rows else ((),) * number
