"""Answers to use again, kept in a database."""

from time import time

from podium.journal.answer_cache import Cache
from podium.journal.codec import read_record, write_record
from podium.journal.sql.database import Transaction
from podium.journal.sql.schema import Schema
from podium.journal.sql.sql_tables import SqlTables
from podium.journal.sql.urls import Location
from podium.secrets import scrub
from podium.types.messages import Completion

_TYPE = "completion"
_SCHEMA = Schema(
    "cache",
    [["CREATE TABLE podium_cache (key TEXT PRIMARY KEY, at DOUBLE PRECISION NOT NULL, text TEXT NOT NULL)"]],
)
_PUT = """
INSERT INTO podium_cache (key, at, text) VALUES (?, ?, ?)
ON CONFLICT (key) DO UPDATE SET at = excluded.at, text = excluded.text
"""


class SqlCache(SqlTables, Cache):
    """Keeps answers in a database, for all processes that use it.

    An answer that was put just before a loss of power may be lost. Secrets are removed from answers as they
    are from a journal.

    Args:
        location: as for `SqlJournal`; both may be in one database.
        patience: how long to repeat attempts while the database fails, in seconds.

    Raises:
        ConfigError: the location names no database, or needs a package that is not installed.
    """

    def __init__(self, location: Location = None, *, patience: float = 30.0) -> None:
        super().__init__(_SCHEMA, location, patience=patience)

    async def get(self, key: str) -> Completion | None:
        """Return the answer of this key; `None` if there is none."""

        async def get(transaction: Transaction) -> str | None:
            rows = await transaction.fetch("SELECT text FROM podium_cache WHERE key = ?", key)
            return rows[0]["text"] if rows else None

        found = await self.transaction(get, reads=True)
        return None if found is None else read_record(found, Completion, _TYPE)

    async def put(self, key: str, answer: Completion) -> None:
        """Keep an answer; it replaces the answer of the same key."""
        at, text = time(), scrub(write_record(answer, _TYPE))
        await self.transaction(lambda transaction: transaction.execute(_PUT, key, at, text))

    async def prune(self, older_than: float) -> int:
        """Delete the answers that were put longer ago than this, in seconds, and return how many."""
        before = time() - older_than
        return await self.transaction(
            lambda transaction: transaction.execute("DELETE FROM podium_cache WHERE at < ?", before)
        )
