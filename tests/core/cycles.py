"""What a run that has ended leaves to the garbage collector."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any


async def left_by(work: Callable[[], Coroutine[Any, Any, object]]) -> list[str]:
    """Return the types of Podium's objects that are in reference cycles, or held by one, after `work`."""
    await work()  # caches are filled
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        await asyncio.create_task(work())
        gc.collect()
        kinds = [(type(each).__name__, type(each).__module__.partition(".")[0]) for each in gc.garbage]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    return [name for name, package in kinds if package in ("podium", "langchain_podium")]
