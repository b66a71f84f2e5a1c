"""Values, resources and connections that belong to one event loop."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from copy import copy
from dataclasses import dataclass, field
from functools import wraps
from importlib import import_module
from threading import Lock
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar
from weakref import WeakKeyDictionary

import anyio

from podium.aio.calls import shielded

Value = TypeVar("Value")
Part = TypeVar("Part")


class LoopLocal(Generic[Value]):
    """Holds a value for each event loop, made by `make`, like `threading.local` for each thread."""

    def __init__(self, make: Callable[[], Value]) -> None:
        self._make = make
        self._values: WeakKeyDictionary[asyncio.AbstractEventLoop, Value] = WeakKeyDictionary()

    def get(self) -> Value:
        """Return the value of the running event loop."""
        loop = asyncio.get_running_loop()
        try:
            return self._values[loop]
        except KeyError:
            self._drop_closed()
            value = self._values[loop] = self._make()
            return value

    def set(self, value: Value) -> None:
        """Replace the value of the running event loop."""
        self._values[asyncio.get_running_loop()] = value

    def drop(self) -> None:
        """Remove the value of the running event loop; the next `get` creates a new value."""
        self._values.pop(asyncio.get_running_loop(), None)

    def _drop_closed(self) -> None:
        # Weak keys are not enough: a value that refers to its loop keeps the entry alive.
        for reference in self._values.keyrefs():
            loop = reference()
            if loop is not None and loop.is_closed():
                self._values.pop(loop, None)


@dataclass(slots=True)
class _Opened(Generic[Part]):
    """The resource in one event loop, and the number of its users."""

    users: int = 0
    opening: anyio.Lock = field(default_factory=lambda: anyio.Lock(fast_acquire=True))
    part: Part | None = None


class PerLoop(ABC, Generic[Part]):
    """A resource that is opened once per event loop and shared by its users there.

    A `PerLoop` can be entered any number of times, in any number of loops and threads. The first entry in a
    loop opens the resource of this loop, and the last exit closes the resource. The last exit may be in
    another task than the first entry. So `_open` must leave no cancel scope and no task group open.
    """

    def __init__(self) -> None:
        self._opened: LoopLocal[_Opened[Part]] = LoopLocal(_Opened)

    @abstractmethod
    async def _open(self) -> Part:
        """Open the resource. If `_open` raises an exception, the next waiting user calls it again."""

    @abstractmethod
    async def _close(self, part: Part) -> None:
        """Close the resource. If the task is cancelled, `_close` has one second to finish."""

    async def __aenter__(self) -> Self:
        await self._enter()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._leave()

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Part, None]:
        """Enter, and yield the resource of this event loop."""
        part = await self._enter()
        try:
            yield part
        finally:
            await self._leave()

    async def _enter(self) -> Part:
        opened = self._opened.get()
        opened.users += 1
        if opened.part is None:
            try:
                async with opened.opening:
                    if opened.part is None:
                        opened.part = await self._open()
            except BaseException:  # a cancelled task must also leave
                await self._leave()
                raise
        return opened.part

    async def _leave(self) -> None:
        opened = self._opened.get()
        opened.users -= 1
        if not opened.users:
            self._opened.drop()
            if opened.part is not None:
                await shielded(self._close(opened.part))


class ResourceGroup:
    """An async context manager that enters and exits its parts.

    A group can be entered any number of times if each of its parts can. Each entry must be exited in the task
    that made it, so parts may hold task groups open.
    """

    def _parts(self) -> Sequence[AbstractAsyncContextManager[Any]]:
        """Return the parts in the order in which they are entered; always the same parts."""
        return ()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as entered:
            for part in self._parts():
                await entered.enter_async_context(part)
            entered.pop_all()  # `__aexit__` exits the parts; the stack exits them only if an entry fails
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        async with AsyncExitStack() as leaving:
            for part in self._parts():
                leaving.push_async_exit(part)


_LIBRARIES: Final = ("httpcore", "httpcore2")
_changed: Final = set[type]()
_lock: Final = Lock()


def connections_per_loop() -> None:
    """Make the async connection pools of httpcore and httpcore2 separate connections by event loop."""
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
