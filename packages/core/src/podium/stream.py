"""The edges at which a run's events leave it: an iterator, a callback."""

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import anyio

from podium.errors import ListenerFailed
from podium.events import Event
from podium.result import Result
from podium.secrets import scrub_error

T = TypeVar("T")

Listener = Callable[[Event], None]
"""Takes the events of a run as they happen."""


async def called_with(
    listener: Listener | None, run: Callable[[Listener | None], Awaitable[Result]]
) -> Result:
    """Carry out `run`, whose events go to someone else's function.

    One that raises is told nothing more; what the run has begun to pay for goes on.

    Raises:
        ListenerFailed: the listener raised; the error holds the run's result.
    """
    if listener is None:
        return await run(None)
    raised: list[Exception] = []

    def tell(event: Event) -> None:
        if not raised:
            try:
                listener(event)
            except Exception as error:
                scrub_error(error)
                raised.append(error)
                logging.getLogger("podium").exception("what run %s tells its events to raised", event.run_id)

    result = await run(tell)
    if raised:
        failed = ListenerFailed(f"on_event raised {type(raised[0]).__name__}: the run went on without it")
        failed.result = result
        raise failed from raised[0]
    return result


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
        task.add_done_callback(over)  # be it that waiting for it is cancelled, too
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])
