"""A database on a PostgreSQL server, for many machines.

A batch is written by one statement without an explicit transaction. So it needs only one round trip.
"""

import re
from collections.abc import Callable, Collection, Sequence
from functools import cache
from itertools import count
from typing import Any, TypeVar
from uuid import uuid4

import anyio
import asyncpg  # type: ignore[import-untyped]

from podium.aio.loops import PerLoop
from podium.errors import PodiumError
from podium.journal.sql.database import (
    SAME_RECORD,
    BatchRows,
    Database,
    DatabaseUrl,
    Row,
    Synchronous,
    Transaction,
    Value,
    Work,
)

_CONNECT_SECONDS = 10.0
_CLOSE_SECONDS = 1.0
_CONNECTIONS = 10
"""Maximum connections of one event loop, besides those that write batches and that listen."""
_TRANSIENT = frozenset({"08", "25", "40", "53", "55", "57", "58", "0A", "XX"})
"""Classes of error codes: connection, transaction, resources, shutdown, system."""
_BUSY = frozenset({"53", "55", "57"})
"""Of these classes: resources, locks, shutdown and start."""
_CHANNEL = "podium_runs"
"""The name in `_NOTIFY`."""
_CHECK_SECONDS = 30.0
"""Seconds between two checks of the connection that listens: a network may drop it without an end."""

_NOTIFY = """
SELECT set_config('synchronous_commit', 'off', TRUE), pg_notify('podium_runs', told)
FROM unnest(string_to_array(?, chr(10))) AS told
"""
"""Does not wait for the disk, because notifications do not survive a crash of the server anyway."""

_PLANS = """
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off
"""
"""Force query plans that use keys: the server keeps plans that it made while the tables were small."""

_WRITE = f"""
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
    {SAME_RECORD}
), changed AS (
    UPDATE podium_runs AS run
    SET state = new.state, ended = new.ended, cost = new.cost, holder = new.holder
    FROM unnest(
        $18::text[], $19::double precision[], $20::double precision[], $21::text[], $22::text[], $23::text[]
    ) AS new (state, ended, cost, holder, run_id, fence)
    WHERE run.run_id = new.run_id AND run.fence = new.fence AND (SELECT is_so FROM sound)
), answered AS (
    INSERT INTO podium_answers (key, run_id, labels)
    SELECT * FROM unnest($26::text[], $27::text[], $28::text[]) WHERE (SELECT is_so FROM sound)
), released AS (
    UPDATE podium_runs AS run
    SET holder = NULL, state = CASE run.state WHEN 'running' THEN 'stopped' ELSE run.state END
    FROM unnest($24::text[], $25::text[]) AS former (run_id, fence)
    WHERE run.run_id = former.run_id AND run.fence = former.fence AND (SELECT is_so FROM sound)
)
SELECT fence FROM held UNION ALL SELECT fence FROM begun
"""  # noqa: S608 - no value from outside
"""Locks the rows of existing runs, and writes only if all fences are as expected. If an earlier attempt
created a run and its acknowledgement was lost, the run counts as created by this attempt."""

_Result = TypeVar("_Result")


async def _keep_session(connection: Any) -> None:
    """Change nothing: transactions leave nothing in their session, and a reset would be a round trip."""


class PostgresUrl(DatabaseUrl, PerLoop[Any]):
    """A database of a server, and the pool of connections that all its users share in one event loop."""

    def __init__(self, url: str, name: str) -> None:
        super().__init__()
        self._url = url
        self._name = name

    def __str__(self) -> str:
        return self._name

    def connect(self, patience: float, synchronous: Synchronous) -> "_PostgresDatabase":
        """Return the database without opening a connection."""
        del synchronous
        return _PostgresDatabase(self._name, patience, self._url, self)

    async def _open(self) -> Any:
        return await asyncpg.create_pool(
            dsn=self._url, timeout=_CONNECT_SECONDS, min_size=0, max_size=_CONNECTIONS, reset=_keep_session
        )

    async def _close(self, part: Any) -> None:
        try:
            with anyio.move_on_after(_CLOSE_SECONDS):
                await part.close()
        finally:
            part.terminate()


class _PostgresDatabase(Database):
    """The connections to a server: one for batches, one that listens, and a shared pool for the rest."""

    now = "extract(epoch from clock_timestamp())::double precision"
    for_update = "FOR UPDATE"
    bytewise = 'COLLATE "C"'
    is_postgres = True
    lock_schema = "SELECT pg_advisory_xact_lock(123623728313709)"  # `podium` in ASCII
    columns = (
        "SELECT attname AS name FROM pg_attribute "
        "WHERE attrelid = to_regclass(?) AND attnum > 0 AND NOT attisdropped"
    )
    failures = (
        asyncpg.PostgresError,
        asyncpg.InterfaceError,
        asyncpg.InternalClientError,  # raised if the server dies in the middle of a message
        OSError,
        TimeoutError,
    )
    notifies = True

    def __init__(self, name: str, patience: float, url: str, pool: PostgresUrl) -> None:
        super().__init__(name, patience)
        self._settings = {"dsn": url, "timeout": _CONNECT_SECONDS, "command_timeout": patience}
        self._pool = pool
        self._uses_pool = False
        """Whether this database keeps the pool open."""
        self._writer: Any = None
        """The connection for batches; `None` before the first batch and after a failure."""
        self._token = uuid4().hex[:8]
        """Begins the notifications of this process, which does not need them."""

    async def attempt(self, work: Work[_Result], *, reads: bool = False, alone: bool = False) -> _Result:
        if not self._uses_pool:
            self._uses_pool = True
            await self._pool.__aenter__()
        async with self._pool.opened() as pool:
            connection = await self._acquired(pool)
            try:
                transaction = _PostgresTransaction(connection, self.patience)
                return await (work(transaction) if reads or alone else transaction.run(work))
            except PodiumError:
                raise
            except BaseException:  # also after a cancellation: a statement may be unfinished
                connection.terminate()  # the server rolls back
                raise
            finally:
                await pool.release(connection)

    async def _acquired(self, pool: Any) -> Any:
        """Return a free connection of the pool."""
        try:
            return await pool.acquire(timeout=self.patience)
        except TimeoutError as error:
            told = f"none of {_CONNECTIONS} connections was free or opened within {self.patience:g} s"
            raise TimeoutError(f"{told}: the process or the database is overloaded") from error

    async def write(self, rows: BatchRows) -> Collection[str]:
        try:
            return await _write(await self._connected(), rows)
        except BaseException:  # also after a cancellation: a statement may be unfinished
            if self._writer is not None:
                self._writer.terminate()
                self._writer = None
            raise

    async def notify(self, run_ids: Collection[str]) -> None:
        """Send a notification for each run, in one round trip."""
        told = "\n".join(f"{self._token} {run_id}" for run_id in run_ids)
        await self.attempt(lambda transaction: transaction.fetch(_NOTIFY, told), reads=True)

    async def watch(self, changed: Callable[[str | None], object]) -> None:
        def hear(*told: Any) -> None:  # connection, process id, channel and text
            token, _, run_id = told[-1].partition(" ")
            if token != self._token:
                changed(run_id)

        connection = await asyncpg.connect(**self._settings)
        try:
            lost = anyio.Event()
            connection.add_termination_listener(lambda _: lost.set())
            await connection.add_listener(_CHANNEL, hear)
            changed(None)
            while True:
                with anyio.move_on_after(_CHECK_SECONDS):
                    await lost.wait()
                await connection.execute("SELECT 1")
        finally:
            connection.terminate()

    def is_transient(self, error: Exception) -> bool:
        """Return whether the server's error code is transient or missing."""
        code: str | None = getattr(error, "sqlstate", None)
        return not isinstance(error, ValueError) if code is None else code[:2] in _TRANSIENT

    def is_busy(self, error: Exception) -> bool:
        """Return whether the server has no free connection, a lock is held, or the server starts or stops."""
        return str(getattr(error, "sqlstate", None))[:2] in _BUSY

    async def aclose(self) -> None:
        """Close the connection for batches, and leave the pool, which the last user closes."""
        writer, self._writer = self._writer, None
        uses_pool, self._uses_pool = self._uses_pool, False
        try:
            with anyio.move_on_after(_CLOSE_SECONDS):
                if writer is not None:
                    await writer.close()
        finally:
            if writer is not None:
                writer.terminate()
            if uses_pool:
                await self._pool.__aexit__(None, None, None)

    async def _connected(self) -> Any:
        if self._writer is None:
            self._writer = await asyncpg.connect(**self._settings)
            await self._writer.execute(_PLANS)
        return self._writer


class _PostgresTransaction(Transaction):
    """Executes statements on a connection, each within some seconds."""

    def __init__(self, connection: Any, seconds: float) -> None:
        self._connection = connection
        self._seconds = seconds

    async def run(self, work: Work[_Result]) -> _Result:
        """Run `work` between the begin and the end of a transaction."""
        await self.execute("BEGIN")
        try:
            result = await work(self)
        except PodiumError:
            await self.execute("ROLLBACK")
            raise
        await self.execute("COMMIT")
        return result

    async def execute(self, statement: str, *values: Value) -> int:
        status: str = await self._connection.execute(_numbered(statement), *values, timeout=self._seconds)
        changed = status.rpartition(" ")[2]
        return int(changed) if changed.isdigit() else 0

    async def fetch(self, statement: str, *values: Value) -> Sequence[Row]:
        rows: Sequence[Row] = await self._connection.fetch(
            _numbered(statement), *values, timeout=self._seconds
        )
        return rows


@cache
def _numbered(statement: str) -> str:
    """Replace each `?` in a statement by `$1`, `$2` and so on."""
    numbers = count(1)
    return re.sub(r"\?", lambda _: f"${next(numbers)}", statement)


async def _write(connection: Any, rows: BatchRows) -> Collection[str]:
    columns = (
        *_columns(rows.fences, 2),
        *_columns(rows.new_runs, 10),
        *_columns(rows.records, 5),
        *_columns(rows.changes, 6),
        *_columns(rows.releases, 2),
        *_columns(rows.answers, 3),
    )
    found = {row[0] for row in await connection.fetch(_WRITE, *columns)}
    lost = {fence for _, fence in rows.fences} - found
    return lost or {str(row[8]) for row in rows.new_runs} - found  # if a fence differs, no run is created


def _columns(rows: Sequence[tuple[Any, ...]], number: int) -> Sequence[Sequence[Any]]:
    return tuple(zip(*rows, strict=True)) if rows else ((),) * number
