"""Values and resources that belong to one event loop."""

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from weakref import ref

import anyio
import pytest

from podium.aio.loops import PerLoop


class Line:
    """What is opened; it refers to its loop, as a connection does."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.is_open = True


class Lines(PerLoop[Line]):
    """Opens lines, as slowly and as badly as it is told, and remembers them."""

    def __init__(self, *, open_seconds: float = 0.0, close_seconds: float = 0.0) -> None:
        super().__init__()
        self.open_seconds = open_seconds
        self.close_seconds = close_seconds
        self.failures: list[Exception] = []
        self.lines: list[Line] = []

    async def _open(self) -> Line:
        await anyio.sleep(self.open_seconds)
        if self.failures:
            raise self.failures.pop()
        self.lines.append(Line())
        return self.lines[-1]

    async def _close(self, part: Line) -> None:
        try:
            await anyio.sleep(self.close_seconds)
        finally:
            part.is_open = False

    @property
    def is_open(self) -> list[bool]:
        """Whether each line is open, in the order they were opened."""
        return [line.is_open for line in self.lines]


def test_each_loop_has_its_own() -> None:
    """Threads with loops of their own share nothing, and close their own."""
    lines, together = Lines(), threading.Barrier(6)

    async def use() -> Line:
        async with lines.opened() as line:
            await asyncio.to_thread(together.wait, 10)
            assert lines.is_open.count(True) == 6
            assert line.loop is asyncio.get_running_loop()
            await asyncio.to_thread(together.wait, 10)
            return line

    with ThreadPoolExecutor(6) as threads:
        given = set(threads.map(lambda _: asyncio.run(use()), range(6)))
    assert len(given) == 6
    assert lines.is_open == [False] * 6


@pytest.mark.anyio
@pytest.mark.parametrize(("turns", "how"), [(0, "scope"), (1, "task"), (3, "scope"), (5, "task")])
async def test_a_cancel_at_any_moment_leaves_nothing_open(turns: int, how: str) -> None:
    """While it is opened, used or closed; those who share it are not disturbed."""
    lines = Lines(open_seconds=0.01, close_seconds=0.01)
    used = 0

    async def use() -> None:
        nonlocal used
        async with lines.opened() as line:
            await anyio.sleep(0.01)
            assert line.is_open
            used += 1

    async with anyio.create_task_group() as others:
        others.start_soon(use)
        if how == "scope":
            with anyio.move_on_after(0.005 * turns):
                await use()
        else:
            task = asyncio.create_task(use())
            await anyio.sleep(0.005 * turns)
            task.cancel()
            await asyncio.wait([task])
        others.start_soon(use)
    assert used >= 2
    assert True not in lines.is_open


def test_a_loop_that_died_without_closing_is_not_kept() -> None:
    """Neither the loop nor what was open in it outlives the next loop's entry."""
    lines = Lines()

    async def enter_only() -> None:
        await lines.__aenter__()

    async def use() -> None:
        async with lines:
            pass

    asyncio.run(enter_only())
    line = lines.lines.pop()
    loop, opened = ref(line.loop), ref(line)
    del line
    asyncio.run(use())
    gc.collect()
    assert (loop(), opened()) == (None, None)
