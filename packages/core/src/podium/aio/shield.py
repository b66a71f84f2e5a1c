"""Work that a cancel does not interrupt half-way."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import anyio
import anyio.lowlevel

GRACE = 1.0
"""Seconds that the work may go on after the cancel."""

_Value = TypeVar("_Value")


async def shielded(work: Coroutine[Any, Any, _Value]) -> _Value:
    """Run `work` in its own task and return its result.

    If the caller is cancelled, now or already, the work has `GRACE` seconds to end and is then
    cancelled itself. The caller's cancel is raised when the work has ended; its result is dropped.

    Args:
        work: the coroutine.

    Raises:
        BaseException: whatever `work` raises.
    """
    task, waiting = asyncio.create_task(work), asyncio.current_task()
    try:
        if waiting is None or not waiting.cancelling():
            await asyncio.wait([task])
        else:
            await _see_off(task)
    except asyncio.CancelledError:
        await _see_off(task)
        if task.done() and not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not log it
        raise
    if task.cancelled():
        await anyio.lowlevel.checkpoint()  # if the caller is being cancelled, this raises the cancel
    return task.result()


async def _see_off(task: asyncio.Task[Any]) -> None:
    with anyio.CancelScope(shield=True):
        await asyncio.wait([task], timeout=GRACE)
        if not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=GRACE)
