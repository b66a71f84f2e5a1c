"""Finds the format of a row, and the reader of this format."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from podium_evals.audit.formats import langsmith, openai_logs, otlp
from podium_evals.audit.span import Span

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads the rows of one format."""

    name: str
    recognises: Callable[[Row], bool]
    spans: Callable[[Row], Iterator[Span]]


READERS = (
    Reader("langsmith", langsmith.recognises, langsmith.spans),
    Reader("otlp", otlp.recognises, otlp.spans),
    Reader("openai", openai_logs.recognises, openai_logs.spans),
)
FORMATS = ("auto", *(reader.name for reader in READERS), "journal")


def reader_of(row: Row, wanted: str) -> Reader:
    """Return the reader of a row.

    Args:
        row: the row.
        wanted: the name of a format, or `auto`.

    Raises:
        ValueError: the row does not have the format `wanted`, or has no known format.
    """
    for reader in READERS:
        if wanted in ("auto", reader.name) and reader.recognises(row):
            return reader
    told = "no run, span, request or response" if wanted == "auto" else f"not a row of the format {wanted}"
    keys = ", ".join(list(map(repr, row))[:5])
    raise ValueError(f"{told}; it has {keys or 'no fields'}")
