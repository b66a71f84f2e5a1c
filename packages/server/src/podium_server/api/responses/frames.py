"""Writes events of a response as server-sent events."""

import json
from collections.abc import Iterable

from podium_server.api.responses.writer import Event

END = b"data: [DONE]\n\n"
"""The end of a stream."""


def frames(events: Iterable[Event]) -> bytes:
    """Return events as server-sent events."""
    return b"".join(map(_frame, events))


def _frame(event: Event) -> bytes:
    text = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    return f"event: {event['type']}\ndata: {text}\n\n".encode("utf-8", "replace")
