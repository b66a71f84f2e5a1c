"""Allow only one step at a time to use an object with memory."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final
from weakref import WeakKeyDictionary

import anyio

from podium.aio.loops import LoopLocal

_POLL: Final = 0.01
"""Seconds between two checks of an object that another event loop uses."""


class _Lock:
    """A lock on one object, for steps in any event loop; fair among the steps of one loop."""

    def __init__(self) -> None:
        self._loops = LoopLocal(asyncio.Lock)
        self._one = threading.Lock()

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[None]:
        async with self._loops.get():
            while not self._one.acquire(blocking=False):  # noqa: ASYNC110 - another event loop cannot set our event
                await anyio.sleep(_POLL)
            try:
                yield
            finally:
                self._one.release()


_locks: WeakKeyDictionary[object, _Lock] = WeakKeyDictionary()


def exclusive(thing: object) -> Any:
    """Return a context manager that only one step at a time can enter, across all pools of the object."""
    return _locks.setdefault(thing, _Lock())()
