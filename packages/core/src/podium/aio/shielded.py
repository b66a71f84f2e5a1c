"""Work that is not left half-way when who waits for it is cancelled."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import anyio
import anyio.lowlevel

GRACE = 1.0
"""Seconds such work may go on after that."""

_Value = TypeVar("_Value")


async def shielded(work: Coroutine[Any, Any, _Value]) -> _Value:
    """Do it in a task of its own and wait for its end; once cancelled, for `GRACE` seconds at most.

    A cancel is raised as soon as the work has ended, and what the work came to is dropped.
    Where the waiting task is being cancelled already, the work is done all the same, in that time.
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
            task.exception()  # seen, or asyncio would tell of it
        raise
    if task.cancelled():
        await anyio.lowlevel.checkpoint()  # raises the cancel that the waiting task is under, as its own
    return task.result()


async def _see_off(task: asyncio.Task[Any]) -> None:
    with anyio.CancelScope(shield=True):
        await asyncio.wait([task], timeout=GRACE)
        if not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=GRACE)
