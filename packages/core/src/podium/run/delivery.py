"""Delivers the events of a recorded run to its listeners, in order, after the journal has recorded them."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

import anyio

from podium.errors import JournalError
from podium.journal.codec import PIECES
from podium.types.events import Event


class Delivery:
    """The queue of one run's events for its listeners; an async context manager.

    Pieces of text are not recorded. A piece is delivered as soon as the events before it are recorded.

    Args:
        flush: waits until every event so far is recorded.
        tell: passes one event to the listeners.
        stop: called once if a listener raises, to stop the run.
    """

    def __init__(
        self, flush: Callable[[], Awaitable[None]], tell: Callable[[Event], None], stop: Callable[[], None]
    ) -> None:
        self.error: Exception | None = None
        """The exception of a listener. After an exception, no more events are delivered."""
        self._flush = flush
        self._tell = tell
        self._stop = stop
        self._waiting = deque[Event]()
        self._put_so_far = 0
        self._told_so_far = 0
        self._woken = anyio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._deliver())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([self._task])

    def put(self, event: Event) -> None:
        """Add an event that was just appended to the run's log."""
        self._put_so_far += 1
        if not self._waiting and isinstance(event, PIECES):
            self._hand_over(event)
            return
        self._waiting.append(event)
        self._woken.set()

    async def flush(self) -> None:
        """Wait until every event so far is recorded, and deliver them.

        Raises:
            JournalError: an event cannot be recorded.
        """
        last = self._put_so_far
        await self._flush()
        self.tell_until(last)

    def tell_until(self, last: int | None = None) -> None:
        """Deliver events that are recorded: up to the event number `last`; by default, all events."""
        while self._waiting and (last is None or self._told_so_far < last):
            self._hand_over(self._waiting.popleft())

    def _hand_over(self, event: Event) -> None:
        self._told_so_far += 1
        if self.error is None:
            try:
                self._tell(event)
            except Exception as error:  # noqa: BLE001 - the run is stopped and raises it
                self.error = error
                self._stop()

    async def _deliver(self) -> None:
        while True:
            await self._woken.wait()
            self._woken = anyio.Event()
            try:
                await self.flush()
            except JournalError:
                return  # the recorder stops the run
