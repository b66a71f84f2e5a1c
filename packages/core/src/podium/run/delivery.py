"""Delivers the events of a run to its listeners."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Self

import anyio

from podium.errors import JournalError, ListenerFailed, RunFailed
from podium.secrets import BUGS, add_place, scrub_error
from podium.types.codec import PIECES
from podium.types.events import AnswerDelta, Event
from podium.types.outcome import tell_actions
from podium.types.result import Result

Listener = Callable[[Event], None]
"""A callback that gets the events of a run as they happen."""


async def with_listener(
    listener: Listener | None, run: Callable[[Listener | None], Awaitable[Result]]
) -> Result:
    """Execute `run` and call `listener` with its events."""
    if listener is None:
        return await run(None)
    raised: list[Exception] = []
    scope = anyio.CancelScope()

    def tell(event: Event) -> None:
        if not raised:
            try:
                listener(event)
            except Exception as error:  # code of the user; raised when the run has ended
                scrub_error(error)
                raised.append(error)
                if isinstance(error, BUGS):
                    add_place(error, event.run_id, "`on_event`")
                    scope.cancel()
                    return
                logging.getLogger("podium").exception("the event callback of run %s raised", event.run_id)

    with scope:
        try:
            result = await run(tell)
        except BaseException as ended:
            _copy_notes(ended, raised)  # what the run has done
            raise
    if raised and isinstance(raised[0], BUGS):
        if not scope.cancelled_caught:
            tell_actions(raised[0], result.actions)
        raise raised[0]
    if raised:
        failed = ListenerFailed(f"on_event raised {type(raised[0]).__name__}: the run continued without it")
        failed.result, failed.actions = result, result.actions
        raise failed from raised[0]
    return result


def _copy_notes(error: BaseException, others: Sequence[Exception]) -> None:
    for other in others:
        for note in getattr(error, "__notes__", ()):
            other.add_note(note)


class StreamedAnswer:
    """The text of an answer that is streamed in pieces.

    A retried step writes its text again, from the beginning. If the new text begins with the text that was
    already streamed, the rest of it is streamed. If the new text differs, nothing more is streamed.
    """

    def __init__(self) -> None:
        self.text = ""
        """The text that was streamed."""
        self._again: str | None = None
        """The text of the current attempt, while it repeats text that was already streamed; otherwise `None`.
        """
        self._attempt: tuple[int | None, int | None, int | None] | None = None

    def add(self, event: AnswerDelta) -> str:
        """Return the text to stream for an event; empty if there is none."""
        attempt = (event.round, event.step, event.attempt)
        if self._attempt not in (None, attempt):
            self._again = ""
        self._attempt = attempt
        if self._again is None:
            self.text += event.text
            return event.text
        self._again += event.text
        if not self._again.startswith(self.text):
            return ""
        new, self.text, self._again = self._again[len(self.text) :], self._again, None
        return new

    def rest(self, result: Result) -> str:
        """Return the text of the answer that was not streamed yet.

        Raises:
            RunFailed: the answer differs from the streamed text.
        """
        if not result.answer.startswith(self.text):
            told = "the answer differs from the streamed text: see the error's result"
            error = RunFailed(f"run {result.run_id}: {told}")
            error.result, error.actions = result, result.actions
            raise error
        return result.answer[len(self.text) :]


class Delivery:
    """The queue of one run's events for its listeners; an async context manager."""

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
        """Wait until every event so far is recorded, and deliver them."""
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
