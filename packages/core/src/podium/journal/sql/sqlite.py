"""A database in a SQLite file, for one machine."""

import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Generator, Sequence
from contextlib import contextmanager, suppress
from errno import EACCES, EISDIR
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from podium.errors import ConfigError, JournalError
from podium.journal.sql.database import (
    SAME_RECORD,
    BatchRows,
    Database,
    DatabaseUrl,
    Refused,
    Row,
    Synchronous,
    Transaction,
    Value,
    Work,
    failure_text,
)

FileId = tuple[int, int]
"""Device and inode of a file."""

_open: Counter[tuple[int, FileId | None]] = Counter()
"""The open databases of each process and file, also of the parent of a fork, across which no lock holds."""


def file_id(path: Path) -> FileId | None:
    """Return the device and inode of a file; `None` if it does not exist."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


BUSY_SECONDS = 0.5
"""How long SQLite waits for the lock of a file before the attempt fails, in seconds."""
_THREADS = 4
_WATCH_SECONDS = 0.25
"""Seconds between two looks for commits of other processes."""

_NEW_RUN = """
INSERT INTO podium_runs (run_id, parent, question, state, began, ended, cost, holder, fence, recoveries)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
"""
_FENCE = "SELECT 1 FROM podium_runs WHERE run_id = ? AND fence = ?"
_RECORD = f"""
INSERT INTO podium_events (run_id, number, at, text, hash) VALUES (?, ?, ?, ?, ?) {SAME_RECORD}
"""  # noqa: S608 - no value from outside
_ANSWER = "INSERT INTO podium_answers (key, run_id, labels) VALUES (?, ?, ?)"
_CHANGE = "UPDATE podium_runs SET state = ?, ended = ?, cost = ?, holder = ? WHERE run_id = ? AND fence = ?"
_RELEASE = """
UPDATE podium_runs SET holder = NULL, state = CASE state WHEN 'running' THEN 'stopped' ELSE state END
WHERE run_id = ? AND fence = ?
"""

_Result = TypeVar("_Result")


class _Commits:
    """Counts the changes that users of a `SqliteUrl` have committed."""

    number = 0


class SqliteUrl(DatabaseUrl):
    """The path of a file."""

    def __init__(self, path: Path) -> None:
        if path.name in ("", ":memory:"):
            raise ConfigError("a journal in SQLite needs a file: give the path of a file")
        self._path = path
        self._commits = _Commits()

    def __str__(self) -> str:
        return str(self._path)

    def connect(self, patience: float, synchronous: Synchronous) -> "_SqliteDatabase":
        """Create the file if it is missing, readable by its owner only, and return the database."""
        path = self._path.absolute()  # the working directory may change
        file, here = file_id(path), os.getpid()
        if file is not None and any(_open[key] for key in list(_open) if key[1] == file and key[0] != here):
            raise JournalError(
                f"{path} was open when this process was forked, so SQLite cannot open it here: "
                "start processes with multiprocessing's 'spawn' or 'forkserver', "
                "or open the journal in the children only"
            )
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _create(path)
        except OSError as error:
            raise JournalError(failure_text(str(self), error)) from error
        return _SqliteDatabase(str(self), patience, path, synchronous, self._commits)


def _create(path: Path) -> None:
    """Create a file if it is missing. Opening and closing an existing file would release SQLite's locks."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if path.is_dir():
            raise IsADirectoryError(EISDIR, os.strerror(EISDIR), str(path)) from None
        if not os.access(path, os.R_OK | os.W_OK):
            raise PermissionError(EACCES, os.strerror(EACCES), str(path)) from None


class _SqliteDatabase(Database):
    """The connections to a file."""

    now = "(julianday('now') - 2440587.5) * 86400.0"
    for_update = ""  # a writing transaction locks the whole file
    bytewise = ""  # it always compares bytes
    is_postgres = False
    lock_schema = "SELECT 1"  # for the same reason
    columns = "SELECT name FROM pragma_table_info(?)"
    failures = (sqlite3.Error, OSError, TimeoutError)
    notifies = False

    def __init__(
        self, name: str, patience: float, path: Path, synchronous: Synchronous, commits: _Commits
    ) -> None:
        super().__init__(name, patience)
        self._commits = commits
        self._path = path
        self._key = os.getpid(), file_id(path)
        _open[self._key] += 1
        self._synchronous = synchronous
        self._threads = anyio.CapacityLimiter(_THREADS)  # so that other threads do not block the journal
        self._idle: list[sqlite3.Connection] = []
        self._is_closed = False

    async def attempt(self, work: Work[_Result], *, reads: bool = False, alone: bool = False) -> _Result:
        del alone

        def attempt() -> _Result:
            with self._transaction("BEGIN" if reads else "BEGIN IMMEDIATE") as connection:
                return _complete(work(_SqliteTransaction(connection)))

        return await self._in_thread(attempt)

    async def write(self, rows: BatchRows) -> Collection[str]:
        def write() -> Collection[str]:
            with self._transaction("BEGIN IMMEDIATE") as connection:
                return _write(connection, rows)

        return await self._in_thread(write)

    async def notify(self, run_ids: Collection[str]) -> None:
        """Do nothing: other processes look at the version of the file."""

    async def watch(self, changed: Callable[[str | None], object]) -> None:
        """Look at the version of the file, which each commit through another connection changes."""
        # with only one connection, because the versions of different connections cannot be compared
        own = _SqliteDatabase(self.name, self.patience, self._path, self._synchronous, self._commits)
        number, version = -1, None
        try:
            while True:
                before, number = number, self._commits.number
                found = (await own.attempt(lambda each: each.fetch("PRAGMA data_version"), reads=True))[0][0]
                if version is None or (found != version and number == before):
                    changed(None)
                version = found
                await anyio.sleep(_WATCH_SECONDS)
        finally:
            with anyio.CancelScope(shield=True):
                await own.aclose()

    def is_transient(self, error: Exception) -> bool:
        """Return whether the environment caused the failure, and not the file's content or the statement."""
        if isinstance(error, sqlite3.OperationalError):
            return _primary_code(error) != sqlite3.SQLITE_ERROR  # no such table or column
        return not isinstance(error, sqlite3.Error)

    def is_busy(self, error: Exception) -> bool:
        return _primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)

    async def aclose(self) -> None:
        """Close all connections; a connection in use is closed after its transaction."""
        self._is_closed = True
        try:
            await self._in_thread(self._close)
        finally:
            _open[self._key] -= 1

    async def _in_thread(self, function: Callable[[], _Result]) -> _Result:
        return await anyio.to_thread.run_sync(function, limiter=self._threads)

    @contextmanager
    def _transaction(self, begin: str) -> Generator[sqlite3.Connection, None, None]:
        """Open a transaction, and commit it at the end of the block unless the block rolled it back."""
        self._check_file()
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect()
        try:
            connection.execute(begin)
            yield connection
            if connection.in_transaction:
                connection.execute("COMMIT")
                self._commits.number += begin == "BEGIN IMMEDIATE"
        except BaseException:  # in any case: closing the connection rolls back
            connection.close()
            raise
        self._idle.append(connection)
        if self._is_closed:
            self._close()

    def _check_file(self) -> None:
        """Raise `Refused` if the path no longer names the file that was opened."""
        if file_id(self._path) != self._key[1]:
            told = "its file was deleted or replaced while it was in use: restore it, and restart the process"
            raise Refused(f"the journal in {self.name} fails: {told}")

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        except BaseException:  # in any case: close the connection
            connection.close()
            raise
        return connection

    def _close(self) -> None:
        """Close the connections that no transaction uses."""
        with suppress(IndexError):
            while True:
                self._idle.pop().close()


class _SqliteTransaction(Transaction):
    """Executes statements in the thread of the transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def execute(self, statement: str, *values: Value) -> int:
        return self._connection.execute(statement, values).rowcount

    async def fetch(self, statement: str, *values: Value) -> Sequence[Row]:
        return self._connection.execute(statement, values).fetchall()


def _primary_code(error: Exception) -> int:
    """Return the code of an error of SQLite without its details; 0 if it has none."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def _complete(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a coroutine to its end without an event loop, because its statements never suspend it."""
    try:
        work.send(None)
    except StopIteration as end:
        result: _Result = end.value
        return result
    work.close()
    raise RuntimeError("a transaction must await only its own statements")


def _write(connection: sqlite3.Connection, rows: BatchRows) -> Collection[str]:
    connection.executemany(_NEW_RUN, rows.new_runs)
    expected = [*rows.fences, *((str(row[0]), str(row[8])) for row in rows.new_runs)]
    lost = [fence for run_id, fence in expected if not connection.execute(_FENCE, (run_id, fence)).fetchone()]
    if lost:
        connection.execute("ROLLBACK")
        return lost
    connection.executemany(_RECORD, rows.records)
    connection.executemany(_CHANGE, rows.changes)
    connection.executemany(_ANSWER, rows.answers)
    connection.executemany(_RELEASE, rows.releases)
    return ()
