"""Counts requests, their durations and their refusals."""

from collections.abc import Callable

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)

CONTENT_TYPE = CONTENT_TYPE_LATEST
_BUCKETS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""Boundaries of OpenTelemetry's conventions for `gen_ai.server.request.duration`, in seconds."""


class Metrics:
    """The metrics of one server. No label has a value from a request, so their number is limited.

    Args:
        in_flight: returns the number of running requests.
    """

    def __init__(self, in_flight: Callable[[], float]) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "podium_requests", "Requests, by route and status.", ["route", "status"], registry=self._registry
        )
        self._refusals = Counter(
            "podium_refusals",
            "Requests that were answered with an error, by its code.",
            ["code"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "gen_ai_server_request_duration_seconds",
            "Time to the end of the response.",
            ["route"],
            buckets=_BUCKETS,
            registry=self._registry,
        )
        running = Gauge("podium_requests_in_flight", "Running requests.", registry=self._registry)
        running.set_function(in_flight)

    def ended(self, route: str, status: int, seconds: float) -> None:
        """Count a request.

        Args:
            route: the path of its route.
            status: the status of its response; 499 if the client disconnected before the response.
            seconds: its duration.
        """
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def refused(self, code: str) -> None:
        """Count an error."""
        self._refusals.labels(code).inc()

    def text(self) -> bytes:
        """Return all metrics in Prometheus' format."""
        return generate_latest(self._registry)
