"""A journal in a database: SQLite for one machine, PostgreSQL for many."""

from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import uuid4

from podium.aio.calls import shielded
from podium.aio.loops import PerLoop
from podium.errors import ConfigError, JournalError, RunDead
from podium.journal.journal import Journal, Log, Record, RunRow, Wanted, check_id
from podium.journal.sql import runs
from podium.journal.sql.changes import Changes, Follower
from podium.journal.sql.commits import Batch, GroupCommit, SqlLog, commit, not_recorded
from podium.journal.sql.database import Database, Synchronous, Transaction
from podium.journal.sql.lease import Lease, open_fences
from podium.journal.sql.tables import Location, PostgresOnly, Schema, database_url, open_database, upgrade
from podium.types.codec import prepare
from podium.types.events import RunStarted

SCHEMA = Schema(
    "journal",
    [
        [
            """
            CREATE TABLE podium_runs (
                run_id TEXT PRIMARY KEY, parent TEXT, question TEXT NOT NULL, state TEXT NOT NULL,
                began DOUBLE PRECISION NOT NULL, ended DOUBLE PRECISION, cost DOUBLE PRECISION,
                holder TEXT, fence TEXT NOT NULL, recoveries INTEGER NOT NULL
            )
            """,
            "CREATE INDEX podium_runs_began ON podium_runs (began, run_id)",
            # without the outer runs, so that SQLite does not use it to find all of these
            "CREATE INDEX podium_runs_parent ON podium_runs (parent) WHERE parent IS NOT NULL",
            PostgresOnly('CREATE INDEX podium_runs_prefix ON podium_runs (run_id COLLATE "C")'),
            """
            CREATE TABLE podium_events (
                run_id TEXT NOT NULL, number INTEGER NOT NULL, at DOUBLE PRECISION NOT NULL,
                text TEXT NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (run_id, number)
            )
            """,
            "CREATE TABLE podium_leases (holder TEXT PRIMARY KEY, until DOUBLE PRECISION NOT NULL)",
            "CREATE TABLE podium_answers (key TEXT NOT NULL, run_id TEXT NOT NULL, labels TEXT NOT NULL)",
            "CREATE INDEX podium_answers_key ON podium_answers (key)",
            "CREATE INDEX podium_answers_run ON podium_answers (run_id)",
        ],
        ["CREATE INDEX podium_runs_waiting ON podium_runs (run_id) WHERE state = 'waiting'"],
    ],
    first=4,
)
"""The tables of a journal.

`podium_answers` has the labels of each answer, as JSON.

A claim of a run replaces `fence`. A lease ends at `until`, by the clock of the database; other tables of this
database may have its `holder`, too.
"""


_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class _Open:
    """The open parts of a journal in one event loop."""

    database: Database
    lease: Lease
    writer: GroupCommit
    changes: Changes


class SqlJournal(PerLoop[_Open], Journal):
    """Records runs in a database.

    One task commits the events of all runs of an event loop, many records at a time. Connections stay open
    while the journal is entered (any number of times, in any number of event loops and threads) and while a
    log is open. At other times, each use opens and closes its connections.

    Args:
        location: the path of an SQLite file, or a URL such as `sqlite:///runs.db` or
            `postgresql://user:password@host/name`; `None` for an SQLite file in the user's state directory.
            Only its owner can read a new file.
        synchronous: for SQLite. With `full`, a commit survives a power failure. With `normal`, a commit
            survives only a crash of the process, and is faster on slow disks.
        lease: how many seconds after its last renewal the lease of this process ends, so that others may take
            over its runs. With twice `patience`, a process keeps its runs while it can continue.
        patience: how long to retry while the database fails, in seconds.
        max_recoveries: maximum number of claims of a run after its process died.

    Raises:
        ConfigError: the location is invalid, or needs a package that is not installed.
    """

    def __init__(
        self,
        location: Location = None,
        *,
        synchronous: Synchronous = "full",
        lease: float = 60.0,
        patience: float = 30.0,
        max_recoveries: int = 5,
    ) -> None:
        super().__init__()
        if not (lease > 0 and patience > 0 and max_recoveries >= 0):
            raise ConfigError(
                "a journal's lease and patience must be above 0 s, and its max_recoveries 0 or more"
            )
        self.url = database_url(location)
        self.patience = patience
        self._synchronous: Synchronous = synchronous
        self.lease = lease
        self._max_recoveries = max_recoveries

    def __repr__(self) -> str:
        return f"SqlJournal({str(self.url)!r})"

    async def begin(self, started: RunStarted, *, minted: bool) -> Log:
        """Record a new run and hold it."""
        check_id(started.run_id)
        try:
            here = await self._enter()
        except JournalError as error:
            raise not_recorded(started.run_id, error) from error
        log = SqlLog(here.writer.put, started.run_id, uuid4().hex, here.lease.holder, self._leave)
        log.begin(started)
        if not minted:
            try:
                await log.flush()
            except BaseException:  # also after a cancellation: release the run
                with suppress(JournalError):  # the first exception is raised
                    await log.aclose()
                raise
        return log

    async def claim(self, run_id: str, *, force: bool = False) -> Log:
        """Hold an earlier run that no live process holds."""
        here = await self._enter()
        log = SqlLog(here.writer.put, run_id, uuid4().hex, here.lease.holder, self._leave)

        async def take() -> None:
            await here.lease.keep()
            most = None if force else self._max_recoveries
            row, entries = await here.database.transaction(
                lambda each: runs.claim(each, here.lease, run_id, log.fence, most)
            )
            if entries is None:
                raise RunDead(
                    f"run {run_id} was continued {row.recoveries - 1} times after its process died: "
                    "find the cause before you force it"
                )
            log.continue_from(entries, row)
            here.writer.hold(log)

        try:
            await shielded(take())
        except BaseException:  # also after a cancellation: release the run
            if log.row is not None:
                with suppress(JournalError):  # as above
                    await log.aclose()
            else:
                open_fences.discard(log.fence)
                await self._leave()
            raise
        return log

    async def records(self, run_id: str) -> Sequence[Record]:
        """Return all records of a run in their stored form, in order."""
        return await self._read(lambda each, _: runs.records_of(each, run_id))

    async def _rows(self, wanted: Wanted, limit: int | None) -> Sequence[RunRow]:
        return await self._read(lambda each, database: runs.list_runs(each, database, wanted, limit))

    async def answer_labels(self, keys: Collection[str]) -> Mapping[str, frozenset[str]]:
        """Return the labels of recorded answers."""
        return await self._read(lambda each, _: runs.labels_of(each, keys))

    async def check(self, patience: float) -> None:
        """Check that events can be recorded: renew the lease of this process.

        Args:
            patience: how long to retry while the database fails, in seconds.

        Raises:
            JournalError: the database cannot be used, or the file of the database was deleted.
        """
        async with self.opened() as here:
            await here.lease.renew(patience=patience)

    @asynccontextmanager
    async def leased(self, on_lost: Callable[[], object] = lambda: None) -> AsyncGenerator[Lease, None]:
        """Yield the lease of this process, for rows of tables beside the journal that have its holder.

        Args:
            on_lost: called in this event loop after another process has ended the lease and taken over.
        """
        async with self.opened() as here:
            await here.lease.renew()
            here.lease.on_lost.append(on_lost)
            try:
                yield here.lease
            finally:
                here.lease.on_lost.remove(on_lost)

    async def probe(self) -> None:
        """Check once, without a retry, that a run can be recorded.

        Raises:
            JournalError: the database cannot be used; see `is_busy`.
        """
        database = self.url.connect(self.patience, self._synchronous)

        async def write_nothing(_: Transaction) -> None:
            pass

        try:
            await upgrade(database, SCHEMA, patience=0.0)
            await database.transaction(write_nothing, patience=0.0)
        finally:
            await shielded(database.aclose())

    async def strays(self) -> Sequence[str]:
        """Return the ids that have records but no row, because somebody deleted the row."""
        return await self._read(lambda each, _: runs.strays(each))

    async def delete(self, run_id: str) -> None:
        """Delete a run and all runs nested in it."""
        async with self.opened() as here:
            await here.database.transaction(lambda each: runs.delete_run(each, here.database, run_id))
            here.changes.tell([run_id])

    async def _delete_free(self, run_ids: Sequence[str]) -> int:
        async with self.opened() as here:
            return await here.database.transaction(
                lambda each: runs.delete_free(each, here.database, run_ids)
            )

    async def _read(self, work: Callable[[Transaction, Database], Coroutine[Any, Any, _Result]]) -> _Result:
        async with self.opened() as here:
            return await here.database.transaction(lambda each: work(each, here.database), reads=True)

    @asynccontextmanager
    async def following(self, run_id: str) -> AsyncGenerator[Follower, None]:
        """Yield a follower of a run, which may not have begun, and which any process may execute.

        Read the run first, and then wait for its next change: the follower sees what happens meanwhile.
        """
        async with self.opened() as here:
            with here.changes.followed(run_id) as follower:
                yield follower

    async def tell(self, run_ids: Collection[str]) -> None:
        """Wake the followers of runs in all processes, after a change in a table beside the journal."""
        async with self.opened() as here:
            here.changes.tell(run_ids)

    async def _commit(self, lease: Lease, batch: Batch) -> Collection[SqlLog]:
        """Make one attempt to write a batch. All records are written here, and are durable on return."""
        return await commit(lease, batch)

    async def _open(self) -> _Open:
        database = await open_database(
            self.url, SCHEMA, patience=self.patience, synchronous=self._synchronous
        )
        prepare()
        lease, changes = Lease(database, self.lease), Changes(database)

        async def write(batch: Batch) -> Collection[SqlLog]:
            lost = await self._commit(lease, batch)
            changes.tell({log.run_id for log in (*batch.parts, *batch.released)})
            return lost

        writer = GroupCommit(write, patience=self.patience)
        lease.on_lost.append(writer.lose)
        return _Open(database, lease, writer, changes)

    async def _close(self, part: _Open) -> None:
        async with AsyncExitStack() as stack:
            for each in (part.database, part.lease, part.changes, part.writer):  # closed in reverse
                stack.push_async_callback(each.aclose)
