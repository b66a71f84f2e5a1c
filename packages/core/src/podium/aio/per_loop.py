"""What is opened once in each event loop, however many times it is entered there."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Generic, Self, TypeVar

import anyio

from podium.aio.shielded import shielded

Part = TypeVar("Part")


@dataclass(slots=True)
class _Opened(Generic[Part]):
    """What is open in one event loop, and how many times it was asked for."""

    users: int = 0
    opening: anyio.Lock = field(default_factory=anyio.Lock)
    part: Part | None = None


class PerLoop(ABC, Generic[Part]):
    """An async context manager that may be entered any number of times, in any number of loops and threads.

    What it holds is shared within a loop, and closed at the last exit.
    """

    def __init__(self) -> None:
        self._opened: dict[asyncio.AbstractEventLoop, _Opened[Part]] = {}

    @abstractmethod
    async def _open(self) -> Part:
        """Open what it holds."""

    @abstractmethod
    async def _close(self, part: Part) -> None:
        """Close it; cancelled, let go of it at once."""

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
        """Hold it open, and give what it holds in this event loop."""
        part = await self._enter()
        try:
            yield part
        finally:
            await self._leave()

    async def _enter(self) -> Part:
        opened = self._opened.setdefault(asyncio.get_running_loop(), _Opened())
        opened.users += 1
        if opened.part is None:
            try:
                async with opened.opening:
                    if opened.part is None:
                        opened.part = await self._open()
            except BaseException:
                await self._leave()
                raise
        return opened.part

    async def _leave(self) -> None:
        loop = asyncio.get_running_loop()
        opened = self._opened[loop]
        opened.users -= 1
        if not opened.users:
            del self._opened[loop]
            if opened.part is not None:
                await shielded(self._close(opened.part))
