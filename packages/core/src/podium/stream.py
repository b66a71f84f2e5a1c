"""The edges at which a run meets its caller: an iterator of events, a thread without a loop."""

import asyncio
import math
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextvars import copy_context
from typing import Any, TypeVar

import anyio

from podium.events import Event
from podium.result import Result

T = TypeVar("T")
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


def run_sync(function: Callable[[], Awaitable[T]]) -> T:
    """Run an async function to its end from code that is not async.

    Where a loop already runs in this thread (a notebook, a web framework), another
    thread is used, with the context variables of this one.
    """

    async def main() -> T:
        return await function()

    # Not `anyio.run`, which refuses wherever a context was copied from inside a loop.
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(main())
    context, returned = copy_context(), list[T]()
    raised: list[BaseException] = []

    def body() -> None:
        try:
            returned.append(context.run(asyncio.run, main()))
        except BaseException as error:  # noqa: BLE001 - carried to the thread that asked
            raised.append(error)

    thread = threading.Thread(target=body, name="podium-run-sync")
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return returned[0]
