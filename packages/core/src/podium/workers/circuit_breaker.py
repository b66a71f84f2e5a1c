"""How the latest calls of one worker ended, over all runs of one event loop.

A worker that failed too often in a row is left out for a while; then one call tries
whether it is back, and the others wait for how that ends. It calls nobody, and knows no
clock: it is told the time, on the event loop's clock, in seconds.
"""

from math import inf

import anyio


class CircuitBreaker:
    """Whether a worker may be called."""

    __slots__ = ("_last", "_probed", "failures")

    def __init__(self) -> None:
        self.failures = 0
        """Calls that failed in a row, the latest among them."""
        self._last = -inf
        self._probed: anyio.Event | None = None

    def rest(self, now: float, after: int | None, seconds: float) -> float:
        """Return the seconds until the worker may be called; infinite while another call tries it.

        Args:
            now: the time.
            after: failures in a row after which it is left out; `None` leaves it in.
            seconds: for how long, from the latest failure.
        """
        if after is None or self.failures < after:
            return 0.0
        if self._probed is not None:
            return inf
        return max(0.0, self._last + seconds - now)

    def called(self, after: int | None) -> bool:
        """Tell that the worker is called, and return whether that call tries if it is back."""
        if after is None or self.failures < after or self._probed is not None:
            return False
        self._probed = anyio.Event()
        return True

    async def tried(self) -> None:
        """Wait until the call that tries the worker has ended, if there is one."""
        if self._probed is not None:
            await self._probed.wait()

    def ended(self, now: float, *, well: bool | None, tried: bool) -> None:
        """Tell how a call ended.

        Args:
            now: the time.
            well: `None` where its end says nothing of the worker, as that of a cancelled one.
            tried: what `called` returned.
        """
        if well is not None:
            self.failures = 0 if well else self.failures + 1
            self._last = now
        if tried and self._probed is not None:
            self._probed.set()
            self._probed = None
