"""The slots of a run, in which its calls are made."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from heapq import heapify, heappop, heappush
from itertools import count

import anyio


class Slots:
    """The slots of a run: the steps of earlier items go first, and no worker has more than it can run."""

    def __init__(self, size: int, most: Sequence[int | None]) -> None:
        self._free = size
        self._of_workers = list(most)
        """For each worker: the number of its free slots; `None` for no limit."""
        self._numbers = count()
        self._waiting: list[tuple[tuple[int, ...], int, int, anyio.Event]] = []

    @asynccontextmanager
    async def slot(self, worker: int, order: tuple[int, ...]) -> AsyncIterator[None]:
        """Wait for a slot to call a worker, and hold it in the block; `order` has the positions of items."""
        if self._waiting or not self._free or self._of_workers[worker] == 0:
            await self._wait(worker, order)
        else:
            self._enter(worker)
        try:
            yield
        finally:
            self._leave(worker)

    async def _wait(self, worker: int, order: tuple[int, ...]) -> None:
        event = anyio.Event()
        entry = order, next(self._numbers), worker, event
        heappush(self._waiting, entry)
        self._admit()
        try:
            await event.wait()
        except anyio.get_cancelled_exc_class():
            if event.is_set():
                self._leave(worker)
            else:
                self._waiting.remove(entry)
                heapify(self._waiting)
            raise

    def _enter(self, worker: int) -> None:
        self._free -= 1
        if (free := self._of_workers[worker]) is not None:
            self._of_workers[worker] = free - 1

    def _leave(self, worker: int) -> None:
        self._free += 1
        if (free := self._of_workers[worker]) is not None:
            self._of_workers[worker] = free + 1
        self._admit()

    def _admit(self) -> None:
        """Give the free slots to the first steps whose workers have free slots."""
        passed = []
        while self._free and self._waiting:
            first = heappop(self._waiting)
            if self._of_workers[first[2]] == 0:
                passed.append(first)
                continue
            self._enter(first[2])
            first[3].set()
        for each in passed:
            heappush(self._waiting, each)
