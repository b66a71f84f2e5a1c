"""The interface between runs and journals."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from time import time

from podium.aio.resources import ResourceGroup
from podium.errors import RunHeld, RunUnknown
from podium.journal.entry import Entry, Record, RunRow
from podium.journal.hash_chain import Head
from podium.types.events import Event, RunStarted


class Log(ABC):
    """The log of one run, to which the holder of the run can write. An open log keeps its journal open."""

    run_id: str
    entries: Sequence[Entry] = ()
    """The entries that were recorded before the log was opened; empty for a new run."""
    recovery: int = 0
    """Number of claims after a process of the run died, including this claim."""
    on_lost: Callable[[], None] | None = None
    """Called once, in the event loop, when the run can no longer be recorded, because another process claimed
    it or the journal failed."""

    @abstractmethod
    def append(self, event: Event) -> None:
        """Queue an event for recording and return at once; `flush` raises the errors.

        Some events are ignored: pieces of text (`PlanDelta`, `StepDelta`, `AnswerDelta`), events of other
        runs, and `RunStarted`, which is already recorded. `RunEnded` and `RunStopped` release the run.
        """

    @property
    def head(self) -> Head | None:
        """The head of the run after a flush; `None` if the journal failed, or has no hashes."""
        return None

    @abstractmethod
    async def flush(self) -> None:
        """Wait until every appended event is durable.

        Raises:
            JournalError: an event could not be recorded.
            RunLost: another process claimed the run.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Flush and release the run, so that others may claim it. Closing again does nothing.

        Raises:
            JournalError: see `flush`.
        """


class Journal(ResourceGroup, ABC):
    """Records runs.

    In a block `async with journal:`, its connections stay open. The methods also work outside of such a
    block.
    """

    @abstractmethod
    async def begin(self, started: RunStarted, *, minted: bool) -> Log:
        """Record a new run and hold it.

        Args:
            started: its first event.
            minted: whether the id was generated for this run, so that no other run can have this id. The
                event of such a run is durable after the first `flush`; the event of any other run is durable
                when `begin` returns.

        Raises:
            RunExists: a run with this id exists.
            JournalError: the run cannot be recorded.
        """

    @abstractmethod
    async def claim(self, run_id: str, *, force: bool = False) -> Log:
        """Claim an earlier run that no live process holds, and return its log.

        A holder counts as dead when its lease has expired, or when its process is known to have ended. A
        claim writes no record: if you close the log without appending an event, the run is unchanged.

        Args:
            run_id: the run.
            force: claim the run even after too many recoveries.

        Raises:
            RunUnknown: the run does not exist.
            RunHeld: a live process holds the run.
            RunDead: the run was claimed too often after its process died.
            JournalBroken: a record cannot be read.
        """

    @abstractmethod
    async def records(self, run_id: str) -> Sequence[Record]:
        """Return all records of a run in their stored form, in order.

        Raises:
            RunUnknown: the run does not exist.
        """

    async def read(self, run_id: str) -> Sequence[Entry]:
        """Return all recorded events of a run, in order.

        Raises:
            RunUnknown: the run does not exist.
            JournalBroken: a record cannot be read.
        """
        return tuple(record.entry() for record in await self.records(run_id))

    async def nested(self, run_id: str) -> list[list[Event]]:
        """Return the events of all runs nested in a run, at any depth.

        Raises:
            JournalBroken: a record cannot be read.
        """
        found: list[list[Event]] = []
        for row in await self.runs(parent=run_id, nested=True, limit=None):
            found.append([entry.event for entry in await self.read(row.run_id)])
            found += await self.nested(row.run_id)
        return found

    @abstractmethod
    async def runs(
        self,
        *,
        limit: int | None = 50,
        nested: bool = False,
        prefix: str = "",
        parent: str | None = None,
        since: float | None = None,
        ids: Collection[str] | None = None,
    ) -> Sequence[RunRow]:
        """Return the latest runs, newest first.

        Args:
            limit: maximum number of runs; `None` for all runs.
            nested: whether to return nested runs too.
            prefix: return only runs whose id begins with this text.
            parent: return only runs nested directly in this run.
            since: return only runs that began at this time or later, in seconds of Unix time; `None` for
                all runs.
            ids: return only runs with these ids; `None` for all runs.
        """

    async def pages(
        self, *, nested: bool = False, since: float | None = None, until: float | None = None
    ) -> AsyncGenerator[Sequence[RunRow], None]:
        """Yield all runs in pages, newest first. Runs that begin after the first page are left out.

        Args:
            nested: whether to yield nested runs too.
            since: yield only runs that began at this time or later, in seconds of Unix time; `None` for all.
            until: yield only runs that began at this time or earlier.
        """
        rows = await self.runs(limit=None, nested=nested, since=since)
        yield [row for row in rows if until is None or row.began <= until]

    async def answer_labels(self, keys: Collection[str]) -> Mapping[str, frozenset[str]]:
        """Return the labels of recorded answers: of all answers with an equal key together.

        Args:
            keys: see `RunEnded.answer_key`.
        """
        del keys
        return {}

    async def strays(self) -> Sequence[str]:
        """Return the ids that have records but no row, because somebody deleted the row."""
        return ()

    @abstractmethod
    async def delete(self, run_id: str) -> None:
        """Delete a run and all runs nested in it.

        Raises:
            RunUnknown: the run does not exist.
            RunHeld: a live process holds one of these runs.
        """

    async def prune(self, older_than: float) -> int:
        """Delete old runs that no process holds.

        Args:
            older_than: minimum time since the end of a run, or since its start if it has not ended, in
                seconds.

        Returns:
            The number of deleted runs, without nested runs.
        """
        deleted = 0
        for run_id in await self._old(older_than):
            try:
                await self.delete(run_id)
            except (RunUnknown, RunHeld):
                continue  # just deleted or claimed
            deleted += 1
        return deleted

    async def count_old(self, older_than: float) -> int:
        """Return the number of runs that `prune` would delete now."""
        return len(await self._old(older_than))

    async def _old(self, older_than: float) -> Sequence[str]:
        before, rows = time() - older_than, await self.runs(limit=None)
        return [row.run_id for row in rows if row.state != "running" and (row.ended or row.began) < before]
