"""Counts the requests that run at the same time, and stops a server in order."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import anyio

from podium_server.errors import NO_RETRY, ServerError


class ServerStopping(ServerError):
    """The server stops, so that it cannot answer the request.

    Args:
        message: the message.
        repeats: whether the client should repeat the request: nothing was paid, or the same request continues
            the recorded run.
        run_id: the run that was stopped; `None` if there is none.
    """

    code = "server_stopping"
    status = 503

    def __init__(self, message: str, *, repeats: bool = True, run_id: str | None = None) -> None:
        super().__init__(message)
        self.repeats = repeats
        self.run_id = run_id
        self.knows_actions = run_id is None

    @property
    def headers(self) -> Mapping[str, str]:
        """Send the client to another server, if it should repeat the request."""
        retry = {"retry-after": "1", "x-should-retry": "true"} if self.repeats else NO_RETRY
        return {**retry, "connection": "close"}


class Stopping:
    """How far the stop of a server is."""

    def __init__(self) -> None:
        self.is_draining = False
        """Whether the server begins no more requests."""
        self._is_over = False
        self._waiting: dict[object, Callable[[], object]] = {}

    def refuse(self) -> None:
        """Raise `ServerStopping` if the server begins no more requests."""
        if self.is_draining:
            raise ServerStopping("the server is stopping: repeat the request")

    def end(self) -> None:
        """End the time for running requests."""
        self._is_over = True
        for wake in list(self._waiting.values()):
            wake()

    @contextmanager
    def waking(self, wake: Callable[[], object]) -> Iterator[None]:
        """Call `wake` when the time for running requests is over: at the end of this time, or at once."""
        if self._is_over:
            wake()
        waiting = object()
        self._waiting[waiting] = wake
        try:
            yield
        finally:
            del self._waiting[waiting]

    def check(self) -> None:
        """Raise `ServerStopping` if the time for running requests is over."""
        if self._is_over:
            raise ServerStopping("the server is stopping: repeat the request")


class ServerBusy(ServerError):
    """The server has too many requests at this time."""

    code = "server_busy"
    status = 503
    headers: Mapping[str, str] = {"retry-after": "1"}


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
