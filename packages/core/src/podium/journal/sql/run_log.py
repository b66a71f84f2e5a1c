"""One run's record in a database, as its holder sees it: what waits for its commit, and how it stands."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio

from podium.aio.shielded import shielded
from podium.errors import JournalError
from podium.journal.codec import PIECES
from podium.journal.entry import Entry
from podium.journal.hash_chain import ROOT
from podium.journal.journal import Log
from podium.types.events import Event, RunEnded, RunStarted, RunStopped

_LEFT_OUT = (*PIECES, RunStarted)
_LAST = (RunEnded, RunStopped)


@dataclass(frozen=True, slots=True)
class State:
    """How a run stands, as its row says."""

    name: str = "running"
    ended: float | None = None
    cost: float | None = None
    is_held: bool = True


class SqlLog(Log):
    """One run's record in a database.

    Args:
        put: queues what is appended to a log; `None` gives its run up.
        run_id: the run.
        fence: what the run's row says as long as nobody else has taken the run.
        leave: lets the journal close.
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
        self.started: RunStarted | None = None
        """Of a run that began with this log."""
        self.is_minted = False
        """Whether no other run can have its id."""
        self.state = State()
        """As it will be once all that is queued is written."""
        self.number = 0
        """Of the next record."""
        self.head = ROOT
        """The hash of the last."""
        self.failure: JournalError | None = None
        self._put = put
        self._leave = leave
        self._open = True
        self._waiting = 0
        self._settled: anyio.Event | None = None
        self._is_closed = False

    def begin(self, started: RunStarted, *, minted: bool) -> None:
        """Queue the first event of a new run."""
        self.started, self.is_minted = started, minted
        self._queue(started)

    def follow(self, entries: tuple[Entry, ...], state: State, recovery: int) -> None:
        """Go on after what is recorded."""
        self.entries, self.state, self.recovery = entries, state, recovery
        self.number = len(entries)
        self.head = entries[-1].hash if entries else ROOT

    def append(self, event: Event) -> None:
        """Queue it."""
        if self._open and event.run_id == self.run_id and not isinstance(event, _LEFT_OUT):
            self._open = not isinstance(event, _LAST)
            self._queue(event)

    def _queue(self, event: Event | None) -> None:
        self._waiting += 1
        self._put(self, event)

    async def flush(self) -> None:
        """Wait for the commit of all that is queued."""
        while self._waiting and self.failure is None:
            if self._settled is None:
                self._settled = anyio.Event()
            await self._settled.wait()
        if self.failure is not None:
            raise self.failure

    async def aclose(self) -> None:
        """Flush, give the run up, and let the journal close."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._open:
            self._open = False
            self._queue(None)
        try:
            if self._waiting:
                await shielded(self.flush())
            elif self.failure is not None:
                raise self.failure
        finally:
            await self._leave()

    def settle(self, count: int) -> None:
        """Count what was committed."""
        self._waiting -= count
        if not self._waiting:
            self._wake()

    def fail(self, error: JournalError) -> None:
        """Take it that nothing more of this run can be recorded."""
        if self.failure is None:
            self.failure = error
            self._open = False
            self._wake()
            if self.on_lost is not None:
                self.on_lost()

    def _wake(self) -> None:
        if self._settled is not None:
            self._settled.set()
            self._settled = None
