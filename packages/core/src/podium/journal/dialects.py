"""What differs between the databases a journal is kept in.

SQLite is a file, written by one at a time; PostgreSQL a server, for many. Of each: how it
is opened, how it tells the time, and how many rows reach it fast.
"""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal

from platformdirs import user_state_path
from sqlalchemy import Connection, TextClause, event, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from podium.errors import ConfigError
from podium.secrets import register

Place = str | Path | None
Synchronous = Literal["full", "normal"]
READS = "podium_reads"
"""Execution option of a transaction that writes nothing."""
_ADVISORY_LOCK = 0x706F6469756D
"""Held on PostgreSQL while the tables are made or changed; `podium` in ASCII."""


class Dialect(ABC):
    """One kind of database."""

    failures: tuple[type[Exception], ...] = (SQLAlchemyError, OSError, TimeoutError)
    """What is raised where it cannot be used."""
    now: ClassVar[str]
    """SQL for the database's time, in seconds of Unix time."""
    insert: ClassVar[Any]
    """Makes an insert that may do nothing, or update, on a conflict."""

    def __init__(self, url: URL) -> None:
        self.url = url

    def __str__(self) -> str:
        return self.url.render_as_string(hide_password=True)

    @abstractmethod
    def engine(self, patience: float) -> AsyncEngine:
        """Open nothing, but say how connections are opened.

        Args:
            patience: seconds a statement may take.
        """

    @abstractmethod
    async def lock_schema(self, connection: AsyncConnection) -> None:
        """Keep others from changing the tables until the transaction ends."""

    @abstractmethod
    async def add_records(self, connection: AsyncConnection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert records: run id, number, time, text and hash of each."""

    @abstractmethod
    def fences(self) -> TextClause:
        """Return the query for id and fence of the runs `:ids`; these stay so to the transaction's end."""

    @abstractmethod
    def ids(self, ids: Collection[str]) -> object:
        """Return run ids as the value of `:ids`."""


class Sqlite(Dialect):
    """A file."""

    now = "(julianday('now') - 2440587.5) * 86400.0"
    insert = staticmethod(sqlite.insert)
    _BUSY_SECONDS = 5.0

    def __init__(self, url: URL, synchronous: Synchronous) -> None:
        super().__init__(url.set(drivername="sqlite+aiosqlite"))
        if url.database in (None, "", ":memory:"):
            raise ConfigError("a journal in SQLite is a file: give its path, or use MemoryJournal")
        self._synchronous = synchronous

    def engine(self, patience: float) -> AsyncEngine:
        """Make the file if it is not there, its owner's alone; SQLite gives those beside it the same mode."""
        del patience
        path = Path(self.url.database or "")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        engine = create_async_engine(
            self.url, hide_parameters=True, connect_args={"timeout": self._BUSY_SECONDS}
        )
        event.listen(engine.sync_engine, "connect", self._prepare)
        event.listen(engine.sync_engine, "begin", self._begin)
        return engine

    def _prepare(self, connection: Any, _: object) -> None:
        connection.isolation_level = None  # transactions are begun by `_begin`
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute(f"PRAGMA synchronous = {self._synchronous}")
        cursor.close()

    @staticmethod
    def _begin(connection: Connection) -> None:
        reads = connection.get_execution_options().get(READS)
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    async def lock_schema(self, connection: AsyncConnection) -> None:
        """Do nothing: a transaction that writes has the whole file."""

    async def add_records(self, connection: AsyncConnection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert them by one statement run many times."""
        await connection.exec_driver_sql(
            "INSERT INTO podium_events (run_id, number, at, text, hash) VALUES (?, ?, ?, ?, ?)", list(rows)
        )

    def fences(self) -> TextClause:
        """Look them up by a list in JSON."""
        return text(
            "SELECT run_id, fence FROM podium_runs WHERE run_id IN (SELECT value FROM json_each(:ids))"
        )

    def ids(self, ids: Collection[str]) -> object:
        """Write them in JSON."""
        return json.dumps(list(ids))


class Postgres(Dialect):
    """A server."""

    now = "extract(epoch from clock_timestamp())::double precision"
    insert = staticmethod(postgresql.insert)
    _CONNECT_SECONDS = 10.0

    def __init__(self, url: URL) -> None:
        super().__init__(url.set(drivername="postgresql+asyncpg"))
        if find_spec("asyncpg") is None:
            raise ConfigError('PostgreSQL needs asyncpg: pip install "podium[postgres]"')
        import asyncpg  # type: ignore[import-untyped]  # noqa: PLC0415  (an extra)

        self.failures = (*self.failures, asyncpg.PostgresError, asyncpg.InterfaceError)
        if url.password is not None:
            register(str(url.password))

    def engine(self, patience: float) -> AsyncEngine:
        """Connect to the server, whose statements are waited for with a limit."""
        return create_async_engine(
            self.url,
            hide_parameters=True,
            connect_args={"timeout": self._CONNECT_SECONDS, "command_timeout": patience},
        )

    async def lock_schema(self, connection: AsyncConnection) -> None:
        """Take a lock of ours, which the transaction's end gives back."""
        await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})

    async def add_records(self, connection: AsyncConnection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert them by one statement over columns, several times as fast as one for each row."""
        await connection.exec_driver_sql(
            "INSERT INTO podium_events (run_id, number, at, text, hash) SELECT * FROM unnest"
            "($1::text[], $2::integer[], $3::double precision[], $4::text[], $5::text[])",
            tuple(map(list, zip(*rows, strict=True))),
        )

    def fences(self) -> TextClause:
        """Lock them against being taken by others."""
        return text("SELECT run_id, fence FROM podium_runs WHERE run_id = ANY(:ids) FOR SHARE")

    def ids(self, ids: Collection[str]) -> object:
        """Give them as an array."""
        return list(ids)


def dialect_of(place: Place, synchronous: Synchronous) -> Dialect:
    """Return the database that a place names.

    Raises:
        ConfigError: it names none, or one that is not known.
    """
    if place is None:
        place = user_state_path("podium", appauthor=False) / "journal.db"
    if isinstance(place, Path):
        return Sqlite(URL.create("sqlite", database=str(place)), synchronous)
    try:
        url = make_url(place)
    except ArgumentError:
        raise ConfigError(
            "the journal's place is no URL: write it as in sqlite:///runs.db or postgresql://user:password@host/name"
        ) from None
    kind = url.get_backend_name()
    if kind == "sqlite":
        return Sqlite(url, synchronous)
    if kind in ("postgresql", "postgres"):
        return Postgres(url)
    raise ConfigError(f"a journal is kept in SQLite or PostgreSQL, not in {kind!r}")
