"""The runs of open requests in this process, which can be ended from outside."""

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import anyio

from podium.errors import PodiumError
from podium_server.errors import RunCancelled
from podium_server.http import ServerStopping

Item = TypeVar("Item")


class Interrupt:
    """Ends a run from outside, with an exception."""

    def __init__(self) -> None:
        self._error: PodiumError | None = None
        self._scope = anyio.CancelScope()

    def set(self, error: PodiumError) -> None:
        """End the run with this exception; a second call does nothing."""
        self._error = self._error or error
        self._scope.cancel()

    async def guarded(self, items: AsyncIterator[Item]) -> AsyncGenerator[Item, None]:
        """Yield the items until the run is ended from outside.

        Raises:
            PodiumError: the exception of `set`.
        """
        while True:
            item = None
            with self._scope:
                try:
                    item = await anext(items)
                except StopAsyncIteration:
                    return
            if self._error is not None:
                raise self._error
            assert item is not None
            yield item
            self._scope = anyio.CancelScope()  # a scope is entered once, and never held across a `yield`


@dataclass(frozen=True, slots=True, eq=False)
class OpenRun:
    """The run of an open request."""

    run_id: str
    interrupt: Interrupt
    is_recorded: bool
    is_named: bool
    """Whether the request has an idempotency key, so that a repetition continues the run."""

    def stopping(self) -> ServerStopping:
        """Return the exception for the end of the server."""
        told = f"the server is stopping, and run {self.run_id} was interrupted"
        if self.is_named:
            how = "repeat the request with the same Idempotency-Key to continue it"
        elif self.is_recorded:
            how = f"continue it with POST /v1/runs/{self.run_id}/resume"
        else:
            how = "it was not recorded, and a new request pays for it again"
        return ServerStopping(f"{told}: {how}", repeats=self.is_named, run_id=self.run_id)


class Running:
    """The runs of open requests."""

    def __init__(self) -> None:
        self._runs: set[OpenRun] = set()

    def __len__(self) -> int:
        return len(self._runs)

    @contextmanager
    def holding(self, run: OpenRun) -> Iterator[None]:
        """Know the run in the block."""
        self._runs.add(run)
        try:
            yield
        finally:
            self._runs.discard(run)

    def cancel(self, run_ids: Collection[str]) -> bool:
        """Cancel runs; return whether there was one."""
        found = [run for run in self._runs if run.run_id in run_ids]
        for run in found:
            run.interrupt.set(RunCancelled(run.run_id))
        return bool(found)

    def stop(self) -> None:
        """End all runs, because the server stops."""
        for run in self._runs:
            run.interrupt.set(run.stopping())
