"""A cache of answers in a database."""

from hashlib import sha256
from time import time

from podium.errors import JournalBroken
from podium.journal.answer_cache import Cache, StoredAnswer
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
        ["CREATE INDEX podium_cache_at ON podium_cache (at)"],
    ],
)
_PUT = """
INSERT INTO podium_cache (key, at, text, hash) VALUES (?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET at = excluded.at, text = excluded.text, hash = excluded.hash
"""
_AT_ONCE = 1000
"""Maximum answers that one transaction deletes."""
_PRUNE = f"""
DELETE FROM podium_cache
WHERE key IN (SELECT key FROM podium_cache WHERE at < ? ORDER BY at LIMIT {_AT_ONCE}) AND at < ?
"""  # noqa: S608 - no value from outside
_COUNT = "SELECT count(*) AS count FROM podium_cache WHERE at < ?"
_GET = "SELECT at, text, hash FROM podium_cache WHERE key = ?"


class SqlCache(SqlTables, Cache):
    """Stores answers in a database, for all processes that use it.

    A power failure may lose the latest answers. Secrets are removed from answers, as in a journal.

    Args:
        location: see `SqlJournal`; a journal and a cache may share a database.
        patience: how long to retry while the database fails, in seconds.

    Raises:
        ConfigError: the location is invalid, or needs a package that is not installed.
    """

    def __init__(self, location: Location = None, *, patience: float = 30.0) -> None:
        super().__init__(_SCHEMA, location, patience=patience)

    async def get(self, key: str) -> Completion | None:
        """Return the answer for a key; `None` if there is none.

        Raises:
            JournalBroken: the stored answer was changed.
            JournalError: the database cannot be used.
        """
        stored = await self.stored(key)
        return None if stored is None else stored.answer

    async def stored(self, key: str) -> StoredAnswer | None:
        """Return the answer for a key in its stored form; raises the same errors as `get`."""
        return await self.transaction(lambda transaction: _stored(transaction, key), reads=True)

    async def put(self, key: str, answer: Completion) -> None:
        """Store an answer, which replaces the answer for the same key.

        Raises:
            JournalBroken: the stored answer for this key was changed; it is kept for an audit.
            JournalError: the database cannot be used.
        """
        at, text = time(), scrub(write_record(answer, _TYPE))
        digest = _hash(key, at, text)

        async def put(transaction: Transaction) -> None:
            await _stored(transaction, key)
            await transaction.execute(_PUT, key, at, text, digest)

        await self.transaction(put)

    async def prune(self, older_than: float) -> int:
        """Delete the answers that are older than `older_than` seconds, and return their number."""
        before, deleted = time() - older_than, 0
        while True:
            count = await self.transaction(lambda each: each.execute(_PRUNE, before, before))
            deleted += count
            if count < _AT_ONCE:
                return deleted

    async def count_old(self, older_than: float) -> int:
        """Return the number of answers that `prune` would delete now."""
        before = time() - older_than
        rows = await self.transaction(lambda each: each.fetch(_COUNT, before), reads=True)
        return int(rows[0]["count"])


async def _stored(transaction: Transaction, key: str) -> StoredAnswer | None:
    for row in await transaction.fetch(_GET, key):
        if row["hash"] != _hash(key, row["at"], row["text"]):
            raise JournalBroken(
                f"the cached answer {key} was changed: `podium audit verify` lists the runs that reused it, "
                "`podium cache clear` deletes all answers"
            )
        return StoredAnswer(row["at"], read_record(row["text"], Completion, _TYPE))
    return None


def _hash(key: str, at: float, text: str) -> str:
    return sha256(f"{key}\n{at!r}\n{text}".encode()).hexdigest()
