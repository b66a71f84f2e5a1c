"""The log of one run in its holder: the events that wait for a commit, and the state of the run."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio

from podium.aio import shielded
from podium.errors import JournalError
from podium.journal.codec import PIECES
from podium.journal.entry import Entry
from podium.journal.hash_chain import Head, head_of
from podium.journal.journal import Log
from podium.journal.sql.lease import forget_fence, keep_fence
from podium.types.events import Event, RunEnded, RunStarted, RunStopped

_LEFT_OUT = (*PIECES, RunStarted)
_LAST = (RunEnded, RunStopped)


@dataclass(frozen=True, slots=True)
class RunState:
    """The state of a run, as stored in its row of the table of runs."""

    name: str = "running"
    ended: float | None = None
    cost: float | None = None
    is_held: bool = True


class SqlLog(Log):
    """The log of one run in a database.

    Args:
        put: queues an event of a log; `None` releases the run.
        run_id: the run.
        fence: the fence in the run's row, until another process claims the run.
        leave: called when the log is closed, so that the journal may close.
    """

    def __init__(
        self,
        put: "Callable[[SqlLog, Event | None], None]",
        run_id: str,
        fence: str,
        leave: Callable[[], Awaitable[None]],
    ) -> None:
        self.run_id = run_id
        self.fence = fence
        keep_fence(fence)
        self.started: RunStarted | None = None
        """The first event of a new run; `None` for a claimed run."""
        self.is_minted = False
        """Whether the id was generated, so that no other run can have it."""
        self.state = RunState()
        """The state after all queued events are committed."""
        self.last: Head | None = None
        """The head after all queued events are committed."""
        self.failure: JournalError | None = None
        self._put = put
        self._leave = leave
        self._open = True
        self._queued = 0
        self._written = 0
        """Number of queued events that were written."""
        self.waits_since = 0.0
        """Start of the wait for the next commit, on the event loop's clock. This is the later of two times:
        when the oldest unwritten event was queued, and when the event before was written.
        """
        self._progress: anyio.Event | None = None
        self._is_closed = False

    @property
    def head(self) -> Head | None:
        """The head of the run, if all events are flushed; `None` after a failure."""
        return self.last if self.failure is None else None

    def begin(self, started: RunStarted, *, minted: bool) -> None:
        """Queue the first event of a new run."""
        self.started, self.is_minted = started, minted
        self._queue(started)

    def continue_from(self, entries: tuple[Entry, ...], state: RunState, recovery: int) -> None:
        """Continue after the recorded entries of a claimed run."""
        self.entries, self.state, self.recovery = entries, state, recovery
        self.last = head_of(entries)

    def append(self, event: Event) -> None:
        """Queue an event."""
        if self._open and event.run_id == self.run_id and not isinstance(event, _LEFT_OUT):
            self._open = not isinstance(event, _LAST)
            self._queue(event)

    def _queue(self, event: Event | None) -> None:
        if self._written == self._queued:
            self.waits_since = anyio.current_time()
        self._queued += 1
        self._put(self, event)

    async def flush(self) -> None:
        """Wait until all events queued so far are committed."""
        last = self._queued
        while self._written < last and self.failure is None:
            if self._progress is None:
                self._progress = anyio.Event()
            await self._progress.wait()
        if self.failure is not None:
            raise self.failure

    async def aclose(self) -> None:
        """Flush and release the run, and let the journal close."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._open:
            self._open = False
            self._queue(None)
        try:
            if self._written < self._queued:
                await shielded(self.flush())
            elif self.failure is not None:
                raise self.failure
        finally:
            forget_fence(self.fence)
            await self._leave()

    def committed(self, count: int) -> None:
        """Mark the next `count` queued events as committed."""
        self._written += count
        self.waits_since = anyio.current_time()
        self._wake()

    def fail(self, error: JournalError) -> None:
        """Mark the run as failed: no more events of it can be recorded."""
        if self.failure is None:
            if self.started is not None and not self._written:
                error = not_recorded(self.run_id, error)
            self.failure = error
            self._open = False
            self._wake()
            if self.on_lost is not None:
                self.on_lost()

    def _wake(self) -> None:
        if self._progress is not None:
            self._progress.set()
            self._progress = None


def not_recorded(run_id: str, error: JournalError) -> JournalError:
    """Return the error for a run whose first record is not known to be committed."""
    if error.code != JournalError.code:  # a subclass has a more precise message
        return error
    starts = f"`run(..., run_id={run_id!r})`, or `podium run --run-id {run_id}`, starts it"
    made = JournalError(f"{error}; no record of run {run_id} is known to be written: {starts}")
    made.__cause__ = error
    return made
