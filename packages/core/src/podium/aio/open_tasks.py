"""Tasks of any threads and event loops that end together."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress

import anyio

from podium.aio.shield import GRACE


class OpenTasks:
    """Tasks that are stopped when their owner closes the set, whatever thread and event loop runs them.

    A task group holds tasks of one event loop, and its owner starts them. Here a task enters the set
    itself, from the thread in which it runs.
    """

    def __init__(self) -> None:
        self._tasks = set[_OpenTask]()
        self.is_closed = False

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Return a block during which the current task belongs to the set.

        Raises:
            CancelledError: the set is closed.
        """
        task = _OpenTask()
        self._tasks.add(task)
        try:
            if self.is_closed:  # looked at after the entry: `close` finds the entry, or is found here
                raise asyncio.CancelledError("the work that this task belongs to has ended")
            yield
        finally:
            self._tasks.discard(task)
            task.ended.set_result(None)

    async def close(self) -> None:
        """Cancel the tasks of the set, and wait until they have ended, `GRACE` seconds at most."""
        self.is_closed = True
        open_tasks = [task for task in tuple(self._tasks) if not task.is_current()]
        if not open_tasks:
            return
        for task in open_tasks:
            task.stop()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([asyncio.wrap_future(task.ended) for task in open_tasks], timeout=GRACE)


class _OpenTask:
    """The current task, for as long as it belongs to a set."""

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._loop = task, asyncio.get_running_loop()
        self.ended = Future[None]()

    def is_current(self) -> bool:
        """Return whether this task calls."""
        with suppress(RuntimeError):  # no event loop runs in this thread
            return asyncio.current_task() is self._task
        return False

    def stop(self) -> None:
        """Cancel the task in its event loop, unless it has left the set by then."""
        with suppress(RuntimeError):  # the loop is closed: the task runs no more
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if not self.ended.done():
            self._task.cancel()
