"""The records of a shadow: pairs of answers, and counts of requests; their store."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from time import time
from typing import Any, Literal, Self

from podium.journal import Location, Schema, SqlJournal, SqlTables, Transaction
from podium.secrets import scrub
from podium.types.codec import read_record, write_record
from podium.usage import Usage

MOST_CHARS = 100_000
"""Maximum length of a stored question or answer, in characters; longer text is cut."""

_OUTER = " \t.,;:!?\"'`*_“”‘’"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """The known calls, tokens and cost of an answer."""

    calls: int | None = None
    """Calls of models and other workers; `None` means unknown: no call was reported."""
    usage: Usage | None = None
    """Tokens of all calls; `None` means unknown."""
    cost: float | None = None
    """USD; `None` means unknown."""
    run_id: str | None = None
    """The id of the conductor's run in its journal; `None` if no conductor or several conductors ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The answer of the primary or the candidate."""

    status: Literal["ok", "failed", "timeout"]
    answer: str = ""
    problem: str = ""
    """The error, if there is no answer."""
    seconds: float | None = None
    """Seconds from question to answer; `None` for a request of a batch."""
    spent: Spent = Spent()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One question with the answers of both sides."""

    pair_id: str
    shadow: str
    """The name of the shadow."""
    at: float
    """When the candidate ended, in seconds of Unix time."""
    question: str
    primary: Side
    candidate: Side

    @property
    def is_equal(self) -> bool:
        """Whether both answers are the same, except for case, spaces and outer punctuation."""
        return plain(self.primary.answer) == plain(self.candidate.answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The requests of one shadow in one process in one hour."""

    tally_id: str
    shadow: str
    at: float
    """When the last request was counted, in seconds of Unix time."""
    seen: int = 0
    """All requests."""
    sampled: int = 0
    """Drawn requests; each becomes a pair, or is in one of the counts below."""
    busy: int = 0
    """Dropped: `concurrency` candidates were already running."""
    unfunded: int = 0
    """Dropped: the budget was used up."""
    abandoned: int = 0
    """Dropped: the caller did not wait for the primary's answer, or a graph was interrupted."""
    unread: int = 0
    """Dropped: the request could not be copied, or the answer could not be read."""
    cut_off: int = 0
    """Started, then cancelled because the shadow was closed."""
    unrecorded: int = 0
    """Compared, but the pair could not be stored."""


def plain(text: str) -> str:
    """Return a text without case, repeated spaces and outer punctuation, for comparison."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).strip(_OUTER)


MOST_PAIRS = 10_000
"""Default maximum of pairs that are read."""


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
_LATEST = "SELECT text FROM podium_{} WHERE at >= ? AND shadow = COALESCE(?, shadow) ORDER BY at DESC"


class SqlPairs(SqlTables):
    """Stores pairs and tallies in a database, which may be a journal's. Secrets are removed, as in runs.

    In a block `async with`, its connections stay open. The methods also work outside of such a block.

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
        """Store a pair, unless it is `None`, and replace the tally with the same id, in one transaction.

        Raises:
            JournalError: they cannot be stored.
        """
        pair_text, tally_text = None if pair is None else _text(pair), _text(tally)

        async def put(transaction: Transaction) -> None:
            await transaction.execute(_PUT_TALLY, tally.tally_id, tally.shadow, tally.at, tally_text)
            if pair is not None:
                await transaction.execute(_PUT_PAIR, pair.pair_id, pair.shadow, pair.at, pair_text)

        await self.transaction(put)

    async def pairs(
        self, *, shadow: str | None = None, since: float = 0.0, limit: int = MOST_PAIRS
    ) -> Sequence[Pair]:
        """Return the latest pairs, ordered from oldest to latest.

        Args:
            shadow: the name of one shadow; `None` means all.
            since: the oldest time, in seconds of Unix time.
            limit: maximum number of pairs.

        Raises:
            JournalError: they cannot be read.
        """
        return await self._read(Pair, f"{_LATEST.format('pairs')} LIMIT ?", since, shadow, limit)

    async def tallies(self, *, shadow: str | None = None, since: float = 0.0) -> Sequence[Tally]:
        """Return the tallies that changed at or after `since`, ordered from oldest to latest."""
        return await self._read(Tally, _LATEST.format("tallies"), since, shadow)

    async def prune(self, older_than: float) -> int:
        """Delete pairs and tallies older than `older_than` seconds, and return the number of pairs."""
        before = time() - older_than

        async def prune(transaction: Transaction) -> int:
            await transaction.execute("DELETE FROM podium_tallies WHERE at < ?", before)
            return await transaction.execute("DELETE FROM podium_pairs WHERE at < ?", before)

        return await self.transaction(prune)

    async def _read(self, kind: type[Any], query: str, *values: str | float | None) -> Sequence[Any]:
        """Return the records that a query finds, ordered from oldest to latest."""
        rows = await self.transaction(lambda transaction: transaction.fetch(query, *values), reads=True)
        return tuple(read_record(row["text"], kind, _name(kind)) for row in reversed(rows))


def _text(record: Pair | Tally) -> str:
    return scrub(write_record(record, _name(type(record))))


def _name(kind: type[Any]) -> str:
    return kind.__name__.lower()
