"""The seam between a run and where it is recorded."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from time import time

from podium.aio.resources import ResourceGroup
from podium.errors import RunHeld, RunUnknown
from podium.journal.entry import Entry, Record, RunRow
from podium.types.events import Event, RunStarted


class Log(ABC):
    """One run's record, open for writing by its one holder. It keeps its journal open."""

    run_id: str
    entries: Sequence[Entry] = ()
    """What had been recorded when it was opened; empty for a new run."""
    recovery: int = 0
    """How many times the run was taken up after its process had died, this one included."""
    on_lost: Callable[[], None] | None = None
    """Called once, in the event loop, when it is known that the run can be recorded no longer:
    someone else has taken it over, or the journal has given it up."""

    @abstractmethod
    def append(self, event: Event) -> None:
        """Record an event, after all that were appended before. Returns at once.

        Pieces of text (`PlanDelta`, `StepDelta`, `AnswerDelta`), events of other runs and
        `RunStarted`, which is there already, are left out. `RunEnded` and `RunStopped` give
        the run up as they are recorded. What goes wrong is raised by `flush`.
        """

    @abstractmethod
    async def flush(self) -> None:
        """Wait until all that was appended is durable.

        Raises:
            JournalError: it is not, and will not be.
            RunLost: someone else has taken the run over.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Flush, and give the run up, so that others may take it. Closing again does nothing.

        Raises:
            JournalError: as `flush`.
        """


class Journal(ResourceGroup, ABC):
    """Where runs are recorded. Used as a worker is: enter it to keep open what it holds open."""

    @abstractmethod
    async def begin(self, started: RunStarted, *, minted: bool) -> Log:
        """Record a new run, and hold it.

        Args:
            started: its first event.
            minted: whether the id was made for it, so that no other run can have it; what
                was begun is then durable only with the first `flush`.

        Raises:
            RunExists: there is a run of this id.
            JournalError: it cannot be recorded.
        """

    @abstractmethod
    async def claim(self, run_id: str, *, force: bool = False) -> Log:
        """Hold a run that was begun before and is held by no one who lives.

        A holder is taken for dead when its lease has run out, or when its process is
        known to be gone. Nothing is recorded by it; a log that is closed with nothing
        appended leaves the run as it was.

        Args:
            run_id: the run.
            force: take it even if it was taken up too often before.

        Raises:
            RunUnknown: there is no such run.
            RunHeld: someone holds it.
            RunDead: it was taken up too often after its process had died.
            JournalBroken: what is recorded cannot be read.
        """

    @abstractmethod
    async def records(self, run_id: str) -> Sequence[Record]:
        """Return all that is recorded of a run as it is kept, in order.

        Raises:
            RunUnknown: there is no such run.
        """

    async def read(self, run_id: str) -> Sequence[Entry]:
        """Return all that is recorded of a run, in order.

        Raises:
            RunUnknown: there is no such run.
            JournalBroken: what is recorded cannot be read.
        """
        return tuple(record.entry() for record in await self.records(run_id))

    @abstractmethod
    async def runs(
        self, *, limit: int | None = 50, nested: bool = False, prefix: str = "", parent: str | None = None
    ) -> Sequence[RunRow]:
        """Return the latest runs, the newest first.

        Args:
            limit: how many at most; `None` means all.
            nested: whether those that are nested in others are among them.
            prefix: only those whose id begins so.
            parent: only those nested directly in this run.
        """

    @abstractmethod
    async def delete(self, run_id: str) -> None:
        """Forget a run, with all that are nested in it. Nothing of it is left.

        Raises:
            RunUnknown: there is no such run.
            RunHeld: someone carries it, or one that is nested in it, out.
        """

    async def prune(self, older_than: float) -> int:
        """Forget the runs that no one carries out and that ended, or else began, long ago.

        Args:
            older_than: how long ago, in seconds.

        Returns:
            How many runs were forgotten, not counting those nested in them.
        """
        before, forgotten = time() - older_than, 0
        for row in await self.runs(limit=None):
            if row.state != "running" and (row.ended or row.began) < before:
                try:
                    await self.delete(row.run_id)
                except (RunUnknown, RunHeld):
                    continue  # someone else was faster
                forgotten += 1
        return forgotten
