"""A journal's database in a file, written by one at a time.

Its transactions are done in threads, each whole.
"""

import os
import sqlite3
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from sqlalchemy import Connection, create_engine, event
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import URL

from podium.errors import ConfigError
from podium.journal.sql.database import Database, Dialect, Rows, Synchronous

BUSY_SECONDS = 0.5
"""How long SQLite itself waits for a file that someone else writes, before it is tried again."""
_READS = "podium_reads"
"""Execution option of a transaction that writes nothing."""
_THREADS = 4

_BEGIN = """
INSERT INTO podium_runs (run_id, parent, question, state, began, ended, cost, holder, fence, recoveries)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
"""
_FENCE = "SELECT 1 FROM podium_runs WHERE run_id = ? AND fence = ?"
_ADD = "INSERT INTO podium_events (run_id, number, at, text, hash) VALUES (?, ?, ?, ?, ?)"
_CHANGE = "UPDATE podium_runs SET state = ?, ended = ?, cost = ?, holder = ? WHERE run_id = ? AND fence = ?"

_Value = TypeVar("_Value")


class Sqlite(Dialect):
    """A file."""

    insert = staticmethod(sqlite.insert)

    def __init__(self, url: URL, synchronous: Synchronous) -> None:
        super().__init__(url.set(drivername="sqlite"))
        if url.database in (None, "", ":memory:"):
            raise ConfigError("a journal in SQLite is a file: give its path, or use MemoryJournal")
        self.synchronous = synchronous

    def open(self, patience: float) -> "SqliteDatabase":
        """Make the file if it is not there, its owner's alone; SQLite gives those beside it the same mode."""
        database, path = SqliteDatabase(self, patience), Path(self.url.database or "")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        except OSError as error:
            raise database.failed(error) from error
        return database


class SqliteDatabase(Database):
    """The connections to a file."""

    now = "(julianday('now') - 2440587.5) * 86400.0"
    failures = (*Database.failures, sqlite3.Error)

    def __init__(self, dialect: Sqlite, patience: float) -> None:
        super().__init__(dialect, patience)
        self._synchronous = dialect.synchronous
        self._threads = anyio.CapacityLimiter(_THREADS)  # of its own: whoever else uses threads, this goes on
        self._engine = create_engine(
            dialect.url, hide_parameters=True, connect_args={"timeout": BUSY_SECONDS}
        )
        event.listen(self._engine, "connect", self._prepare)
        event.listen(self._engine, "begin", _begin)

    def _prepare(self, connection: sqlite3.Connection, _: object) -> None:
        connection.isolation_level = None  # transactions are begun in words
        connection.execute("PRAGMA journal_mode = WAL").close()
        connection.execute(f"PRAGMA synchronous = {self._synchronous}").close()

    async def attempt(self, work: Callable[[Connection], _Value], *, reads: bool = False) -> _Value:
        """Do it in a thread."""

        def attempt() -> _Value:
            connecting = self._engine.connect().execution_options(**{_READS: reads})
            with connecting as connection, connection.begin():
                return work(connection)

        return await anyio.to_thread.run_sync(attempt, limiter=self._threads)

    async def write(self, rows: Rows) -> Collection[str]:
        """Write it in a thread, on the connection that SQLAlchemy's statements would only slow down."""
        return await anyio.to_thread.run_sync(self._write, rows, limiter=self._threads)

    def _write(self, rows: Rows) -> Collection[str]:
        pooled = self._engine.raw_connection()
        try:
            connection: Any = pooled.driver_connection
            connection.execute("BEGIN IMMEDIATE")
            try:
                lost = _put(connection, rows)
                connection.execute("ROLLBACK" if lost else "COMMIT")
            except BaseException:
                pooled.invalidate()  # closing it takes back what was written
                raise
        finally:
            pooled.close()
        return lost

    def lock_schema(self, connection: Connection) -> None:
        """Do nothing: a transaction that writes has the whole file."""

    async def aclose(self) -> None:
        """Close all connections."""
        await anyio.to_thread.run_sync(self._engine.dispose, limiter=self._threads)


def _begin(connection: Connection) -> None:
    reads = connection.get_execution_options().get(_READS)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def _put(connection: sqlite3.Connection, rows: Rows) -> Collection[str]:
    """Write what nobody else can write meanwhile; return the fences that are not so."""
    connection.executemany(_BEGIN, rows.begun)
    checked = rows.held if rows.is_sure else [*rows.held, *((row[0], row[8]) for row in rows.begun)]
    lost = [fence for run_id, fence in checked if not connection.execute(_FENCE, (run_id, fence)).fetchone()]
    if not lost:
        connection.executemany(_ADD, rows.records)
        connection.executemany(_CHANGE, rows.changed)
    return lost
