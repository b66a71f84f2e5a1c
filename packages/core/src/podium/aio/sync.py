"""The one edge at which code that is not async runs code that is."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")


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
