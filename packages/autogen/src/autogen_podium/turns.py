"""Turns of AutoGen's objects: cancelled with their tokens, and one at a time for objects with memory."""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakKeyDictionary

import anyio

from podium.aio.loops import LoopLocal

if TYPE_CHECKING:  # Agent Framework has no tokens
    from autogen_core import CancellationToken

T = TypeVar("T")
_GRACE: Final = 1.0
"""Time in seconds in which a cancelled task must end; then it is cancelled again."""
_POLL: Final = 0.01
"""Seconds between two checks of an object that another event loop uses."""


async def cancelling(token: "CancellationToken", work: Coroutine[Any, Any, T]) -> T:
    """Run `work`, which uses `token`; if the caller is cancelled, cancel the token, then the work.

    The token is cancelled first, because a team that is cancelled without its token waits until its members
    have ended. The work is cancelled a second time only after `_GRACE` seconds, because a second cancellation
    interrupts clients that are closing their connections.
    """
    task = asyncio.create_task(work)
    try:
        await asyncio.wait([task])
    finally:
        while not task.done():
            token.cancel()
            task.cancel()
            with anyio.move_on_after(_GRACE, shield=True):
                await asyncio.wait([task])
    return task.result()


def cancelled_by(token: "CancellationToken") -> None:
    """Cancel the current task when the token is cancelled."""
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    if token.is_cancelled():
        task.cancel()
    else:
        token.add_callback(lambda: None if loop.is_closed() else _cancel(loop, task))


def _cancel(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> None:
    """Cancel a task from any thread."""
    try:
        loop.call_soon_threadsafe(task.cancel)
    except RuntimeError:  # the loop was closed meanwhile, with the task
        return


class _Lock:
    """A lock on one object, for steps in any event loop; fair among the steps of one loop."""

    def __init__(self) -> None:
        self._loops = LoopLocal(asyncio.Lock)
        self._one = threading.Lock()

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[None]:
        async with self._loops.get():
            while not self._one.acquire(blocking=False):  # noqa: ASYNC110 - another event loop cannot set our event
                await anyio.sleep(_POLL)
            try:
                yield
            finally:
                self._one.release()


_locks: WeakKeyDictionary[object, _Lock] = WeakKeyDictionary()


def exclusive(thing: object) -> Any:
    """Return a context manager that only one step at a time can enter, across all pools of the object."""
    return _locks.setdefault(thing, _Lock())()
