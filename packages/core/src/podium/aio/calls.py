"""Calls that may ignore their cancellation, block the event loop, or must be protected from it."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from math import inf
from threading import Event, Lock, Thread
from time import monotonic, sleep
from typing import Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary

import anyio
import anyio.lowlevel
from anyio.lowlevel import checkpoint

GRACE = 1.0
"""Maximum time for which the work may continue after the caller's cancellation, in seconds."""

_Value = TypeVar("_Value")


async def shielded(work: Coroutine[Any, Any, _Value]) -> _Value:
    """Run `work` in its own task, which has `GRACE` seconds to finish if the caller is cancelled."""
    task, waiting = asyncio.create_task(work), asyncio.current_task()
    try:
        if waiting is None or not waiting.cancelling():
            await asyncio.wait([task])
        else:
            await _see_off(task)
    except asyncio.CancelledError:
        await _see_off(task)
        if task.done():
            retrieve(task)
        raise
    if task.cancelled() or not task.done():
        await anyio.lowlevel.checkpoint()  # raises the cancellation of the caller, if there is one
    if not task.done():
        raise asyncio.CancelledError
    return task.result()


def retrieve(task: asyncio.Future[Any]) -> None:
    """Retrieve the exception of a task that nobody awaits, so asyncio does not log it."""
    if not task.cancelled():
        task.exception()


async def _see_off(task: asyncio.Task[Any]) -> None:
    with anyio.CancelScope(shield=True):
        await asyncio.wait([task], timeout=GRACE)
        if not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=GRACE)


PATIENCE: Final = 1.5 * GRACE
"""Seconds that cancelled code has for its cleanup; work in `shielded` has less."""
BLOCKED: Final = 1.0
"""Seconds after which a blocked event loop is reported."""
_LOOKS: Final = 4
"""Number of looks at each event loop in `BLOCKED` seconds."""
_UNREAD: Final = 64
"""Number of pieces that code may emit without a wait."""

_LOG = logging.getLogger("podium")
_T = TypeVar("_T")
_left: Final = set[asyncio.Task[Any]]()
"""Tasks that were left and have not ended; an event loop holds its tasks only weakly."""


async def foreign_batches(
    code: Callable[[Callable[[_T], Awaitable[None]]], Coroutine[Any, Any, None]],
    name: str,
    until: float | None = None,
    *,
    is_own: bool = False,
) -> AsyncGenerator[list[_T], None]:
    """Run foreign code in its own task, and yield the pieces that it emits: all that are unread at a time."""
    loop, pipe = asyncio.get_running_loop(), _Pipe[_T]()
    task, patience = loop.create_task(code(pipe.emit)), None if is_own else PATIENCE
    task.add_done_callback(lambda _: pipe.written.set())
    timer = None if until is None else loop.call_at(until, pipe.written.set)
    _watchdog.add(task, name, loop)
    try:
        while pipe.pieces or not task.done():
            if pipe.pieces:
                yield pipe.take()
            elif until is not None and loop.time() >= until:
                raise TimeoutError
            else:
                pipe.written.clear()
                await pipe.written.wait()
        await task
    except asyncio.CancelledError as cancelled:
        await end(task, name, patience)
        try:
            if pipe.pieces:  # an answer that has arrived is paid for
                yield pipe.take()
        finally:
            raise cancelled
    finally:
        if timer is not None:
            timer.cancel()
        try:
            await end(task, name, patience)
        finally:
            pipe.close()
            _watchdog.remove(task)


class _Pipe(Generic[_T]):
    """The pieces that foreign code has emitted, and that are not read yet."""

    def __init__(self) -> None:
        self.pieces: list[_T] = []
        self.written, self._has_room = asyncio.Event(), asyncio.Event()
        self._is_closed = False

    async def emit(self, piece: _T) -> None:
        """Add a piece, and wait if many pieces are unread; an empty text is dropped."""
        if self._is_closed:
            raise asyncio.CancelledError("the call has ended")
        if isinstance(piece, str) and not piece:
            await checkpoint()
            return
        self.pieces.append(piece)
        self.written.set()
        if len(self.pieces) >= _UNREAD:
            self._has_room.clear()
            await self._has_room.wait()

    def take(self) -> list[_T]:
        taken, self.pieces = self.pieces, []
        self._has_room.set()
        return taken

    def close(self) -> None:
        """Accept no more pieces."""
        self._is_closed = True
        self._has_room.set()


async def end(task: asyncio.Task[Any], name: str, patience: float | None) -> None:
    """Cancel a task, and wait until it has ended; leave it if it does not end."""
    if task in _left:
        return
    task.add_done_callback(retrieve)
    if task.done():
        return
    task.cancel()
    try:
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task], timeout=patience)
    finally:
        if not task.done():
            _left.add(task)
            task.add_done_callback(_left.discard)
            task.cancel()
            asyncio._unregister_task(task)  # noqa: SLF001 - public for implementations of tasks
            _LOG.warning(
                "%s ignores that it was cancelled: it is left, and its answer is discarded. Its code catches "
                "CancelledError, or all exceptions, and continues: let it end, or raise the exception again",
                name,
            )


class _Watchdog:
    """The thread that looks whether event loops are blocked; it waits while there are no calls."""

    def __init__(self) -> None:
        self._calls: dict[asyncio.Task[Any], tuple[str, asyncio.AbstractEventLoop]] = {}
        self._ran: WeakKeyDictionary[asyncio.AbstractEventLoop, float] = WeakKeyDictionary()
        """When each event loop was last seen to run; infinite if it was reported, and has not run since."""
        self._lock = Lock()
        self._has_calls = Event()
        self._thread: Thread | None = None

    def add(self, task: asyncio.Task[Any], name: str, loop: asyncio.AbstractEventLoop) -> None:
        """Watch the event loop of a call until `remove`."""
        self._runs(loop)
        self._calls[task] = name, loop
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = Thread(target=self._watch, name="podium-watchdog", daemon=True)
                    self._thread.start()
        self._has_calls.set()

    def remove(self, task: asyncio.Task[Any]) -> None:
        self._calls.pop(task, None)

    def _runs(self, loop: asyncio.AbstractEventLoop) -> None:
        """Note that an event loop runs; called in this loop."""
        self._ran[loop] = monotonic()

    def _watch(self) -> None:
        while True:
            self._has_calls.wait()
            if not self._look():
                self._has_calls.clear()
                if self._calls:  # added meanwhile
                    self._has_calls.set()
            sleep(BLOCKED / _LOOKS)

    def _look(self) -> bool:
        """Look whether the event loops of the calls run; return whether there are calls."""
        loops = {loop for _, loop in list(self._calls.values())}
        for loop in loops:
            if monotonic() - self._ran[loop] > BLOCKED:
                self._ran[loop] = inf
                self._tell(loop)
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._runs, loop)
        return bool(loops)

    def _tell(self, loop: asyncio.AbstractEventLoop) -> None:
        running = asyncio.current_task(loop)
        calls = list(self._calls.items())
        if running is None:  # the whole process was stopped
            return
        names = [name for task, (name, _) in calls if task is running]
        beside = sorted({f"a task of {name}" for _, (name, its) in calls if its is loop})
        _LOG.warning(
            "%s has blocked the event loop for more than %g s: all runs of this loop stand still, and their "
            "time limits cannot end a call. Call blocking code in a thread",
            " or ".join(names or beside),
            BLOCKED,
        )


_watchdog = _Watchdog()


def _forget() -> None:
    """Replace the watchdog in a forked process, which has neither its thread nor its calls."""
    global _watchdog  # noqa: PLW0603 - a lock may stay locked after a fork
    _watchdog = _Watchdog()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


class OpenTasks:
    """A set of tasks, from any threads and event loops; closing the set cancels its tasks."""

    def __init__(self) -> None:
        self._open: dict[Future[None], tuple[asyncio.Task[Any], asyncio.AbstractEventLoop]] = {}
        """Each task with its loop, by the future that is done when the task has left the set."""
        self.is_closed = False

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Return a context manager in which the current task belongs to the set."""
        task, left = asyncio.current_task(), Future[None]()
        assert task is not None
        self._open[left] = task, asyncio.get_running_loop()
        try:
            if self.is_closed:  # checked after the entry, so that a concurrent `close` is not missed
                raise asyncio.CancelledError("the work that this task belongs to has ended")
            yield
        finally:
            del self._open[left]
            left.set_result(None)

    async def close(self) -> None:
        """Cancel the tasks of the set, and wait until they have ended, at most `GRACE` seconds."""
        self.is_closed, current = True, asyncio.current_task()
        others = [(left, *held) for left, held in tuple(self._open.items()) if held[0] is not current]
        if not others:
            return
        for left, task, loop in others:
            with suppress(RuntimeError):  # the loop is closed, so the task has ended
                loop.call_soon_threadsafe(_cancel, task, left)
        with anyio.CancelScope(shield=True):
            await asyncio.wait([asyncio.wrap_future(left) for left, *_ in others], timeout=GRACE)


def _cancel(task: asyncio.Task[Any], left: Future[None]) -> None:
    if not left.done():
        task.cancel()
