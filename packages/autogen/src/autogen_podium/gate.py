"""What calls of workers wait for besides the steps they see: somebody's pause, somebody's judgement.

It knows no agent and no team.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

import anyio
from autogen_agentchat.base import Response

from autogen_podium.workers.agent import Inner
from podium.types import Completion
from podium.workers import CallMiddleware, Request, Worker


class Watch(Protocol):
    """Follows a run, and may hold its next calls back."""

    def tell(self, message: Inner | Response) -> None:
        """Take a message, before anybody else does."""

    async def ready(self) -> None:
        """Return when a worker may be called."""


class Gate:
    """Holds calls of workers back while it is closed."""

    def __init__(self) -> None:
        self._opened: anyio.Event | None = None

    def close(self) -> None:
        """Hold back what comes."""
        self._opened = self._opened or anyio.Event()

    def open(self) -> None:
        """Let all go on."""
        if self._opened is not None:
            self._opened.set()
            self._opened = None

    def middleware(self, call: CallMiddleware, watch: Watch | None) -> CallMiddleware:
        """Return what calls a worker when the gate is open, and who watches is ready."""

        async def gated(worker: Worker, request: Request) -> AsyncGenerator[str | Completion, None]:
            while self._opened is not None:
                await self._opened.wait()
            if watch is not None:
                await watch.ready()
            async with aclosing(call(worker, request)) as pieces:
                async for piece in pieces:
                    yield piece

        return gated
