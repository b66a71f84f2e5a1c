"""Counts the requests that run at the same time."""

from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from podium.errors import PodiumError
from podium_server.http.stopping import ServerStopping, Stopping


class ServerBusy(PodiumError):
    """The server has too many requests at this time."""

    code = "server_busy"


class InFlight:
    """The requests that run at the same time.

    Args:
        most: maximum number of requests.
        stopping: how far the stop of the server is.
    """

    def __init__(self, most: int, stopping: Stopping) -> None:
        self._most = most
        self._stopping = stopping
        self._scopes: set[anyio.CancelScope] = set()

    @property
    def count(self) -> int:
        """The number of running requests."""
        return len(self._scopes)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count a request in the block.

        Raises:
            ServerBusy: too many requests are running.
            ServerStopping: the server is stopping, or has cut the request.
        """
        self._stopping.refuse()
        if self.count >= self._most:
            raise ServerBusy(f"the server is busy: {self._most} requests are running")
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                yield
            finally:
                self._scopes.discard(scope)
        if scope.cancelled_caught:
            told = "the server has stopped before the request ended, which may have taken effect"
            raise ServerStopping(told, repeats=False)

    def cut(self) -> None:
        """Cancel the requests that are still running."""
        for scope in self._scopes:
            scope.cancel()
