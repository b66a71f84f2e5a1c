"""Counts the requests that run at the same time."""

from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from podium.errors import PodiumError


class ServerBusy(PodiumError):
    """The server has too many requests at this time."""

    code = "server_busy"


class InFlight:
    """The requests that run at the same time.

    Args:
        most: maximum number of requests.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._idle = anyio.Event()
        self._idle.set()
        self.count = 0
        """The number of running requests."""

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count a request in the block.

        Raises:
            ServerBusy: too many requests are running.
        """
        if self.count >= self._most:
            raise ServerBusy(f"the server is busy: {self._most} requests are running")
        if not self.count:
            self._idle = anyio.Event()
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1
            if not self.count:
                self._idle.set()

    async def ended(self, seconds: float) -> None:
        """Wait until no request is running, for at most some seconds."""
        with anyio.move_on_after(seconds):
            await self._idle.wait()
