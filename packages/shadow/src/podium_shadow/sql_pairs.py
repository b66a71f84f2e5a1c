"""Pairs kept in a journal's database."""

from collections.abc import Sequence
from time import time
from typing import TYPE_CHECKING, Any, Self

from podium.aio import PerLoop
from podium.journal import SqlJournal
from podium.secrets import scrub
from podium_shadow.pair import Pair, Tally
from podium_shadow.pair_store import MOST_PAIRS, Pairs

if TYPE_CHECKING:
    from podium.journal.sql.database import Database, Dialect
    from podium.journal.sql.urls import Place


class SqlPairs(PerLoop["Database"], Pairs):
    """Keeps pairs in a database, which may be a journal's. Secrets are taken out of them as out of runs.

    Args:
        place: as for `SqlJournal`.
        patience: how long a database that fails is tried again, in seconds.

    Raises:
        ConfigError: the place is none, or needs a package that is not installed.
    """

    def __init__(self, place: "Place" = None, *, patience: float = 30.0) -> None:
        from podium.journal.sql.urls import dialect_of  # noqa: PLC0415

        self._set(dialect_of(place, "normal"), patience)

    def _set(self, dialect: "Dialect", patience: float) -> None:
        PerLoop.__init__(self)
        self._dialect = dialect
        self._patience = patience

    @classmethod
    def beside(cls, journal: SqlJournal) -> Self:
        """Return the pairs that are kept in a journal's database."""
        pairs = cls.__new__(cls)
        pairs._set(journal.dialect, journal.patience)  # noqa: SLF001 - its own
        return pairs

    def __repr__(self) -> str:
        return f"SqlPairs({str(self._dialect)!r})"

    async def put(self, pair: Pair | None, tally: Tally) -> None:
        """Keep them, in one transaction."""
        from podium.journal.sql.tables import PAIRS, TALLIES  # noqa: PLC0415

        facts = {"shadow": tally.shadow, "at": tally.at, "text": _text(tally)}
        count = self._dialect.insert(TALLIES).values(tally_id=tally.tally_id, **facts)
        statements = [count.on_conflict_do_update(index_elements=["tally_id"], set_=facts)]
        if pair is not None:
            insert = self._dialect.insert(PAIRS).values(
                pair_id=pair.pair_id, shadow=pair.shadow, at=pair.at, text=_text(pair)
            )
            statements.append(insert.on_conflict_do_nothing())
        async with self.opened() as database:
            await database.transact(lambda connection: [connection.execute(each) for each in statements])

    async def pairs(
        self, *, shadow: str | None = None, since: float = 0.0, limit: int = MOST_PAIRS
    ) -> Sequence[Pair]:
        """Return the latest pairs."""
        from podium.journal.sql.tables import PAIRS  # noqa: PLC0415

        return await self._read(PAIRS, Pair, shadow, since, limit)

    async def tallies(self, *, shadow: str | None = None, since: float = 0.0) -> Sequence[Tally]:
        """Return the tallies."""
        from podium.journal.sql.tables import TALLIES  # noqa: PLC0415

        return await self._read(TALLIES, Tally, shadow, since, None)

    async def prune(self, older_than: float) -> int:
        """Forget old ones."""
        from sqlalchemy import delete  # noqa: PLC0415

        from podium.journal.sql.tables import PAIRS, TALLIES  # noqa: PLC0415

        end = time() - older_than
        pairs, tallies = delete(PAIRS).where(PAIRS.c.at < end), delete(TALLIES).where(TALLIES.c.at < end)

        def forget(connection: Any) -> int:
            connection.execute(tallies)
            return int(connection.execute(pairs).rowcount)

        async with self.opened() as database:
            return await database.transact(forget)

    async def _read(
        self, table: Any, kind: type[Any], shadow: str | None, since: float, limit: int | None
    ) -> Sequence[Any]:
        from sqlalchemy import select  # noqa: PLC0415

        from podium.journal.codec import read  # noqa: PLC0415

        query = select(table.c.text).where(table.c.at >= since).order_by(table.c.at.desc()).limit(limit)
        if shadow is not None:
            query = query.where(table.c.shadow == shadow)
        async with self.opened() as database:
            rows = await database.transact(lambda c: c.execute(query).scalars().all(), reads=True)
        return tuple(read(text, kind, _name(kind)) for text in reversed(rows))

    async def _open(self) -> "Database":
        from podium.journal.sql.database import open_database  # noqa: PLC0415

        return await open_database(self._dialect, self._patience)

    async def _close(self, part: "Database") -> None:
        await part.aclose()


def _text(record: Pair | Tally) -> str:
    from podium.journal.codec import write  # noqa: PLC0415

    return scrub(write(record, _name(type(record))))


def _name(kind: type[Any]) -> str:
    return kind.__name__.lower()
