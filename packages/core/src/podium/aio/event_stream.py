"""A task whose events are read by iterating over a generator."""

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, TypeVar

import anyio

T = TypeVar("T")


async def events_of(
    run: Callable[[Callable[[T], None]], Coroutine[Any, Any, object]],
) -> AsyncGenerator[T, None]:
    """Start `run` and yield what it emits; leaving early cancels it, and waits until it is gone.

    A generator that ends in another task than it began in (as one does that is left to
    the garbage collector) must not hold a task group open, so the run is a plain task
    here, which the generator owns.
    """
    send, receive = anyio.create_memory_object_stream[T](math.inf)

    async def emitting() -> None:
        with send:
            await run(send.send_nowait)

    task = asyncio.create_task(emitting())
    try:
        async for event in receive:
            yield event
        await task
    finally:

        def over(task: asyncio.Task[None]) -> None:
            receive.close()  # not sooner, since a run that is stopped still emits how its steps end
            if not task.cancelled():
                task.exception()  # the caller has it from `await task`, or has left

        task.cancel()
        task.add_done_callback(over)  # also if waiting for it is cancelled, too
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])
