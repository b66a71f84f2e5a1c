"""The pieces of a turn that a client reads during the run."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A piece of the text of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ProgressPiece:
    """A piece of text about the progress of the run, which APIs send as reasoning."""

    text: str


Piece = TextPiece | ProgressPiece
