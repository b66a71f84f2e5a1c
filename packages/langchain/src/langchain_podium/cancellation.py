"""Run LangChain's coroutines and streams so that a cancellation reaches them exactly once.

There are two problems. First, LangChain runs code in its own tasks. A cancel scope of anyio cancels a task
that waits for such tasks again and again, in every iteration of the event loop. Each of these cancellations
is passed on. If a connection is just being closed, the cancellation interrupts this, and the connection stays
open. Second, a stream of LangChain that is closed between two items does not close its inner streams. Their
connections stay open until garbage collection. Therefore such code runs in a separate task, which is
cancelled once, and awaited until it ends.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

import anyio

T = TypeVar("T")
_CLOSE_SECONDS: Final = 1.0
"""Time in seconds in which a cancelled task must close its resources."""
_AHEAD: Final = 1000
"""Maximum number of stream items that are read ahead."""


async def apart(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` in a separate task; a cancellation reaches it once, and is awaited."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        await _cancelled(task)
        raise
    return task.result()


async def each(stream: AsyncIterator[T]) -> AsyncGenerator[T, None]:
    """Yield the items of `stream`, which is read in a separate task. Leaving early cancels the task."""
    read = asyncio.Queue[tuple[T, ...]]()

    async def reading() -> None:
        try:
            async for piece in stream:
                if task.cancelling():  # before Python 3.12, `asyncio.wait_for` can lose a cancellation
                    task.cancel()
                read.put_nowait((piece,))
                if read.qsize() > _AHEAD:
                    await read.join()
        finally:
            read.put_nowait(())

    task = asyncio.get_running_loop().create_task(reading())
    try:
        while piece := await read.get():
            read.task_done()
            yield piece[0]
        await asyncio.wait([task])
    finally:
        await _cancelled(task)
    task.result()


async def _cancelled(task: "asyncio.Task[Any]") -> None:
    """Cancel a task that has not ended, and wait for its end, ignoring further cancellations."""
    with anyio.CancelScope(shield=True):
        while not task.done():
            task.cancel()  # repeated because `asyncio.wait_for` loses some cancellations before Python 3.12
            until = asyncio.get_running_loop().time() + _CLOSE_SECONDS
            while not task.done() and (left := until - asyncio.get_running_loop().time()) > 0:
                with suppress(asyncio.CancelledError):  # repeated by the cancellation that led here
                    await asyncio.wait([task], timeout=left)
    if not task.cancelled():
        task.exception()  # retrieved so that asyncio does not log it; the caller has left, or raises it
