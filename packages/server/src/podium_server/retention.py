"""Deletes old runs and what belongs to them, in small transactions, on one replica at a time."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from time import time

from podium.journal import SqlCache, SqlJournal
from podium_server.background_tasks import beside, repeat
from podium_server.keys import Access
from podium_server.record import log_server

_DAY = 86400.0
_PERIOD_SECONDS = 60.0
"""Time between two deletions."""
_LEASE_SECONDS = 600.0
"""After this time, another replica begins beside one that still deletes, or has died. It skips the runs that
the other one deletes."""
_BEGIN = """
INSERT INTO podium_leases (holder, until) VALUES ('retention', {now} + ?)
ON CONFLICT (holder) DO UPDATE SET until = excluded.until WHERE podium_leases.until < {now}
"""
_END = "UPDATE podium_leases SET until = {now} + ? WHERE holder = 'retention'"


class Retention:
    """Deletes runs, cached answers and the rows of requests that are older than some days."""

    def __init__(self, journal: SqlJournal, cache: SqlCache, access: Access, days: float) -> None:
        self._journal = journal
        self._cache = cache
        self._access = access
        self._seconds = days * _DAY

    @asynccontextmanager
    async def running(self, period: float = _PERIOD_SECONDS) -> AsyncGenerator[None, None]:
        """Delete every `period` seconds, until the block ends; log failures of the database."""

        async def run() -> None:
            await repeat(partial(self.forget, period), period=period, told="old runs could not be deleted")

        async with beside(run):
            yield

    async def forget(self, period: float = _PERIOD_SECONDS) -> int:
        """Delete what is old, unless a replica did so within `period` seconds; return the deleted runs."""
        if not await self._lease(_BEGIN, _LEASE_SECONDS):
            return 0
        before = time() - self._seconds
        runs = await self._journal.prune(self._seconds)
        await self._access.prune(before)
        await self._cache.prune(self._seconds)
        await self._lease(_END, period)
        if runs:
            log_server("deleted", runs=runs, days=self._seconds / _DAY)
        return runs

    async def _lease(self, statement: str, seconds: float) -> int:
        async with self._cache.opened() as database:
            text = statement.format(now=database.now)
            return await database.transaction(lambda each: each.execute(text, seconds))
