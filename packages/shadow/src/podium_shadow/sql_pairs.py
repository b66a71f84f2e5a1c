"""Store pairs in the database of a journal."""

from collections.abc import Sequence
from time import time
from typing import Any, Self

from podium.journal import Location, Schema, SqlJournal, SqlTables, Transaction
from podium.secrets import scrub
from podium.types.codec import read_record, write_record
from podium_shadow.pair import Pair, Tally
from podium_shadow.pair_store import MOST_PAIRS, Pairs

_SCHEMA = Schema(
    "shadow",
    [
        [
            """
            CREATE TABLE podium_pairs (
                pair_id TEXT PRIMARY KEY, shadow TEXT NOT NULL,
                at DOUBLE PRECISION NOT NULL, text TEXT NOT NULL
            )
            """,
            "CREATE INDEX podium_pairs_at ON podium_pairs (at)",
            """
            CREATE TABLE podium_tallies (
                tally_id TEXT PRIMARY KEY, shadow TEXT NOT NULL,
                at DOUBLE PRECISION NOT NULL, text TEXT NOT NULL
            )
            """,
        ]
    ],
)
_PUT_PAIR = """
INSERT INTO podium_pairs (pair_id, shadow, at, text) VALUES (?, ?, ?, ?) ON CONFLICT (pair_id) DO NOTHING
"""
_PUT_TALLY = """
INSERT INTO podium_tallies (tally_id, shadow, at, text) VALUES (?, ?, ?, ?)
ON CONFLICT (tally_id) DO UPDATE SET shadow = excluded.shadow, at = excluded.at, text = excluded.text
"""
_LATEST_PAIRS = "SELECT text FROM podium_pairs WHERE at >= ? ORDER BY at DESC LIMIT ?"
_LATEST_PAIRS_OF = "SELECT text FROM podium_pairs WHERE at >= ? AND shadow = ? ORDER BY at DESC LIMIT ?"
_TALLIES = "SELECT text FROM podium_tallies WHERE at >= ? ORDER BY at DESC"
_TALLIES_OF = "SELECT text FROM podium_tallies WHERE at >= ? AND shadow = ? ORDER BY at DESC"


class SqlPairs(SqlTables, Pairs):
    """Stores pairs in a database, which may be a journal's. Secrets are removed, as in runs.

    Args:
        location: see `SqlJournal`.
        patience: seconds to retry while the database fails.

    Raises:
        ConfigError: the location is not a valid database, or needs a package that is not installed.
    """

    def __init__(self, location: Location = None, *, patience: float = 30.0) -> None:
        super().__init__(_SCHEMA, location, patience=patience)

    @classmethod
    def beside(cls, journal: SqlJournal) -> Self:
        """Return the store of pairs in the database of a journal."""
        return cls(journal.url, patience=journal.patience)

    async def put(self, pair: Pair | None, tally: Tally) -> None:
        """Store a pair and a tally, in one transaction."""
        pair_text, tally_text = None if pair is None else _text(pair), _text(tally)

        async def put(transaction: Transaction) -> None:
            await transaction.execute(_PUT_TALLY, tally.tally_id, tally.shadow, tally.at, tally_text)
            if pair is not None:
                await transaction.execute(_PUT_PAIR, pair.pair_id, pair.shadow, pair.at, pair_text)

        await self.transaction(put)

    async def pairs(
        self, *, shadow: str | None = None, since: float = 0.0, limit: int = MOST_PAIRS
    ) -> Sequence[Pair]:
        """Return the latest pairs."""
        if shadow is None:
            return await self._read(Pair, _LATEST_PAIRS, since, limit)
        return await self._read(Pair, _LATEST_PAIRS_OF, since, shadow, limit)

    async def tallies(self, *, shadow: str | None = None, since: float = 0.0) -> Sequence[Tally]:
        """Return the tallies."""
        if shadow is None:
            return await self._read(Tally, _TALLIES, since)
        return await self._read(Tally, _TALLIES_OF, since, shadow)

    async def prune(self, older_than: float) -> int:
        """Delete old pairs and tallies."""
        before = time() - older_than

        async def prune(transaction: Transaction) -> int:
            await transaction.execute("DELETE FROM podium_tallies WHERE at < ?", before)
            return await transaction.execute("DELETE FROM podium_pairs WHERE at < ?", before)

        return await self.transaction(prune)

    async def _read(self, kind: type[Any], query: str, *values: str | float) -> Sequence[Any]:
        """Return the records that a query finds, ordered from oldest to latest."""
        rows = await self.transaction(lambda transaction: transaction.fetch(query, *values), reads=True)
        return tuple(read_record(row["text"], kind, _name(kind)) for row in reversed(rows))


def _text(record: Pair | Tally) -> str:
    return scrub(write_record(record, _name(type(record))))


def _name(kind: type[Any]) -> str:
    return kind.__name__.lower()
