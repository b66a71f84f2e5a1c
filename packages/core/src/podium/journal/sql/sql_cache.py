"""Answers to use again, kept in a database."""

from collections.abc import Sequence
from hashlib import sha256
from time import time

from podium.errors import JournalBroken
from podium.journal.answer_cache import Cache
from podium.journal.codec import read_record, write_record
from podium.journal.sql.database import Row, Transaction
from podium.journal.sql.schema import Schema
from podium.journal.sql.sql_tables import SqlTables
from podium.journal.sql.urls import Location
from podium.secrets import scrub
from podium.types.messages import Completion

_TYPE = "completion"
_SCHEMA = Schema(
    "cache",
    [
        [
            """
            CREATE TABLE podium_cache (key TEXT PRIMARY KEY, at DOUBLE PRECISION NOT NULL, text TEXT NOT NULL)
            """
        ],
        [
            "DROP TABLE podium_cache",
            """
            CREATE TABLE podium_cache (
                key TEXT PRIMARY KEY, at DOUBLE PRECISION NOT NULL, text TEXT NOT NULL, hash TEXT NOT NULL
            )
            """,
        ],
    ],
)
_PUT = """
INSERT INTO podium_cache (key, at, text, hash) VALUES (?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET at = excluded.at, text = excluded.text, hash = excluded.hash
"""
_GET = "SELECT at, text, hash FROM podium_cache WHERE key = ?"


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
        """Return the answer of this key; `None` if there is none.

        Raises:
            JournalBroken: the answer is not as it was put.
            JournalError: the database cannot be used.
        """

        async def get(transaction: Transaction) -> Sequence[Row]:
            return await transaction.fetch(_GET, key)

        for row in await self.transaction(get, reads=True):
            if row["hash"] != _hash(key, row["at"], row["text"]):
                raise JournalBroken(f"the cached answer {key} was changed")
            answer: Completion = read_record(row["text"], Completion, _TYPE)
            return answer
        return None

    async def put(self, key: str, answer: Completion) -> None:
        """Keep an answer; it replaces the answer of the same key."""
        at, text = time(), scrub(write_record(answer, _TYPE))
        digest = _hash(key, at, text)
        await self.transaction(lambda transaction: transaction.execute(_PUT, key, at, text, digest))

    async def changed(self, keys: Sequence[str]) -> Sequence[str]:
        """Return those of the keys whose answers are kept, and are not as they were put."""
        found: list[str] = []
        async with self:
            for key in keys:
                try:
                    await self.get(key)
                except JournalBroken:
                    found.append(key)
        return found

    async def prune(self, older_than: float) -> int:
        """Delete the answers that were put longer ago than this, in seconds, and return how many."""
        before = time() - older_than
        return await self.transaction(
            lambda transaction: transaction.execute("DELETE FROM podium_cache WHERE at < ?", before)
        )


def _hash(key: str, at: float, text: str) -> str:
    return sha256(f"{key}\n{at!r}\n{text}".encode()).hexdigest()
