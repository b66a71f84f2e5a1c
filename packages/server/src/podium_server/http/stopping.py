"""The orderly stop of a server: requests may end for some time, and the others are then ended."""

import anyio

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


class Stopping:
    """How far the stop of a server is."""

    def __init__(self) -> None:
        self.is_draining = False
        """Whether the server begins no more requests."""
        self._over = anyio.Event()

    def refuse(self) -> None:
        """Raise `ServerStopping` if the server begins no more requests."""
        if self.is_draining:
            raise ServerStopping("the server is stopping: repeat the request")

    def end(self) -> None:
        """End the time for running requests."""
        self._over.set()

    async def pause(self, seconds: float) -> None:
        """Wait for some seconds.

        Raises:
            ServerStopping: the time for running requests is over.
        """
        with anyio.move_on_after(seconds):
            await self._over.wait()
        if self._over.is_set():
            raise ServerStopping("the server is stopping: repeat the request")
