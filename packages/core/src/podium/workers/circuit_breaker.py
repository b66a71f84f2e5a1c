"""The circuit breaker of one worker, for all runs of one event loop.

If a worker fails too often in a row, it is not called for some time. Then one test call is made, and all
other calls wait until the test call has ended. Times are in seconds on the event loop's clock.
"""

from math import inf

import anyio

from podium.errors import PodiumError, WorkerUnavailable


class CircuitBreaker:
    """Counts consecutive failures, and decides whether the worker may be called."""

    __slots__ = ("_last", "_probed", "failures", "is_down")

    def __init__(self) -> None:
        self.failures = 0
        """Number of consecutive failures up to the latest call."""
        self.is_down = False
        """Whether no connection could be made for the latest call; see `WorkerUnavailable.is_down`."""
        self._last = -inf
        self._probed: anyio.Event | None = None

    def rest(self, now: float, after: int | None, seconds: float) -> float:
        """Return the seconds until the worker may be called; infinite during a test call.

        Args:
            now: the current time.
            after: number of consecutive failures that open the breaker; `None` never opens it.
            seconds: how long the breaker stays open after the latest failure.
        """
        if after is None or self.failures < after:
            return 0.0
        if self._probed is not None:
            return inf
        return max(0.0, self._last + seconds - now)

    def called(self, after: int | None) -> bool:
        """Record the start of a call; return whether it is the test call."""
        if after is None or self.failures < after or self._probed is not None:
            return False
        self._probed = anyio.Event()
        return True

    async def tried(self) -> None:
        """Wait for the end of the test call, if there is one."""
        if self._probed is not None:
            await self._probed.wait()

    def ended(self, now: float, *, well: bool | None, tried: bool, error: PodiumError | None = None) -> None:
        """Record the end of a call.

        Args:
            now: the current time.
            well: whether the call succeeded; `None` if the end of the call says nothing about the worker, as
                after a cancellation.
            tried: the return value of `called`.
            error: the error of the call; `None` if it is not known, or if there is none.
        """
        is_local = isinstance(error, WorkerUnavailable) and error.is_local
        if well is not None and not is_local:
            self.is_down = isinstance(error, WorkerUnavailable) and error.is_down
            self.failures = 0 if well else self.failures + 1
            self._last = now
        if tried and self._probed is not None:
            self._probed.set()
            self._probed = None
