"""Functions that run beside a block."""

from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import anyio


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
