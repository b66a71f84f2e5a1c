"""Passes the pieces of texts from the runs of this process to the viewers of these runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from podium.types import (
    AnswerDelta,
    AttemptFailed,
    Event,
    PlanDelta,
    PlannerEnded,
    StepDelta,
    StepEnded,
)

Piece = PlanDelta | StepDelta | AnswerDelta
"""An event with a piece of a text, which is not recorded."""
_Place = tuple[str, int | None, int | None]
_MOST = 1000
"""Pieces that wait for one viewer. A viewer that is too slow loses the next pieces; the run never waits."""


@dataclass(frozen=True, slots=True)
class Written:
    """A piece for a viewer."""

    piece: Piece
    is_whole: bool = False
    """Whether it has all that was written so far, and replaces what the viewer has."""


class LivePieces:
    """The pieces of the texts of the runs that this process executes."""

    def __init__(self) -> None:
        self._viewers: dict[str, list[MemoryObjectSendStream[Written]]] = {}
        self._texts: dict[str, dict[_Place, tuple[Piece, list[str]]]] = {}
        """For each run, the texts that are being written."""

    @contextmanager
    def publishing(self, run_id: str) -> Iterator[Callable[[Event], None]]:
        """Yield a function that passes the next event of a run to its viewers."""
        self._texts[run_id] = {}
        try:
            yield self._publish
        finally:
            self._texts.pop(run_id, None)

    @contextmanager
    def of(self, run_id: str) -> Iterator[MemoryObjectReceiveStream[Written]]:
        """Yield a stream with what is being written in a run, and then each further piece."""
        texts = list(self._texts.get(run_id, {}).values())
        writer, reader = anyio.create_memory_object_stream[Written](_MOST + len(texts))
        for piece, parts in texts:
            writer.send_nowait(Written(replace(piece, text="".join(parts)), is_whole=True))
        self._viewers.setdefault(run_id, []).append(writer)
        try:
            with writer, reader:
                yield reader
        finally:
            self._viewers[run_id].remove(writer)
            if not self._viewers[run_id]:
                del self._viewers[run_id]

    def _publish(self, event: Event) -> None:
        texts = self._texts.get(event.run_id)
        match event:
            case PlanDelta() | StepDelta() | AnswerDelta():
                self._pass(event)
                if texts is not None:
                    first, parts = texts.get(_place(event), (event, []))
                    if isinstance(first, StepDelta | AnswerDelta) and first.attempt != event.attempt:  # type: ignore[union-attr]
                        first, parts = event, []  # another call writes the text again
                    parts.append(event.text)
                    texts[_place(event)] = first, parts
            case StepEnded() | AttemptFailed() if texts is not None:
                texts.pop((StepDelta.type, event.round, event.step), None)
            case PlannerEnded() if texts is not None:
                texts.pop((PlanDelta.type, event.round, None), None)

    def _pass(self, piece: Piece) -> None:
        for viewer in self._viewers.get(piece.run_id, ()):
            try:
                viewer.send_nowait(Written(piece))
            except anyio.WouldBlock:
                continue  # the recorded event has the whole text


def _place(piece: Piece) -> _Place:
    """Return the text to which a piece belongs."""
    match piece:
        case PlanDelta():
            return piece.type, piece.round, None
        case StepDelta():
            return piece.type, piece.round, piece.step
        case AnswerDelta():
            return piece.type, None, None
