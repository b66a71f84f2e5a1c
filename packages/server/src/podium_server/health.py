"""`GET /healthz` and `GET /readyz`, which need no API key, and `GET /metrics`."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import nan
from time import monotonic

import anyio

from podium.errors import JournalError
from podium.journal import SqlJournal
from podium.secrets import scrub
from podium_server.http import Exchange, ServerStopping, Stopping
from podium_server.jobs.table import JobTable
from podium_server.keys import Access, Caller
from podium_server.record import CONTENT_TYPE, Metrics

LOGGER = logging.getLogger("podium")
KNOWN_SECONDS = 1.0
"""How long an answer of `/readyz` is valid for further requests."""
_PATIENCE = 0.5
"""How long a check retries while its database fails, in seconds."""
_CHECK_SECONDS = 2.0
"""Timeout of a check."""

Check = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Fault:
    """Why the server cannot answer requests. The details, which may name hosts, are in the log."""

    code: str
    reason: str


class Health:
    """Whether the process lives, and whether it should get requests."""

    def __init__(self, journal: SqlJournal | None, access: Access, stopping: Stopping) -> None:
        self._stopping = stopping
        self._checks: dict[str, Check] = {} if journal is None else {"the journal": journal.check}
        self._checks["the database of the API keys"] = access.check
        self._lock = anyio.Lock()
        self._fault: Fault | None = None
        self._until = 0.0
        """When the databases are checked again, on the monotonic clock."""

    async def live(self, exchange: Exchange, _: Caller) -> None:
        """Answer that the process lives."""
        await exchange.json({"status": "ok"})

    async def ready(self, exchange: Exchange, _: Caller) -> None:
        """Answer with 200 if requests can be answered, or 503 and the reason."""
        fault = await self._current()
        if fault is None:
            await exchange.json({"status": "ok"})
            return
        told = {"code": fault.code, "reason": fault.reason}
        await exchange.json({"status": "unavailable", **told}, status=503)

    async def _current(self) -> Fault | None:
        if self._stopping.is_draining:
            return Fault(ServerStopping.code, "the server is stopping")
        async with self._lock:
            if monotonic() >= self._until:
                await self._look()
        return self._fault

    async def _look(self) -> None:
        fault = None
        for name, check in self._checks.items():
            fault = fault or await _fault_of(name, check)
        self._fault, self._until = fault, monotonic() + KNOWN_SECONDS


async def _fault_of(name: str, check: Check) -> Fault | None:
    """Return why a check fails; `None` if it succeeds."""
    try:
        with anyio.fail_after(_CHECK_SECONDS):
            await check(_PATIENCE)
    except JournalError as error:
        LOGGER.warning("the server is not ready: %s", scrub(str(error)))
        return Fault(error.code, f"{name} cannot be used")
    except TimeoutError:
        told = f"{name} did not answer within {_CHECK_SECONDS:g} s"
        LOGGER.warning("the server is not ready: %s", told)
        return Fault(JournalError.code, told)
    return None


_QUEUE_SECONDS = 2.0
"""How long the database may take to count the queue."""
_MOST_QUEUED = 100_000
"""Maximum number of waiting runs that are counted."""


class MetricsApi:
    """The metrics, for keys with the role `see`."""

    def __init__(self, metrics: Metrics, table: JobTable | None) -> None:
        self._metrics = metrics
        self._table = table

    async def show(self, exchange: Exchange, caller: Caller) -> None:
        """Show all metrics."""
        caller.check_role("see")
        queued = None if self._table is None else await _queued(self._table)
        await exchange.whole(self._metrics.text(queued), CONTENT_TYPE)


async def _queued(table: JobTable) -> float:
    """Return the number of runs in the queue; not a number if the database does not answer."""
    with anyio.move_on_after(_QUEUE_SECONDS):
        try:
            return await table.queued(_MOST_QUEUED)
        except JournalError:  # `GET /readyz` tells it
            pass
    return nan
