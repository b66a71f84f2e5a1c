"""The slots of a run, in which its calls are made."""

from collections.abc import AsyncIterator, Hashable, Iterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from heapq import heapify, heappop, heappush
from itertools import count
from typing import NamedTuple

import anyio


class _Waiter(NamedTuple):
    """A step that waits; the first one has the lowest order, and then the lowest number."""

    order: tuple[int, ...]
    number: int
    event: anyio.Event


class Slots:
    """The slots of a run: the steps of earlier items go first, and no worker has more than it can run."""

    def __init__(self, size: int, most: Sequence[int | None]) -> None:
        self._free = size
        self._of_workers = list(most)
        """For each worker: the number of its free slots; `None` for no limit."""
        self._numbers = count()
        self._waiting: list[list[_Waiter]] = [[] for _ in most]
        """For each worker: the steps that wait to call it, as a heap."""
        self._begun: dict[Hashable, anyio.Event] = {}
        """For workers and prefixes of prompts: set when the first call with this prefix begins to answer."""

    @asynccontextmanager
    async def slot(
        self, worker: int, order: tuple[int, ...], prefix: Hashable = None
    ) -> AsyncIterator[anyio.Event | None]:
        """Wait for a slot to call a worker, and hold it in the block; `order` has the positions of items.

        With a prefix, wait first until another call with it is answered. The block sets the event when its
        own call is answered.
        """
        async with nullcontext() if prefix is None else self._after_first((worker, prefix)) as begun:
            await self._wait(worker, order)
            try:
                yield begun
            finally:
                self._leave(worker)

    @asynccontextmanager
    async def _after_first(self, key: Hashable) -> AsyncIterator[anyio.Event]:
        """Let the first call go alone until it is answered; if it ends without an answer, the next one."""
        while (begun := self._begun.get(key)) is not None and not begun.is_set():
            await begun.wait()
        if begun is not None:
            yield begun
            return
        begun = self._begun[key] = anyio.Event()
        try:
            yield begun
        finally:
            if not begun.is_set():
                del self._begun[key]
                begun.set()

    async def _wait(self, worker: int, order: tuple[int, ...]) -> None:
        waiting = self._waiting[worker]
        waiter = _Waiter(order, next(self._numbers), anyio.Event())
        heappush(waiting, waiter)
        self._admit()
        try:
            if not waiter.event.is_set():
                await waiter.event.wait()
        except anyio.get_cancelled_exc_class():
            if waiter.event.is_set():
                self._leave(worker)
            else:
                waiting.remove(waiter)
                heapify(waiting)
            raise

    def _leave(self, worker: int) -> None:
        self._free += 1
        if (free := self._of_workers[worker]) is not None:
            self._of_workers[worker] = free + 1
        self._admit()

    def _admit(self) -> None:
        """Give the free slots to the first steps whose workers have free slots."""
        while self._free and (first := min(self._able(), default=None)) is not None:
            worker = first[1]
            heappop(self._waiting[worker]).event.set()
            self._free -= 1
            if (free := self._of_workers[worker]) is not None:
                self._of_workers[worker] = free - 1

    def _able(self) -> Iterator[tuple[_Waiter, int]]:
        """Yield the first step that waits for each worker with a free slot, and the worker."""
        for worker, waiting in enumerate(self._waiting):
            if waiting and self._of_workers[worker] != 0:
                yield waiting[0], worker
