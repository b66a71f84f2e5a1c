"""Counts requests by their ends, and their durations."""

from collections.abc import Callable

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)

from podium.types.outcome import Proposal
from podium_server.record import Record

CONTENT_TYPE = CONTENT_TYPE_LATEST
_BUCKETS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""Boundaries of OpenTelemetry's conventions for `gen_ai.server.request.duration`, in seconds."""
_FIRST_BUCKETS = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0
)  # fmt: skip
"""Boundaries of the conventions for `gen_ai.server.time_to_first_token`, and two more for slow plans."""
_MODEL, _ERROR = "gen_ai_request_model", "error_type"
"""Labels with the names of the conventions."""
_SPENT = ["key_id", _MODEL, "worker"]


class Metrics:
    """The metrics of one server. No label has a value from a request, so their number is limited.

    Args:
        in_flight: returns the number of running requests.
    """

    def __init__(self, in_flight: Callable[[], float]) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "podium_requests",
            "Requests by route, model, status, and the code of their error, which is empty after a success.",
            ["route", _MODEL, "status", _ERROR],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "gen_ai_server_request_duration_seconds",
            "Time to the end of the response.",
            ["route", _MODEL],
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._cost, self._tokens = (
            Counter(
                name,
                f"{told} of answered requests, by API key, model and worker.",
                labels,
                registry=self._registry,
            )
            for name, told, labels in (
                ("podium_cost_usd", "Known cost", _SPENT),
                ("podium_tokens", "Tokens", [*_SPENT, "gen_ai_token_type"]),
            )
        )
        self._first = Histogram(
            "gen_ai_server_time_to_first_token_seconds",
            "Time to the first text of a streamed answer.",
            ["route", _MODEL],
            buckets=_FIRST_BUCKETS,
            registry=self._registry,
        )
        running = Gauge("podium_requests_in_flight", "Running requests.", registry=self._registry)
        running.set_function(in_flight)
        self._jobs = Counter(
            "podium_background_runs",
            "Runs in the background that this process has ended, by state, and the code of their problem.",
            ["state", _ERROR],
            registry=self._registry,
        )

    def show_jobs(self, running: Callable[[], float]) -> None:
        """Add the metrics of runs in the background.

        Args:
            running: returns the number of runs that this process executes.
        """
        gauge = Gauge(
            "podium_background_runs_in_flight",
            "Runs in the background that this process executes.",
            registry=self._registry,
        )
        gauge.set_function(running)
        self._queued = Gauge(
            "podium_background_runs_queued",
            "Runs in the background that wait in the queue of all processes.",
            registry=self._registry,
        )

    def job_ended(self, state: str, code: str) -> None:
        """Count a run in the background.

        Args:
            state: its state, as `GET /v1/runs` has it.
            code: the code of its problem; empty if it has none.
        """
        self._jobs.labels(state, code).inc()

    def ended(self, record: Record, status: int) -> None:
        """Count a request.

        Args:
            record: what is known about it.
            status: the status of its response; 499 if the client disconnected before the response.
        """
        self._requests.labels(record.route, record.model, str(status), record.code).inc()
        self._seconds.labels(record.route, record.model).observe(record.seconds)
        for bill in () if record.result is None else record.result.bills:
            worker = f"planner {bill.planner}" if isinstance(bill, Proposal) else bill.worker
            labels = record.key_id, record.model, worker
            self._cost.labels(*labels).inc(bill.cost or 0.0)
            self._tokens.labels(*labels, "input").inc(bill.usage.total_input_tokens)
            self._tokens.labels(*labels, "output").inc(bill.usage.total_output_tokens)
        if record.first_token is not None:
            self._first.labels(record.route, record.model).observe(record.first_token)

    def text(self, queued: float | None = None) -> bytes:
        """Return all metrics in Prometheus' format.

        Args:
            queued: the number of runs that wait in the queue; `None` if there is no queue.
        """
        if queued is not None:
            self._queued.set(queued)
        return generate_latest(self._registry)
