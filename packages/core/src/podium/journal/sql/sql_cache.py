"""Answers to use again, kept in a journal's database."""

from time import time
from typing import TYPE_CHECKING

from podium.aio.per_loop import PerLoop
from podium.journal.answer_cache import Cache
from podium.secrets import scrub
from podium.types.messages import Completion

if TYPE_CHECKING:
    from podium.journal.sql.database import Database
    from podium.journal.sql.urls import Place

_NAME = "completion"


class SqlCache(PerLoop["Database"], Cache):
    """Remembers answers in a database, for all that use it.

    An answer that was put just before a loss of power may be forgotten. Secrets are taken
    out of answers as they are out of a journal.

    Args:
        place: as for `SqlJournal`; both may be in one database.
        patience: how long a database that fails is tried again, in seconds.

    Raises:
        ConfigError: the place is none, or needs a package that is not installed.
    """

    def __init__(self, place: "Place" = None, *, patience: float = 30.0) -> None:
        from podium.journal.sql.urls import dialect_of  # noqa: PLC0415

        super().__init__()
        self._dialect = dialect_of(place, "normal")
        self._patience = patience

    def __repr__(self) -> str:
        return f"SqlCache({str(self._dialect)!r})"

    async def get(self, key: str) -> Completion | None:
        """Return the answer that was put there; `None` when there is none."""
        from sqlalchemy import select  # noqa: PLC0415

        from podium.journal.codec import read  # noqa: PLC0415
        from podium.journal.sql.tables import CACHE  # noqa: PLC0415

        query = select(CACHE.c.text).where(CACHE.c.key == key)
        async with self.opened() as database:
            found = await database.transact(lambda connection: connection.scalar(query), reads=True)
        return None if found is None else read(found, Completion, _NAME)

    async def put(self, key: str, answer: Completion) -> None:
        """Remember an answer; one of the same key is replaced."""
        from podium.journal.codec import write  # noqa: PLC0415
        from podium.journal.sql.tables import CACHE  # noqa: PLC0415

        facts = {"at": time(), "text": scrub(write(answer, _NAME))}
        insert = self._dialect.insert(CACHE).values(key=key, **facts)
        statement = insert.on_conflict_do_update(index_elements=["key"], set_=facts)
        async with self.opened() as database:
            await database.transact(lambda connection: connection.execute(statement))

    async def prune(self, older_than: float) -> int:
        """Forget what was put longer ago than this, in seconds, and return how many answers that were."""
        from sqlalchemy import delete  # noqa: PLC0415

        from podium.journal.sql.tables import CACHE  # noqa: PLC0415

        statement = delete(CACHE).where(CACHE.c.at < time() - older_than)
        async with self.opened() as database:
            return (await database.transact(lambda connection: connection.execute(statement))).rowcount

    async def _open(self) -> "Database":
        from podium.journal.sql.database import open_database  # noqa: PLC0415

        return await open_database(self._dialect, self._patience)

    async def _close(self, part: "Database") -> None:
        await part.aclose()
