"""Protects work from cancellation for a limited time."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import anyio
import anyio.lowlevel

GRACE = 1.0
"""Maximum time for which the work may continue after the caller's cancellation, in seconds."""

_Value = TypeVar("_Value")


async def shielded(work: Coroutine[Any, Any, _Value]) -> _Value:
    """Run `work` in its own task and return its result.

    If the caller is cancelled, before or during the work, the work has `GRACE` seconds to finish; then it is
    cancelled too, and has the same time again. Then the caller's cancellation is raised, and the result of
    the work is discarded.

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
            task.exception()  # retrieved, so asyncio does not log it
        raise
    if task.cancelled() or not task.done():
        await anyio.lowlevel.checkpoint()  # raises the cancellation of the caller, if there is one
    if not task.done():
        raise asyncio.CancelledError
    return task.result()


async def _see_off(task: asyncio.Task[Any]) -> None:
    with anyio.CancelScope(shield=True):
        await asyncio.wait([task], timeout=GRACE)
        if not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=GRACE)
