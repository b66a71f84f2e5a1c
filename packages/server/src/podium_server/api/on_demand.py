"""Parts of the server that are opened at their first request, because their imports take time and memory."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.util import find_spec
from typing import Generic, TypeVar

import anyio
from anyio.abc import TaskGroup, TaskStatus

from podium.errors import install_hint
from podium_server.http import BadRequest

Part = TypeVar("Part")


class OnDemand(Generic[Part]):
    """A part that is opened when it is first needed, and stays open until the server stops.

    Args:
        make: returns a context manager that keeps the part open in its block.
        extra: the extra of this package that the part needs, which has the name of its module.
    """

    def __init__(self, make: Callable[[], AbstractAsyncContextManager[Part]], extra: str) -> None:
        self._make = make
        self._extra = extra
        self._lock = anyio.Lock()
        self._tasks: TaskGroup | None = None
        self._ending = anyio.Event()
        self._part: Part | None = None

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None, None]:
        """Allow `get` in the block; close the part at its end."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                yield
            finally:
                self._ending.set()

    async def get(self) -> Part:
        """Return the part.

        Raises:
            BadRequest: the extra is not installed.
        """
        assert self._tasks is not None
        async with self._lock:
            if self._part is None:
                if find_spec(self._extra) is None:
                    told = f"this server has no support for {self._extra.upper()}"
                    hint = install_hint(f"server[{self._extra}]")
                    raise BadRequest(f"{told}: {hint}", status=404, code=f"{self._extra}_not_installed")
                self._part = await self._tasks.start(self._hold)
        return self._part

    async def _hold(self, *, task_status: TaskStatus[Part]) -> None:
        async with self._make() as part:
            task_status.started(part)
            await self._ending.wait()
