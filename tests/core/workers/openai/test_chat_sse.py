"""The reader of server-sent events, fed in every way."""

import json
from collections.abc import Iterable
from contextlib import suppress
from itertools import pairwise, repeat

import pytest
from hypothesis import example, given, strategies as st

from podium.errors import WorkerBroken
from podium.workers.openai.http import MAX_ANSWER, MAX_LINE, SseEvent, SseReader

STREAM = (
    "\ufeff: keep-alive\n\n"
    'data: {"text": "Grüße, 世界 \N{VIOLIN}"}\n\n'
    "event: error\r\ndata: one\r\ndata: two\r\n\r\n"
    "id: 7\rretry: 10\rdata:bare\r\r"
    "event: nothing\n\n"
    "data\n\n"
    "data: [DONE]\n\n"
).encode()
EVENTS = [
    SseEvent("", '{"text": "Grüße, 世界 \N{VIOLIN}"}'),
    SseEvent("error", "one\ntwo"),
    SseEvent("", "bare"),
    SseEvent("", ""),
    SseEvent("", "[DONE]"),
]


def read(pieces: Iterable[bytes]) -> list[SseEvent]:
    """Return the events of a stream in pieces."""
    reader = SseReader()
    return [event for piece in pieces for event in reader.feed(piece)] + reader.close()


@given(st.lists(st.integers(0, len(STREAM))))
@example([])
@example(list(range(len(STREAM))))
def test_cuts_do_not_matter(cuts: list[int]) -> None:
    """However a stream is cut, inside characters and line ends too, its events are the same."""
    edges = [0, *sorted(cuts), len(STREAM)]
    assert read([STREAM[a:b] for a, b in pairwise(edges)]) == EVENTS


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_survives_any_bytes(pieces: list[bytes]) -> None:
    """Any bytes give events of text, or are a broken answer."""
    with suppress(WorkerBroken):
        assert all(isinstance(event.data, str) for event in read(pieces))


def test_bounds_a_line() -> None:
    """A line without end is refused before it fills the memory."""
    with pytest.raises(WorkerBroken, match="too long for an answer"):
        read(repeat(b"x" * 2**16, MAX_LINE // 2**16 + 2))


def test_bounds_a_stream() -> None:
    """An endless stream is refused, even if every line of it is short."""
    piece = (b"data: " + json.dumps("y" * 1000).encode() + b"\n\n") * 64
    with pytest.raises(WorkerBroken, match="too long for an answer"):
        read(repeat(piece, MAX_ANSWER // len(piece) + 2))
