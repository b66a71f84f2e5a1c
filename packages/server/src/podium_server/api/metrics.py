"""`GET /metrics`: the metrics of the server in Prometheus' format."""

from podium_server.http import Exchange
from podium_server.keys import Caller
from podium_server.metrics import CONTENT_TYPE, Metrics


class MetricsApi:
    """The metrics, for keys with the role `see`.

    Args:
        metrics: the metrics.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    async def show(self, exchange: Exchange, caller: Caller) -> None:
        """Show all metrics.

        Raises:
            RoleMissing: the key lacks the role.
        """
        caller.check_role("see")
        await exchange.whole(self._metrics.text(), CONTENT_TYPE)
