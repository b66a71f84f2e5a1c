"""What MCP and A2A share: their modules are imported at the first request, and their SDKs answer requests."""

import json
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.util import find_spec
from typing import Any, Protocol

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup, TaskStatus

from podium.errors import install_hint
from podium_server.api.endpoint import Handler
from podium_server.http import BadRequest, Exchange
from podium_server.keys import Caller


class _Part(Protocol):
    def opened(self) -> AbstractAsyncContextManager[None]:
        """Keep the part open in the block."""


class OnDemand:
    """A part of the server that is made at its first request, because its imports take time and memory."""

    def __init__(self, make: Callable[[], _Part], extra: str) -> None:
        self._make = make
        self._extra = extra
        self._lock = anyio.Lock()
        self._tasks: TaskGroup | None = None
        self._ending = anyio.Event()
        self._part: _Part | None = None

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None, None]:
        """Allow requests in the block; close the part at its end."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                yield
            finally:
                self._ending.set()

    def handler(self, name: str, summary: str) -> Handler:
        """Return the handler that calls a method of the part, with a summary for the OpenAPI document."""

        async def handle(exchange: Exchange, caller: Caller) -> None:
            await getattr(await self._get(), name)(exchange, caller)

        handle.__doc__ = summary
        return handle

    async def _get(self) -> _Part:
        assert self._tasks is not None
        async with self._lock:
            if self._part is None:
                if find_spec(self._extra) is None:
                    told = f"this server has no support for {self._extra.upper()}"
                    hint = install_hint(f"podium-server[{self._extra}]")
                    raise BadRequest(f"{told}: {hint}", status=404, code=f"{self._extra}_not_installed")
                self._part = await self._tasks.start(self._hold)
        return self._part

    async def _hold(self, *, task_status: TaskStatus[_Part]) -> None:
        part = await anyio.to_thread.run_sync(self._make)
        async with part.opened():
            task_status.started(part)
            await self._ending.wait()


def tame_sdks() -> None:
    """Let running streams end by themselves when the server stops, and keep requests out of the log.

    The warnings of the SDKs quote invalid requests. A level that the application has set stays.
    """
    from sse_starlette.sse import AppStatus  # noqa: PLC0415 - a package of the SDKs

    AppStatus.disable_automatic_graceful_drain()  # type: ignore[no-untyped-call]
    for name in ("mcp", "a2a"):
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.ERROR)


def read_message(raw: bytes) -> Mapping[str, Any]:
    """Return the JSON-RPC message of a request; empty if it is not one message, which the SDK refuses."""
    try:
        message = json.loads(raw)
    except ValueError:
        return {}
    except RecursionError as error:
        raise BadRequest("the body is nested too deeply") from error
    return message if isinstance(message, dict) else {}


def part_of(message: Mapping[str, Any], *path: str) -> Any:
    """Return the value at a path of keys; `None` if there is none."""
    value: Any = message
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
