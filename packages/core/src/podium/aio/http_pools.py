"""Separates the connections of foreign HTTP clients by event loop.

The clients of chat models (OpenAI's, Anthropic's, Ollama's) use httpx or httpx2, whose
connections are in a pool of httpcore or httpcore2. A connection works only in one event loop, but the pool
does not know event loops. So a request may use a connection of another loop, and then fails after it was
sent. Podium cannot replace the clients one by one, because they are created late, inside chains, and are
shared by the whole process. docs/decisions/0008-connections-per-loop.md explains why Podium changes the pool
instead.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from copy import copy
from functools import wraps
from importlib import import_module
from threading import Lock
from typing import Any, Final
from weakref import WeakKeyDictionary

from podium.aio.per_loop import LoopLocal

_LIBRARIES: Final = ("httpcore", "httpcore2")
_changed: Final = set[type]()
_lock: Final = Lock()


def connections_per_loop() -> None:
    """Make the async connection pools of httpcore and httpcore2 separate connections by event loop.

    The function changes the class of the pools. This affects all existing and future pools of the process.
    The limits of a pool then apply to each loop. The connections of a loop are closed when the loop shuts
    down its async generators, as `asyncio.run` does at its end. Further calls have no effect.
    """
    with _lock:
        for name in _LIBRARIES:
            with suppress(ImportError):
                pool = import_module(name).AsyncConnectionPool
                if pool not in _changed:
                    _change(pool)
                    _changed.add(pool)


def _change(kind: type[Any]) -> None:
    handle, close = kind.handle_async_request, kind.aclose
    parts: WeakKeyDictionary[Any, LoopLocal[_Part]] = WeakKeyDictionary()

    def parts_of(pool: Any) -> LoopLocal[_Part]:
        found = parts.get(pool)
        if found is None:
            model = _emptied(pool)  # a reference to the pool would keep the pool alive
            found = parts.setdefault(pool, LoopLocal(lambda: _Part(_emptied(model))))
        return found

    @wraps(handle)
    async def handle_async_request(self: Any, request: Any) -> Any:
        if not _in_asyncio():
            return await handle(self, request)
        part = parts_of(self).get()
        if part.keeper is None:
            part.keeper = _closed_with_loop(part.pool, close)
            await anext(part.keeper)
        return await handle(part.pool, request)

    @wraps(close)
    async def aclose(self: Any) -> None:
        await close(self)
        if _in_asyncio() and self in parts:
            await close(parts_of(self).get().pool)

    kind.handle_async_request, kind.aclose = handle_async_request, aclose


class _Part:
    """The connections of a pool in one event loop."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool
        self.keeper: AsyncGenerator[None, None] | None = None


def _emptied(pool: Any) -> Any:
    """Return a pool with the same settings, and no connections or requests."""
    new = copy(pool)
    new._connections, new._requests = [], []  # noqa: SLF001 - there is no public way to copy a pool
    new._optional_thread_lock = type(pool._optional_thread_lock)()  # noqa: SLF001 - as above
    return new


async def _closed_with_loop(pool: Any, close: Any) -> AsyncGenerator[None, None]:
    """Close a pool at the shutdown of the event loop, which closes all started async generators."""
    try:
        yield
    finally:
        await close(pool)


def _in_asyncio() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:  # trio
        return False
    return True
