"""Pauses a run: calls of workers wait for `resume`, and for a watcher's consent."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

import anyio
from autogen_agentchat.base import Response

from autogen_podium.workers.agent import Inner
from podium.types import Completion, Event
from podium.workers import CallMiddleware, Request, Worker


class RunWatcher(Protocol):
    """Follows a run, and may delay its next calls."""

    def tell(self, message: Inner | Response) -> None:
        """Take a message, before the reader of the stream does."""

    def hear(self, event: Event) -> None:
        """Take an event of the run, or of a nested run."""

    async def ready(self) -> None:
        """Return when a worker may be called."""


class Pause:
    """Delays calls of workers while it is on."""

    def __init__(self) -> None:
        self._resumed: anyio.Event | None = None

    def begin(self) -> None:
        """Delay calls from now on."""
        self._resumed = self._resumed or anyio.Event()

    def end(self) -> None:
        """Let all calls go on."""
        if self._resumed is not None:
            self._resumed.set()
            self._resumed = None

    def middleware(self, call: CallMiddleware, watcher: RunWatcher | None) -> CallMiddleware:
        """Return a middleware that calls a worker when there is no pause and the watcher is ready."""

        async def wait_and_call(worker: Worker, request: Request) -> AsyncGenerator[str | Completion, None]:
            while self._resumed is not None:
                await self._resumed.wait()
            if watcher is not None:
                await watcher.ready()
            async with aclosing(call(worker, request)) as pieces:
                async for piece in pieces:
                    yield piece

        return wait_and_call
