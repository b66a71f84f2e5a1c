"""Pause a run: calls of workers wait for `resume`, and until a watcher allows them."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

import anyio
from autogen_agentchat.base import Response

from autogen_podium.workers.agent import Inner
from podium.types import Completion, Event
from podium.workers import CallMiddleware, Request, Worker


class RunWatcher(Protocol):
    """Watches a run, and may delay its next calls."""

    def tell(self, message: Inner | Response) -> None:
        """Handle a message, before the reader of the stream gets it."""

    def hear(self, event: Event) -> None:
        """Handle an event of the run, or of a nested run."""

    async def ready(self) -> None:
        """Return when the next worker may be called."""


class Pause:
    """Delays calls of workers during a pause."""

    def __init__(self) -> None:
        self._resumed: anyio.Event | None = None

    def begin(self) -> None:
        """Begin the pause."""
        self._resumed = self._resumed or anyio.Event()

    def end(self) -> None:
        """End the pause."""
        if self._resumed is not None:
            self._resumed.set()
            self._resumed = None

    def middleware(self, call: CallMiddleware, watcher: RunWatcher | None) -> CallMiddleware:
        """Return a middleware that calls a worker when there is no pause and the watcher allows it."""

        async def wait_and_call(worker: Worker, request: Request) -> AsyncGenerator[str | Completion, None]:
            while self._resumed is not None:
                await self._resumed.wait()
            if watcher is not None:
                await watcher.ready()
            async with aclosing(call(worker, request)) as pieces:
                async for piece in pieces:
                    yield piece

        return wait_and_call
