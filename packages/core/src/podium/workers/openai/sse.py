"""Reads server-sent events from the pieces of a byte stream.

The size of lines and of whole streams is limited. httpx2's own reader limits single events only.
"""

from typing import NamedTuple

from podium.errors import AnswerNotUtf8, WorkerBroken

MAX_LINE = 2**20
"""Maximum length of a line, in bytes."""
MAX_ANSWER = 32 * 2**20
"""Maximum size of a response, streamed or whole, in bytes."""


class SseEvent(NamedTuple):
    """A server-sent event."""

    name: str
    """Its `event` field; often empty."""
    data: str
    """Its `data` fields, joined by newlines."""


class SseReader:
    """Parses the pieces of a stream into events, as the HTML standard (section 9.2) defines."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._after_cr = False
        self._at_start = True
        self._size = 0
        self._name = ""
        self._data: list[str] = []

    def feed(self, piece: bytes) -> list[SseEvent]:
        """Return the events that `piece` completes.

        Raises:
            AnswerNotUtf8: the data of an event is not UTF-8.
            WorkerBroken: a line is over `MAX_LINE` bytes, the stream is over `MAX_ANSWER`, or a line has JSON
                without the name of a field.
        """
        self._size += len(piece)
        if self._after_cr and piece:
            self._after_cr = False
            piece = piece.removeprefix(b"\n")
        if not piece:
            return []
        if b"\r" in piece:
            self._after_cr = piece.endswith(b"\r")
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        first, *lines = piece.split(b"\n")
        self._line += first
        events: list[SseEvent] = []
        for line in lines:
            self._end_line(events)
            self._line += line
        if len(self._line) > MAX_LINE or self._size > MAX_ANSWER:
            raise WorkerBroken(
                f"the stream has a line over {MAX_LINE:,} bytes or is over {MAX_ANSWER:,} bytes, "
                "which is too long for an answer",
                maybe_paid=True,
            )
        return events

    def close(self) -> list[SseEvent]:
        """Return the event that the end of the stream truncated, if any. Its data may be incomplete."""
        events: list[SseEvent] = []
        self._end_line(events, cut=True)
        self._end_event(events)
        return events

    def _end_line(self, events: list[SseEvent], *, cut: bool = False) -> None:
        if self._at_start:
            self._at_start = False
            if self._line.startswith(b"\xef\xbb\xbf"):
                del self._line[:3]
        if not self._line:
            self._end_event(events)
            return
        field, _, value = bytes(self._line).partition(b":")
        self._line.clear()
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(_decoded(value, cut=cut))
        elif field == b"event":
            self._name = value.decode(errors="replace")
        elif field.lstrip().startswith((b"{", b"[")):  # the standard ignores unknown fields; this is data
            raise WorkerBroken("a line of the stream has JSON without `data:`", maybe_paid=True)

    def _end_event(self, events: list[SseEvent]) -> None:
        if self._data:
            events.append(SseEvent(self._name, "\n".join(self._data)))
            self._data = []
        self._name = ""


def _decoded(data: bytes, *, cut: bool) -> str:
    """Decode data; if it was truncated (`cut`), its last character may be incomplete."""
    try:
        return data.decode(errors="replace" if cut else "strict")
    except UnicodeDecodeError as error:
        raise AnswerNotUtf8(f"an event of the stream is not UTF-8: {error}", maybe_paid=True) from error
