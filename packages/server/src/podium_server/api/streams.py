"""Server-sent events, and the stream of an answer."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

from podium_server.turn import TextPiece, Turn


class StreamForm(Protocol):
    """Writes the stream of an answer, as server-sent events. The first call also writes its beginning."""

    def text(self, text: str) -> bytes:
        """Return the events for a piece of the answer."""
        ...

    def progress(self, text: str) -> bytes:
        """Return the events for a piece of text about the progress; empty if the client does not read it."""
        ...

    def end(self) -> bytes:
        """Return the events after the text."""
        ...


async def frames(turn: Turn, form: StreamForm) -> AsyncGenerator[bytes, None]:
    """Run a turn, and yield the stream of its answer; see `Turn.pieces`."""
    async with aclosing(turn.pieces()) as pieces:
        async for piece in pieces:
            write = form.text if isinstance(piece, TextPiece) else form.progress
            if data := write(piece.text):
                yield data
    yield form.end()
