"""Waiting for what LangChain does, so that a cancel of it is one cancel, at the place where it waits.

LangChain hands what it does on to tasks of its own. A cancel scope of anyio cancels whoever
waits for those at every turn of the loop until it has left, and each time they are cancelled
once more, in the midst of closing a connection too, which then stays open. A stream that is
closed between two of its pieces only drops the streams it is made of, and so does not close
the connection either before they are collected as garbage. So all of it is done in a task
that is cancelled once, and waited for to its end.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

import anyio

T = TypeVar("T")
_CLOSE_SECONDS: Final = 1.0
"""How long what was cancelled may take to close what it holds open."""
_AHEAD: Final = 1000
"""How many pieces of a stream are read before somebody takes them."""


async def apart(work: Coroutine[Any, Any, T]) -> T:
    """Do `work` in a task of its own; a cancel reaches it once, and waits until it is gone."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        await _cancelled(task)
        raise
    return task.result()


async def each(stream: AsyncIterator[T]) -> AsyncGenerator[T, None]:
    """Yield what `stream` does, read in a task of its own; leaving early cancels that once, and waits."""
    read = asyncio.Queue[tuple[T, ...]]()

    async def reading() -> None:
        try:
            async for piece in stream:
                if task.cancelling():  # which `asyncio.wait_for` can lose, before Python 3.12
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
    """Cancel a task that is not over, and wait until it is gone, whatever else is cancelled meanwhile."""
    with anyio.CancelScope(shield=True):
        while not task.done():
            task.cancel()  # once more where it was lost: before Python 3.12 `asyncio.wait_for` loses some
            until = asyncio.get_running_loop().time() + _CLOSE_SECONDS
            while not task.done() and (left := until - asyncio.get_running_loop().time()) > 0:
                with suppress(asyncio.CancelledError):  # more of the cancel that brought us here
                    await asyncio.wait([task], timeout=left)
    if not task.cancelled():
        task.exception()  # whoever asked has left, or raises it next
