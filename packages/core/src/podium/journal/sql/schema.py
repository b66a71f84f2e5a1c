"""Creates the tables of a package in a database, and upgrades them to the newest version."""

from collections.abc import Sequence
from dataclasses import dataclass

from podium.aio import shielded
from podium.errors import JournalVersion
from podium.journal.sql.database import Database, DatabaseUrl, Synchronous, Transaction

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
    """Open a database and upgrade the tables of `schema` to the newest version.

    Args:
        url: the database.
        schema: the required tables.
        patience: how long to retry while the database fails, in seconds.
        synchronous: when SQLite flushes to the disk.

    Raises:
        JournalVersion: the tables have an unknown version.
        JournalError: the database cannot be used.
    """
    database = url.connect(patience, synchronous)
    try:
        await upgrade(database, schema)
    except BaseException:  # also after a cancellation: close the connections
        await shielded(database.aclose())
        raise
    return database


async def upgrade(database: Database, schema: Schema, *, patience: float | None = None) -> None:
    """Upgrade the tables of `schema` to the newest version, in one transaction.

    Args:
        database: the database.
        schema: the required tables.
        patience: see `Database.transaction`.

    Raises:
        JournalVersion: the tables have an unknown version.
        JournalError: the database cannot be used.
    """

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
