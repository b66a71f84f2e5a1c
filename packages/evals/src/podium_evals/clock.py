"""An event loop on which waiting takes no time: with nothing to do, its clock jumps to the next timer.

It serves tests of latencies and limits, and measures of them. Threads and sockets take real
time, so they have no place on it.
"""

import asyncio
import selectors

STALLED_S = 10.0
"""Real seconds with no timer and no event after which the loop is taken to hang."""


class _Jumping(selectors.SelectSelector):
    """A selector that moves its loop's clock where another would wait."""

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
        super().__init__(_Jumping(self))

    def time(self) -> float:
        """Return the clock, in seconds."""
        return self.clock
