"""The log of the server: one line for each request, in the form `key=value`, and one for each start and stop.

The application configures `logging`; `podium serve` does it with `configure_log`. The field `podium` of a log
record has the same facts, for formatters that write JSON.
"""

import json
import logging
import re
import time
from collections.abc import Mapping
from typing import Any

from podium_server.record import Record

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
