"""The edge at which a run becomes an iterator of its events."""

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

import anyio

from podium.events import Event
from podium.result import Result

Run = Callable[[Callable[[Event], None]], Coroutine[Any, Any, Result]]
"""A run that tells what happens to the function it is given."""


async def events_of(run: Run) -> AsyncGenerator[Event, None]:
    """Start `run` and yield what it emits; leaving early cancels it, and waits until it is gone.

    A generator that ends in another task than it began in (as one does that is left to
    the garbage collector) must not hold a task group open, so the run is a plain task
    here, which the generator owns.
    """
    send, receive = anyio.create_memory_object_stream[Event](math.inf)

    async def emitting() -> Result:
        with send:
            return await run(send.send_nowait)

    task = asyncio.create_task(emitting())
    try:
        async for event in receive:
            yield event
        await task
    finally:
        task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])
        receive.close()  # not sooner, since a run that is stopped still emits how its steps end
        if not task.cancelled():
            task.exception()  # the caller has it from `await task`, or has left
