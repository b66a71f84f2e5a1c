"""An event loop on which waiting takes no time: when nothing is ready, its clock jumps to the next timer.

For tests of latencies and limits. Threads and sockets take real time and cannot be used on it.
"""

import asyncio
import gc
import selectors
import sys
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
import pytest
from anyio.lowlevel import checkpoint

T = TypeVar("T")
STALLED_S = 10.0
"""Real seconds without a timer and without an event after which the loop counts as hung."""


class _JumpingSelector(selectors.SelectSelector):
    """A selector that moves its loop's clock forward instead of waiting."""

    def __init__(self, loop: "VirtualClock") -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            ready = super().select(STALLED_S)
            if not ready:
                raise RuntimeError("nothing is scheduled: the loop would wait forever")
            return ready
        ready = super().select(0)
        if not ready:
            self._loop.clock += max(0.0, timeout)
        return ready


class VirtualClock(asyncio.SelectorEventLoop):
    """The event loop; `clock` is its time in seconds."""

    def __init__(self) -> None:
        self.clock = 0.0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        return self.clock


OPTIONS: dict[str, Any] = {"loop_factory": VirtualClock}
"""For `anyio.run(…, backend_options=OPTIONS)`."""

BACKEND = ("asyncio", OPTIONS)
"""The return value of an `anyio_backend` fixture that runs a module's tests on the virtual clock."""


@pytest.fixture
def anyio_backend() -> object:
    """Run the tests of a module that imports this name on the virtual clock."""
    return BACKEND


def on_virtual_clock(main: Callable[[], Awaitable[T]]) -> T:
    """Run `main` and see that it leaves no task and no open generator."""
    unclosed: list[Any] = []

    async def watched() -> T:
        first, _ = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(first, unclosed.append)
        returned = await main()
        await checkpoint()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return returned

    returned = anyio.run(watched, backend_options=OPTIONS)
    gc.collect(0)
    assert not unclosed
    return returned
