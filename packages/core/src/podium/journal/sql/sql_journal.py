"""A journal in a database, by way of SQLAlchemy: SQLite for one machine, PostgreSQL for many."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from podium.aio.per_loop import PerLoop
from podium.aio.shielded import shielded
from podium.errors import ConfigError
from podium.journal.entry import Record, RunRow, check_id
from podium.journal.journal import Journal, Log
from podium.types.events import RunStarted

if TYPE_CHECKING:
    from podium.journal.sql.batch import Batch
    from podium.journal.sql.database import Database, Synchronous
    from podium.journal.sql.fenced_store import Store
    from podium.journal.sql.group_commit import Writer
    from podium.journal.sql.run_log import SqlLog
    from podium.journal.sql.runs import Runs
    from podium.journal.sql.urls import Place


@dataclass(frozen=True, slots=True)
class _Open:
    """What a journal holds in one event loop."""

    database: "Database"
    store: "Store"
    writer: "Writer"
    runs: "Runs"


class SqlJournal(PerLoop[_Open], Journal):
    """Records runs in a database.

    All that the runs of one event loop append is committed by one task, many records at a
    time. Connections are kept while the journal is entered, which may be any number of
    times, in any number of event loops and threads, and while a log is open; outside of
    that, each use opens and closes them.

    Args:
        place: a path of an SQLite file, or a URL, as in `sqlite:///runs.db` or
            `postgresql://user:password@host/name`; `None` is an SQLite file in the user's
            state directory. A new file is its owner's alone.
        synchronous: for SQLite. `full` outlives a loss of power; `normal` outlives a crash
            of the process only, and is faster on slow disks.
        lease: for how many seconds runs stay this process's after it was last heard of.
        patience: how long a database that fails is tried again, in seconds.
        max_recoveries: how many times a run is taken up after its process died.

    Raises:
        ConfigError: the place is none, or needs a package that is not installed.
    """

    def __init__(
        self,
        place: "Place" = None,
        *,
        synchronous: "Synchronous" = "full",
        lease: float = 30.0,
        patience: float = 30.0,
        max_recoveries: int = 5,
    ) -> None:
        from podium.journal.sql.urls import dialect_of  # noqa: PLC0415

        super().__init__()
        if not (lease > 0 and patience > 0 and max_recoveries >= 0):
            raise ConfigError("a journal's lease and patience are above 0 s, its max_recoveries 0 or more")
        self.dialect = dialect_of(place, synchronous)
        self._lease = lease
        self.patience = patience
        self._max_recoveries = max_recoveries

    def __repr__(self) -> str:
        return f"SqlJournal({str(self.dialect)!r})"

    async def begin(self, started: RunStarted, *, minted: bool) -> Log:
        """Record a new run, and hold it."""
        from podium.journal.sql.run_log import SqlLog  # noqa: PLC0415

        check_id(started.run_id)
        here = await self._enter()
        log = SqlLog(here.writer.put, started.run_id, uuid4().hex, self._leave)
        log.begin(started, minted=minted)
        if not minted or here.writer.fails:
            try:
                await log.flush()
            except BaseException:
                await log.aclose()
                raise
        return log

    async def claim(self, run_id: str, *, force: bool = False) -> Log:
        """Hold a run that was begun before and is held by no one who lives."""
        from podium.journal.sql.run_log import SqlLog  # noqa: PLC0415

        here = await self._enter()
        log = SqlLog(here.writer.put, run_id, uuid4().hex, self._leave)
        is_ours = False

        async def take() -> None:
            nonlocal is_ours
            claimed = await here.runs.claim(run_id, log.fence, force=force)
            log.follow(claimed.entries, claimed.state, claimed.recoveries)
            here.writer.hold(log)
            is_ours = True

        try:
            await shielded(take())
        except BaseException:
            await (log.aclose() if is_ours else self._leave())
            raise
        return log

    async def records(self, run_id: str) -> Sequence[Record]:
        """Return all that is recorded of a run as it is kept, in order."""
        async with self.opened() as here:
            return await here.runs.records(run_id)

    async def runs(
        self, *, limit: int | None = 50, nested: bool = False, prefix: str = "", parent: str | None = None
    ) -> Sequence[RunRow]:
        """Return the latest runs, the newest first."""
        async with self.opened() as here:
            return await here.runs.rows(limit=limit, nested=nested, prefix=prefix, parent=parent)

    async def delete(self, run_id: str) -> None:
        """Forget a run, with all that are nested in it."""
        async with self.opened() as here:
            await here.runs.delete(run_id)

    async def _commit(self, store: "Store", batch: "Batch") -> "Collection[SqlLog]":
        """Write a batch: every record goes through here, and is durable on return."""
        return await store.commit(batch)

    async def _open(self) -> _Open:
        from podium.journal.codec import prepare  # noqa: PLC0415
        from podium.journal.sql.database import open_database  # noqa: PLC0415
        from podium.journal.sql.fenced_store import Store  # noqa: PLC0415
        from podium.journal.sql.group_commit import Writer  # noqa: PLC0415
        from podium.journal.sql.runs import Runs  # noqa: PLC0415

        database = await open_database(self.dialect, self.patience)
        prepare()
        store = Store(database, self._lease)
        writer = Writer(lambda batch: self._commit(store, batch), self._lease / 3)
        return _Open(database, store, writer, Runs(store, self._max_recoveries))

    async def _close(self, part: _Open) -> None:
        try:
            await part.writer.aclose()
        finally:
            await part.database.aclose()
