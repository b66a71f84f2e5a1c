"""AutoGen's cancellation tokens and Podium's cancels, each linked to the other.

It also owns that an agent, which remembers what it was told, is told by one step at a time.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

import anyio
from autogen_core import CancellationToken

from podium.aio import LoopLocal

T = TypeVar("T")
_GRACE: Final = 1.0
"""Seconds in which what was cancelled is to end before it is cancelled once more."""
_POLL: Final = 0.01
"""Seconds between two looks at an agent that is used in another event loop."""


async def cancelling(token: CancellationToken, work: Coroutine[Any, Any, T]) -> T:
    """Do `work`, which listens to `token`; a cancel of ours reaches the token first, then the work.

    A team that is cancelled without its token waits for its members to end; and the tasks that
    clients have of their own bear to be cancelled but once, as they close their connections.
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


def cancelled_by(token: CancellationToken) -> None:
    """Have the token cancel the task this is called in."""
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    if token.is_cancelled():
        task.cancel()
    else:
        token.add_callback(lambda: None if loop.is_closed() else _cancel(loop, task))


def _cancel(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> None:
    """Cancel a task of a loop, from any thread."""
    try:
        loop.call_soon_threadsafe(task.cancel)
    except RuntimeError:  # the loop was closed meanwhile, and the task with it
        return


class _Turn:
    """Whose turn it is with one agent: of the steps of one event loop in order, of loops in any."""

    def __init__(self) -> None:
        self._loops = LoopLocal(asyncio.Lock)
        self._one = threading.Lock()

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[None]:
        async with self._loops.get():
            while not self._one.acquire(blocking=False):  # noqa: ASYNC110 - another loop can set no event of ours
                await anyio.sleep(_POLL)
            try:
                yield
            finally:
                self._one.release()


_turns: WeakKeyDictionary[object, _Turn] = WeakKeyDictionary()


def alone(agent: object) -> Any:
    """Return a context manager within which nobody else uses the agent, in whatever pools it is."""
    return _turns.setdefault(agent, _Turn())()
