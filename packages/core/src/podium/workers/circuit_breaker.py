"""The circuit breaker of one worker, over all runs of one event loop.

A worker that failed too often in a row gets no calls for a while. Then one call tries
whether the worker is back, and the other calls wait for its end. Times are passed in, in
seconds on the event loop's clock.
"""

from math import inf

import anyio


class CircuitBreaker:
    """Counts failures in a row, and says whether the worker may be called."""

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
            after: failures in a row that open the breaker; `None` never opens it.
            seconds: how long the breaker stays open after the latest failure.
        """
        if after is None or self.failures < after:
            return 0.0
        if self._probed is not None:
            return inf
        return max(0.0, self._last + seconds - now)

    def called(self, after: int | None) -> bool:
        """Note that the worker is called; return whether this call tries if the worker is back."""
        if after is None or self.failures < after or self._probed is not None:
            return False
        self._probed = anyio.Event()
        return True

    async def tried(self) -> None:
        """Wait until the call that tries the worker has ended, if there is one."""
        if self._probed is not None:
            await self._probed.wait()

    def ended(self, now: float, *, well: bool | None, tried: bool) -> None:
        """Note how a call ended.

        Args:
            now: the time.
            well: whether it succeeded; `None` if its end says nothing about the worker, as with a cancel.
            tried: what `called` returned.
        """
        if well is not None:
            self.failures = 0 if well else self.failures + 1
            self._last = now
        if tried and self._probed is not None:
            self._probed.set()
            self._probed = None
