"""Writes events of a response as server-sent events."""

from collections.abc import Iterable

from podium.hosts.completions import sse
from podium_server.api.responses.writer import Event

END = b"data: [DONE]\n\n"
"""The end of a stream."""


def frames(events: Iterable[Event]) -> bytes:
    """Return events as server-sent events."""
    return b"".join(sse(event, event=event["type"]) for event in events)
