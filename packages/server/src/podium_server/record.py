"""What is known about the request that is answered, its line in the log, and the metrics of all requests.

The record of a request is in the context of its task. So whatever answers the request, also behind the SDKs
of MCP and A2A, can add what it knows. It has no text of a question, of an answer or of an error.

The log has one line for each request, in the form `key=value`, and one for each start and stop. The
application configures `logging`; `podium serve` does it with `configure_log`. The field `podium` of a log
record has the same facts, for formatters that write JSON.
"""

import json
import logging
import re
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import monotonic
from typing import Any
from uuid import uuid4

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)

from podium.types import Result
from podium.types.outcome import Proposal

CLIENT_GONE = "client_disconnected"
"""The code of a request whose client disconnected before the end of the response."""
STOPPED = "server_stopped"
"""The code of a request that ended because the server stopped."""


@dataclass(slots=True)
class Record:
    """What is known about a request."""

    method: str = ""
    route: str = ""
    """The path of its route; empty if it has none."""
    began: float = field(default_factory=monotonic)
    """When the request began, on the monotonic clock."""
    key_id: str = ""
    """The id of the API key; empty if there is none, or it is not known."""
    model: str = ""
    """The name of the model; empty for a request without one, or with an unknown one."""
    run_id: str = ""
    code: str = ""
    """The code of the error; empty if the request succeeded."""
    first_token: float | None = None
    """Seconds until the first piece of the text of a streamed answer; `None` if there was none."""
    request_id: str = field(default_factory=lambda: f"req_{uuid4().hex}")
    """Names the request in its error, if it has no run."""
    result: Result | None = None
    """The result of the run; `None` if the run has not ended."""

    def of_model(self, model: str, run_id: str | None) -> "Record":
        """Set the model of the request, and return this record.

        A task that a request starts may continue the run of another request: the record for that run is one
        that nobody reads.
        """
        record = self if self.run_id in ("", run_id) else Record()
        record.model = model
        return record

    def text_begins(self) -> None:
        """Set the time of the first piece of the text."""
        if self.first_token is None:
            self.first_token = monotonic() - self.began

    @property
    def seconds(self) -> float:
        """The seconds since the request began."""
        return monotonic() - self.began


_CURRENT: ContextVar[Record] = ContextVar("podium_server_record")


def begin_record(method: str, route: str) -> Record:
    """Return the new record of the request that the current task answers."""
    record = Record(method, route)
    _CURRENT.set(record)
    return record


def current_record() -> Record:
    """Return the record of the request that is answered; outside of requests, a record that nobody reads."""
    return _CURRENT.get(None) or Record()


LOGGER = logging.getLogger("podium.server")
_PROBES = ("/healthz", "/readyz", "/metrics")
"""Routes whose requests are logged at `DEBUG` unless they fail."""
_PLAIN = re.compile(r"[\w./:+*{}-]+", re.ASCII)


def configure_log() -> None:
    """Write the log of the server, and the warnings of runs and libraries, to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%SZ"))
    # For the root, because libraries that log there add a handler of their own if it has none.
    logging.getLogger().addHandler(handler)
    logging.getLogger("podium").setLevel(logging.WARNING)
    LOGGER.setLevel(logging.INFO)


def log_request(record: Record, status: int) -> None:
    """Log the end of a request."""
    level = logging.DEBUG if record.route in _PROBES and status < 400 else logging.INFO
    if LOGGER.isEnabledFor(level):
        _log("request", _facts(record, status), level)


def log_server(event: str, **facts: object) -> None:
    """Log a start or a stop of the server."""
    _log(event, facts)


def _log(event: str, facts: Mapping[str, object], level: int = logging.INFO) -> None:
    told = " ".join([event, *(f"{name}={_value(value)}" for name, value in facts.items())])
    LOGGER.log(level, "%s", told, extra={"podium": {"event": event, **facts}})


def _facts(record: Record, status: int) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "method": record.method,
        "route": record.route,
        "status": status,
        "code": record.code or "ok",
        "ms": round(record.seconds * 1000),
        "key_id": record.key_id,
        "model": record.model,
        "run_id": record.run_id,
    }
    if record.code and not record.run_id:
        facts["request_id"] = record.request_id
    if record.first_token is not None:
        facts["first_token_ms"] = round(record.first_token * 1000)
    if record.result is not None:
        usage = record.result.usage
        facts |= {
            "run_status": record.result.status,
            "cost": record.result.cost,
            "input_tokens": usage.total_input_tokens,
            "output_tokens": usage.total_output_tokens,
        }
    return {name: value for name, value in facts.items() if value != ""}


def _value(value: object) -> str:
    """Return a value on one line; a text with other characters than those of names is quoted."""
    if value is None:
        return "unknown"
    if isinstance(value, float):
        return f"{value:.9f}".rstrip("0").rstrip(".")
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text)


class _Formatter(logging.Formatter):
    """Writes times in UTC."""

    converter = staticmethod(time.gmtime)


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
    """The metrics of one server. No label has a value from a request, so their number is limited."""

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
        """Add the metrics of runs in the background."""
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
        """Count a run in the background."""
        self._jobs.labels(state, code).inc()

    def ended(self, record: Record, status: int) -> None:
        """Count a request."""
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
        """Return all metrics in Prometheus' format."""
        if queued is not None:
            self._queued.set(queued)
        return generate_latest(self._registry)
