"""Deletes responses whose time has ended."""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from podium.errors import JournalError
from podium_server.api.responses.store import ResponseStore

LOGGER = logging.getLogger("podium")
_PERIOD_SECONDS = 15.0


@asynccontextmanager
async def forgetting(store: ResponseStore, period: float = _PERIOD_SECONDS) -> AsyncGenerator[None, None]:
    """Delete responses whose time has ended, every `period` seconds, until the block ends."""

    async def forget() -> None:
        while True:
            try:
                await store.forget_expired()
            except JournalError as error:
                LOGGER.warning("the housekeeping of responses failed: %s", error)
            await anyio.sleep(period)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(forget)
        try:
            yield
        finally:
            tasks.cancel_scope.cancel()
