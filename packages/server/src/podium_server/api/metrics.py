"""`GET /metrics`: the metrics of the server in Prometheus' format."""

from math import nan

import anyio

from podium.errors import JournalError
from podium_server.http import Exchange
from podium_server.jobs.table import JobTable
from podium_server.keys import Caller
from podium_server.metrics import CONTENT_TYPE, Metrics

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
