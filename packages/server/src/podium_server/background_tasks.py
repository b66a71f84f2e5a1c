"""Functions that run beside a block, and work that is repeated."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import anyio

from podium.errors import JournalError

LOGGER = logging.getLogger("podium")


@asynccontextmanager
async def beside(*functions: Callable[[], Coroutine[Any, Any, None]]) -> AsyncGenerator[None, None]:
    """Run functions beside the block, and cancel them at its end.

    An exception of the block is raised as it is, not as a part of an exception group.
    """
    raised: Exception | None = None
    async with anyio.create_task_group() as tasks:
        for function in functions:
            tasks.start_soon(function)
        try:
            yield
        except Exception as error:  # noqa: BLE001 - raised below
            raised = error
        finally:
            tasks.cancel_scope.cancel()
    if raised is not None:
        raise raised


async def repeat(*works: Callable[[], Awaitable[object]], period: float, told: str) -> None:
    """Do works now, and then every `period` seconds.

    A failure of the database is logged, and the next work begins.
    """
    while True:
        for work in works:
            try:
                await work()
            except JournalError as error:
                LOGGER.warning("%s: %s", told, error)
        await anyio.sleep(period)
