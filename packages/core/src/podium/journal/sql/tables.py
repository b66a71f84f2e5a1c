"""Opens databases by their URLs, and creates and upgrades the tables in them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import parse_qs, unquote

from platformdirs import user_state_path

from podium.aio.calls import shielded
from podium.aio.loops import PerLoop
from podium.errors import ConfigError, JournalVersion, install_hint
from podium.journal.sql.database import Database, DatabaseUrl, Synchronous, Transaction, Work
from podium.journal.sql.sqlite import SqliteUrl
from podium.secrets import register

Location = str | Path | DatabaseUrl | None
"""A URL, the path of an SQLite file, or `None` for the SQLite file in the user's state directory."""

_SCHEME = re.compile("[A-Za-z][A-Za-z0-9+.-]+:/")  # one slash, because `Path` joins the two slashes of a URL
_HOST = r"(?:\[[0-9A-Fa-f:.%]+\]|[^\[\]:,@/?#]*)(?::[0-9]+)?"
_POSTGRES = re.compile(
    r"postgres(?:ql)?://(?:(?P<user>[^:@/?#]*)(?::(?P<password>[^@/?#]*))?@)?"
    rf"(?P<hosts>{_HOST}(?:,{_HOST})*)(?P<name>/[^@/?#]*)?(?:\?(?P<options>[^#]*))?"
)

_SECRET_OPTIONS = ("password", "sslpassword")


def database_url(location: Location) -> DatabaseUrl:
    """Return the database at a location."""
    if isinstance(location, DatabaseUrl):
        return location
    if location is None:
        return SqliteUrl(user_state_path("podium", appauthor=False) / "journal.db")
    if isinstance(location, Path):
        if _SCHEME.match(location.as_posix()):
            raise ConfigError("the path of the journal is a URL: pass it as str, not as Path")
        return SqliteUrl(location)
    scheme, separator, rest = location.partition("://")
    if not separator:
        raise ConfigError(
            'the location of the journal is an invalid URL: write Path("runs.db") or sqlite:///runs.db '
            "for a file, or postgresql://user:password@host/name"
        )
    if scheme == "sqlite":
        host, _, path = rest.partition("/")
        if host or "?" in rest:
            raise ConfigError(
                "the URL of an SQLite file has a host or options: write three slashes and the path, "
                "as in sqlite:///runs.db"
            )
        return SqliteUrl(Path(path))
    if scheme in ("postgresql", "postgres"):
        return _postgres(location)
    raise ConfigError(f"a journal needs SQLite or PostgreSQL, not {scheme!r}")


def _postgres(url: str) -> DatabaseUrl:
    found = _POSTGRES.fullmatch(url)
    if found is None:  # the error does not quote the URL, which may have a password
        raise ConfigError(
            "the URL of the PostgreSQL database is malformed: "
            "write postgresql://user:password@host:port/name, "
            "and percent-encode special characters of user and password"
        )
    options = parse_qs(found["options"] or "")
    secrets = [found["password"] or "", unquote(found["password"] or "")]
    for name in _SECRET_OPTIONS:
        secrets += options.get(name, ())
    for secret in filter(None, secrets):
        register(secret)
    try:
        from podium.journal.sql.postgres import PostgresUrl  # noqa: PLC0415  (the driver is an extra)
    except ImportError as error:
        raise ConfigError(
            f"PostgreSQL needs asyncpg: {install_hint('podium-conductor[postgres]')}"
        ) from error
    user = "" if found["user"] is None else found["user"] + (":***@" if found["password"] else "@")
    return PostgresUrl(url, f"postgresql://{user}{found['hosts']}{found['name'] or ''}")


_CREATE = "CREATE TABLE IF NOT EXISTS podium_schema (name TEXT PRIMARY KEY, version INTEGER NOT NULL)"
_VERSION = "SELECT version FROM podium_schema WHERE name = ?"
_SET_VERSION = """
INSERT INTO podium_schema (name, version) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET version = excluded.version
"""


class PostgresOnly(str):
    """A statement of a schema that SQLite does not need."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables of one package.

    Args:
        name: the name of the schema, unique in a database.
        versions: for each version, the statements that upgrade the previous version to it, in SQL for both
            SQLite and PostgreSQL, or `PostgresOnly`. Released versions never change; tables are named
            `podium_…`.
        first: the number of the first item of `versions`. Earlier versions are errors.
    """

    name: str
    versions: Sequence[Sequence[str]]
    first: int = 1

    @property
    def newest(self) -> int:
        """The number of the last item of `versions`."""
        return self.first + len(self.versions) - 1


async def open_database(
    url: DatabaseUrl, schema: Schema, *, patience: float, synchronous: Synchronous
) -> Database:
    """Open a database and upgrade the tables of `schema` to the newest version."""
    database = url.connect(patience, synchronous)
    try:
        await upgrade(database, schema)
    except BaseException:  # also after a cancellation: close the connections
        await shielded(database.aclose())
        raise
    return database


async def upgrade(database: Database, schema: Schema, *, patience: float | None = None) -> None:
    """Upgrade the tables of `schema` to the newest version, in one transaction."""

    async def version(transaction: Transaction) -> int:
        return await _version(transaction, database, schema)

    async def change(transaction: Transaction) -> None:
        await transaction.execute(database.lock_schema)
        await transaction.execute(_CREATE)
        for statements in schema.versions[max(await version(transaction) - schema.first + 1, 0) :]:
            for statement in statements:
                if database.is_postgres or not isinstance(statement, PostgresOnly):
                    await transaction.execute(statement)
        await transaction.execute(_SET_VERSION, schema.name, schema.newest)

    if await database.transaction(version, reads=True, patience=patience) < schema.newest:
        await database.transaction(change, patience=patience)


async def _version(transaction: Transaction, database: Database, schema: Schema) -> int:
    """Return the version of the tables; 0 if there are none."""
    columns = [row["name"] for row in await transaction.fetch(database.columns, "podium_schema")]
    if not columns:
        return 0
    if "name" not in columns:
        raise _too_old(database)
    rows = await transaction.fetch(_VERSION, schema.name)
    found: int = rows[0]["version"] if rows else 0
    if found > schema.newest:
        raise JournalVersion(
            f"the {schema.name} tables in {database.name} have version {found}, and this version of Podium "
            f"supports up to {schema.newest}: use a newer Podium, or name another place"
        )
    if 0 < found < schema.first:
        raise _too_old(database)
    return found


def _too_old(database: Database) -> JournalVersion:
    return JournalVersion(
        f"an earlier version of Podium wrote {database.name}, and this version cannot read it: "
        "move it away, name another place, or use the earlier version"
    )


_Result = TypeVar("_Result")


class SqlTables(PerLoop[Database]):
    """Tables in a database, which may be the database of a journal.

    A package that stores data beside a journal makes a subclass, and reads and writes with `transaction`. In
    a block `async with`, connections stay open; otherwise each use opens and closes them. SQLite commits with
    `synchronous=normal`: a power failure may lose the latest writes.

    Args:
        schema: the tables; their first use creates or upgrades them.
        location: see `SqlJournal`; `journal.url` is the database of a journal.
        patience: how long to retry while the database fails, in seconds.

    Raises:
        ConfigError: the location is invalid, or needs a package that is not installed.
    """

    def __init__(self, schema: Schema, location: Location = None, *, patience: float = 30.0) -> None:
        super().__init__()
        self.url = database_url(location)
        self._schema = schema
        self._patience = patience

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.url)!r})"

    async def transaction(self, work: Work[_Result], *, reads: bool = False) -> _Result:
        """Run `work` in a transaction; retry for `patience` seconds while the database fails.

        Args:
            work: a coroutine function that awaits only the methods of its transaction.
            reads: whether `work` only reads.

        Raises:
            JournalBroken: the tables have an unknown version.
            JournalError: the database cannot be used.
        """
        async with self.opened() as database:
            return await database.transaction(work, reads=reads)

    async def _open(self) -> Database:
        return await open_database(self.url, self._schema, patience=self._patience, synchronous="normal")

    async def _close(self, part: Database) -> None:
        await part.aclose()
