"""Yields the events of a task from an async generator."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, TypeVar

import anyio

T = TypeVar("T")


async def events_of(
    run: Callable[[Callable[[T], None]], Coroutine[Any, Any, object]],
) -> AsyncGenerator[T, None]:
    """Start `run`, and yield the events that it emits.

    Leaving the iteration early cancels `run` and waits until `run` has ended. `run` is a plain task, because
    a generator must not hold a task group open. A task group must be closed in the task that opened it, but
    the garbage collector may close a generator in another task.

    Args:
        run: a coroutine function; its argument is a function that emits an event.

    Yields:
        The events, in order.

    Raises:
        BaseException: whatever `run` raises, after its events.
    """
    events = deque[T]()
    woken = asyncio.Event()

    def emit(event: T) -> None:
        events.append(event)
        woken.set()

    task = asyncio.create_task(run(emit))
    task.add_done_callback(lambda _: woken.set())
    try:
        while events or not task.done():
            if events:
                yield events.popleft()
            else:
                woken.clear()
                await woken.wait()
        await task
    finally:

        def over(task: asyncio.Task[object]) -> None:
            if not task.cancelled():
                task.exception()  # retrieved, so asyncio does not log it

        task.cancel()
        task.add_done_callback(over)  # runs even if the wait below is cancelled
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])
