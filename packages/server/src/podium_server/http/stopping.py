"""The orderly stop of a server: requests may end for some time, and the others are then ended."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from podium.errors import PodiumError


class ServerStopping(PodiumError):
    """The server stops, so that it cannot answer the request.

    Args:
        message: the message.
        repeats: whether the client should repeat the request: nothing was paid, or the same request continues
            the recorded run.
        run_id: the run that was stopped; `None` if there is none.
    """

    code = "server_stopping"

    def __init__(self, message: str, *, repeats: bool = True, run_id: str | None = None) -> None:
        super().__init__(message)
        self.repeats = repeats
        self.run_id = run_id
        self.knows_actions = run_id is None
        """Whether `actions` has the actions of the run."""


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
