"""The seam between runs and journals."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from time import time

from podium.aio.resources import ResourceGroup
from podium.errors import RunHeld, RunUnknown
from podium.journal.entry import Entry, Record, RunRow
from podium.journal.hash_chain import Head
from podium.types.events import Event, RunStarted


class Log(ABC):
    """The record of one run, open for writing by the run's one holder. It keeps its journal open."""

    run_id: str
    entries: Sequence[Entry] = ()
    """What was recorded before the log was opened; empty for a new run."""
    recovery: int = 0
    """How many times the run was claimed after its process died, this claim included."""
    on_lost: Callable[[], None] | None = None
    """Called once, in the event loop, when the run can no longer be recorded: another process claimed it, or
    the journal failed."""

    @abstractmethod
    def append(self, event: Event) -> None:
        """Record an event after those appended before. Returns at once; `flush` raises what fails.

        Pieces of text (`PlanDelta`, `StepDelta`, `AnswerDelta`), events of other runs, and `RunStarted`,
        which is recorded already, are left out. `RunEnded` and `RunStopped` release the run.
        """

    @property
    def head(self) -> Head | None:
        """How far the run is recorded after a flush; `None` if the journal failed, or keeps no hashes."""
        return None

    @abstractmethod
    async def flush(self) -> None:
        """Wait until every appended event is durable.

        Raises:
            JournalError: an event is not durable, and will not be.
            RunLost: another process claimed the run.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Flush, and release the run, so that others may claim it. Closing again does nothing.

        Raises:
            JournalError: as `flush`.
        """


class Journal(ResourceGroup, ABC):
    """Where runs are recorded. Entering a journal keeps its connections open; every method works without."""

    @abstractmethod
    async def begin(self, started: RunStarted, *, minted: bool) -> Log:
        """Record a new run, and hold it.

        Args:
            started: its first event.
            minted: whether the id was made for this run, so that no other run can have it. The event is
                then durable only with the first `flush`; otherwise on return.

        Raises:
            RunExists: there is a run of this id.
            JournalError: the run cannot be recorded.
        """

    @abstractmethod
    async def claim(self, run_id: str, *, force: bool = False) -> Log:
        """Hold a run that began earlier and that no live process holds.

        A holder counts as dead when its lease ran out, or when its process is known to have ended. A claim
        records nothing: a log that is closed with nothing appended leaves the run as it was.

        Args:
            run_id: the run.
            force: claim the run even if it was claimed too often before.

        Raises:
            RunUnknown: there is no such run.
            RunHeld: a live process holds the run.
            RunDead: the run was claimed too often after its process died.
            JournalBroken: a record cannot be read.
        """

    @abstractmethod
    async def records(self, run_id: str) -> Sequence[Record]:
        """Return all records of a run as they are stored, in order.

        Raises:
            RunUnknown: there is no such run.
        """

    async def read(self, run_id: str) -> Sequence[Entry]:
        """Return all recorded events of a run, in order.

        Raises:
            RunUnknown: there is no such run.
            JournalBroken: a record cannot be read.
        """
        return tuple(record.entry() for record in await self.records(run_id))

    @abstractmethod
    async def runs(
        self, *, limit: int | None = 50, nested: bool = False, prefix: str = "", parent: str | None = None
    ) -> Sequence[RunRow]:
        """Return the latest runs, the newest first.

        Args:
            limit: most runs to return; `None` means all.
            nested: whether to return runs that are nested in others too.
            prefix: only runs whose id begins with it.
            parent: only runs nested directly in this run.
        """

    async def strays(self) -> Sequence[str]:
        """Return the ids under which there are records, but no run: somebody deleted its row."""
        return ()

    @abstractmethod
    async def delete(self, run_id: str) -> None:
        """Delete a run and all runs nested in it.

        Raises:
            RunUnknown: there is no such run.
            RunHeld: a live process holds one of these runs.
        """

    async def prune(self, older_than: float) -> int:
        """Delete the runs that ended, or else began, long ago and that no process holds.

        Args:
            older_than: how long ago, in seconds.

        Returns:
            How many runs were deleted, not counting those nested in them.
        """
        before, deleted = time() - older_than, 0
        for row in await self.runs(limit=None):
            if row.state != "running" and (row.ended or row.began) < before:
                try:
                    await self.delete(row.run_id)
                except (RunUnknown, RunHeld):
                    continue  # deleted or claimed meanwhile
                deleted += 1
        return deleted
