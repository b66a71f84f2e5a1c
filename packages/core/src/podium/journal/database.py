"""One database, open in one event loop: its connections, its tables, its transactions."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import anyio
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection

from podium.errors import JournalError
from podium.journal.dialects import READS, Dialect
from podium.journal.tables import upgrade

FIRST_WAIT = 0.05
LONGEST_WAIT = 1.0
"""Seconds between two tries to reach a database that fails."""
_PASSING_STATES = frozenset({"08", "25", "40", "53", "55", "57", "58", "0A", "XX"})
"""Classes of PostgreSQL's error codes: connection, transaction, resources, shutdown, system."""

_Value = TypeVar("_Value")


class Database:
    """The connections to one database.

    Args:
        dialect: which it is.
        patience: how long to try again while it fails, in seconds.

    Raises:
        JournalError: its file cannot be made.
    """

    def __init__(self, dialect: Dialect, patience: float) -> None:
        self.dialect = dialect
        self.patience = patience
        try:
            self._engine = dialect.engine(patience)
        except OSError as error:
            raise self.failed(error) from error

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[AsyncConnection, None]:
        """Give a connection of one's own."""
        async with self._engine.connect() as connection:
            yield connection

    async def transact(
        self, work: Callable[[AsyncConnection], Awaitable[_Value]], *, reads: bool = False
    ) -> _Value:
        """Do `work` in a transaction; again while the database fails, as long as there is patience.

        Args:
            work: what is done, which may be done again though it was done: an acknowledgement can be lost.
            reads: whether it writes nothing.

        Raises:
            JournalError: the database cannot be used.
        """
        end, wait = anyio.current_time() + self.patience, FIRST_WAIT
        while True:
            try:
                async with self._engine.connect() as connection:
                    connection = await connection.execution_options(**{READS: reads})  # noqa: PLW2901
                    async with connection.begin():
                        return await work(connection)
            except self.dialect.failures as error:
                if not passes(error) or anyio.current_time() + wait > end:
                    raise self.failed(error) from error
            await anyio.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)

    def failed(self, error: Exception) -> JournalError:
        """Return what is raised for a failure of the database."""
        origin = getattr(error, "orig", None) or error
        return JournalError(f"the journal in {self.dialect} fails: {type(origin).__name__}: {origin}")

    async def aclose(self) -> None:
        """Close all connections."""
        await self._engine.dispose()


async def open_database(dialect: Dialect, patience: float) -> Database:
    """Open a database and make its tables, or bring them to the newest version.

    Args:
        dialect: which it is.
        patience: how long to try again while it fails, in seconds.

    Raises:
        JournalBroken: they are of a newer version.
        JournalError: the database cannot be used.
    """
    database = Database(dialect, patience)

    async def make(connection: AsyncConnection) -> None:
        await dialect.lock_schema(connection)
        await connection.run_sync(upgrade)

    try:
        await database.transact(make)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await database.aclose()
        raise
    return database


def passes(error: Exception) -> bool:
    """Say whether a failure may pass by itself: the database is down, full or locked."""
    state = getattr(getattr(error, "orig", None) or error, "sqlstate", None)
    if state is not None:
        return state[:2] in _PASSING_STATES
    return not isinstance(error, DBAPIError) or isinstance(error, OperationalError | InterfaceError)
