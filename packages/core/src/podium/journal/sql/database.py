"""One database, open in one event loop: its tables, and its transactions.

A transaction is one function, run whole wherever the database is reached from: in a thread,
or on a connection. It waits for nothing else, so that neither a caller who is cancelled nor
an event loop that is held up leaves one open, with its locks.
"""

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

import anyio
from sqlalchemy import Connection
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError

from podium.aio.shielded import shielded
from podium.errors import JournalError
from podium.journal.sql.tables import is_newest, upgrade

FIRST_WAIT = 0.05
LONGEST_WAIT = 1.0
"""Seconds between two tries to reach a database that fails."""
_PASSING_STATES = frozenset({"08", "25", "40", "53", "55", "57", "58", "0A", "XX"})
"""Classes of PostgreSQL's error codes: connection, transaction, resources, shutdown, system."""
_TAKEN = "23505"
"""PostgreSQL's error code for a key that is there already."""

_Value = TypeVar("_Value")


@dataclass(slots=True)
class Rows:
    """What one transaction writes, of runs whose fences are as they should be."""

    begun: list[tuple[Any, ...]]
    """Rows of `podium_runs`, in the order of its columns."""
    is_sure: bool
    """Whether no run in `begun` can be there already."""
    held: list[tuple[str, str]]
    """Run id and fence of those that began before."""
    records: list[tuple[Any, ...]]
    """Rows of `podium_events`, in the order of its columns."""
    changed: list[tuple[Any, ...]]
    """State, end, cost, holder, run id and fence of those that stand otherwise now."""


Synchronous = Literal["full", "normal"]


class Dialect(ABC):
    """One kind of database, and where it is."""

    insert: ClassVar[Any]
    """Makes an insert that may do nothing, or update, on a conflict."""

    def __init__(self, url: URL) -> None:
        self.url = url

    def __str__(self) -> str:
        return self.url.render_as_string(hide_password=True)

    @abstractmethod
    def open(self, patience: float) -> "Database":
        """Say how connections are opened.

        Args:
            patience: how long to try again while the database fails, in seconds.

        Raises:
            JournalError: its file cannot be made.
        """


class Database(ABC):
    """The connections to one database.

    Args:
        dialect: which it is.
        patience: how long to try again while it fails, in seconds.
    """

    now: ClassVar[str]
    """SQL for the database's time, in seconds of Unix time."""
    failures: tuple[type[Exception], ...] = (SQLAlchemyError, OSError, TimeoutError)
    """What is raised where it cannot be used."""

    def __init__(self, dialect: Dialect, patience: float) -> None:
        self.dialect = dialect
        self.patience = patience

    async def transact(self, work: Callable[[Connection], _Value], *, reads: bool = False) -> _Value:
        """Do `work` in a transaction; again while the database fails, as long as there is patience.

        Who is cancelled meanwhile waits for the transaction's end.

        Args:
            work: what is done, which may be done again though it was done: an acknowledgement can be lost.
            reads: whether it writes nothing.

        Raises:
            JournalError: the database cannot be used.
        """
        end, wait = anyio.current_time() + self.patience, FIRST_WAIT
        while True:
            try:
                return await shielded(self.attempt(work, reads=reads))
            except self.failures as error:
                if not passes(error) or anyio.current_time() + wait > end:
                    raise self.failed(error) from error
            await anyio.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)

    @abstractmethod
    async def attempt(self, work: Callable[[Connection], _Value], *, reads: bool = False) -> _Value:
        """Do `work` in a transaction, once."""

    @abstractmethod
    async def write(self, rows: Rows) -> Collection[str]:
        """Write all of it and return nothing; or nothing of it, and return the fences that are not so.

        Returns once it is durable.
        """

    @abstractmethod
    def lock_schema(self, connection: Connection) -> None:
        """Keep others from changing the tables until the transaction ends."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close all connections."""

    def failed(self, error: Exception) -> JournalError:
        """Return what is raised for a failure of the database."""
        origin = _origin(error)
        return JournalError(f"the journal in {self.dialect} fails: {type(origin).__name__}: {origin}")


async def open_database(dialect: Dialect, patience: float) -> Database:
    """Open a database and make its tables, or bring them to the newest version.

    Args:
        dialect: which it is.
        patience: how long to try again while it fails, in seconds.

    Raises:
        JournalBroken: they are of a newer version.
        JournalError: the database cannot be used.
    """
    database = dialect.open(patience)

    def make(connection: Connection) -> None:
        database.lock_schema(connection)
        upgrade(connection)

    try:
        if not await database.transact(is_newest, reads=True):
            await database.transact(make)
    except BaseException:
        await shielded(database.aclose())
        raise
    return database


def passes(error: Exception) -> bool:
    """Say whether a failure may pass by itself: the database is down, full or locked."""
    origin = _origin(error)
    state = getattr(origin, "sqlstate", None)
    if state is not None:
        return state[:2] in _PASSING_STATES
    if isinstance(origin, sqlite3.Error):
        return isinstance(origin, sqlite3.OperationalError)
    if isinstance(error, DBAPIError):
        return isinstance(error, OperationalError | InterfaceError)
    return not isinstance(error, ValueError)


def is_taken(error: Exception) -> bool:
    """Say whether a failure is that of a key that is there already."""
    origin = _origin(error)
    return isinstance(origin, sqlite3.IntegrityError) or getattr(origin, "sqlstate", None) == _TAKEN


def _origin(error: Exception) -> BaseException:
    return getattr(error, "orig", None) or error
