"""Reads the rows of JSON files, and keeps the spans of a report in memory, about 1 GB for a million calls.

A file is plain or gzipped, and has JSON lines or one JSON document. Bad lines are counted and left out.
"""

import gzip
import json
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from podium.errors import ConfigError
from podium.journal import Journal, SqlJournal
from podium_evals.audit.queries import Span

MOST = 256 * 2**20
"""Maximum length of a line, and of a document, in bytes; longer ones are bad rows."""
_HEAD = 2**20
_LISTS = ("runs", "data", "resourceSpans", "scopeSpans", "spans")
"""Where an object has its list of rows: APIs of LangSmith and OpenAI, and the nested lists of OTLP."""
_DEEPEST = 8


class Row(NamedTuple):
    """A row of a file, and its place in the file."""

    place: str
    """The place in the file, such as `line 7`."""
    value: Mapping[str, Any] | None
    """The JSON object of the row; `None` if the row cannot be read."""
    problem: str = ""
    """Why the row cannot be read; empty if it can."""


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a file, or raise `ConfigError` if it cannot be read."""
    with _opened(path) as plain:
        head, file = _head(plain, path), plain
        if head.startswith(b"\x1f\x8b"):
            file = BufferedReader(gzip.GzipFile(fileobj=plain), _HEAD)
            head = _head(file, path)
        if not head.strip():
            raise ConfigError(f"{path} is empty")
        if head.startswith(b"\xef\xbb\xbf"):
            file.read(3)
            head = head[3:]
        rows = _document if _is_document(head) else _lines
        try:
            yield from rows(file)
        except (OSError, EOFError, zlib.error) as error:
            yield Row("the end", None, f"the file ends early: {error}")


def _opened(path: Path) -> Any:
    try:
        return path.open("rb", buffering=_HEAD)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error


def _head(file: Any, path: Path) -> bytes:
    try:
        return bytes(file.peek(_HEAD))
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def _is_document(head: bytes) -> bool:
    """Return whether a file seems to be one JSON document; otherwise it has one object on each line."""
    line, _, rest = head.lstrip().partition(b"\n")
    return line.startswith(b"[") or (line.strip() == b"{" and rest.lstrip().startswith(b'"'))


def _document(file: Any) -> Iterator[Row]:
    data = file.read(MOST + 1)
    if len(data) > MOST:
        told = f"it is larger than {MOST // 2**20} MiB: write one object on each line"
        yield Row("the document", None, told)
        return
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        yield from _lines(BytesIO(data))
    else:
        yield from _exploded("the document", value)


def _lines(file: Any) -> Iterator[Row]:
    number = 0
    while line := file.readline(MOST):
        number += 1
        place = f"line {number}"
        if len(line) == MOST and not line.endswith(b"\n"):
            while (rest := file.readline(MOST)) and not rest.endswith(b"\n"):
                pass
            yield Row(place, None, f"the line is longer than {MOST // 2**20} MiB")
        elif line.strip():
            yield from _line(place, line)


def _line(place: str, line: bytes) -> Iterator[Row]:
    try:
        value = json.loads(line)
    except UnicodeDecodeError:
        yield Row(place, None, "the line is not UTF-8")
    except RecursionError:
        yield Row(place, None, "the line is nested too deeply")
    except ValueError as error:
        is_cut = line.startswith(b"{") and not line.endswith((b"}", b"\n"))
        yield Row(place, None, f"{'the line is cut' if is_cut else 'no JSON'}: {error}")
    else:
        yield from _exploded(place, value)


def _exploded(place: str, value: object, name: str = "item", depth: int = 0) -> Iterator[Row]:
    """Yield an object, or the objects in its lists one by one, so that a bad one spoils no other."""
    if isinstance(value, list) and depth < _DEEPEST:
        for number, each in enumerate(value, 1):
            yield from _exploded(f"{place}, {name} {number}", each, depth=depth + 1)
    elif not isinstance(value, Mapping):
        yield Row(place, None, "it is not an object")
    elif (key := _list_in(value)) is not None:
        yield from _exploded(place, value[key], key, depth + 1)
    else:
        yield Row(place, value)


def _list_in(value: Mapping[str, Any]) -> str | None:
    return None if "id" in value else next((key for key in _LISTS if isinstance(value.get(key), list)), None)


def source_of(source: str | Path | Journal) -> Path | Journal:
    """Return the file or the journal that a path or URL names; a journal stays as it is."""
    if not isinstance(source, str | Path):
        return source
    named = str(source)
    if named.startswith(("postgresql://", "postgres://")):
        return SqlJournal(named)
    is_url, path = named.startswith("sqlite://"), Path(named.removeprefix("sqlite:///"))
    if not is_url and not _is_database(path):
        return path
    _check_journal(path)
    return SqlJournal(named if is_url else path)


def _is_database(path: Path) -> bool:
    if path.is_fifo() or path.is_char_device():  # bytes that are read from a pipe cannot be read again
        return False
    with _opened(path) as file:
        return _head(file, path).startswith(b"SQLite format 3\x00")


def _check_journal(path: Path) -> None:
    """Refuse an SQLite file without a journal, because opening it would create a journal's tables in it."""
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as database:
            found = database.execute("SELECT 1 FROM sqlite_master WHERE name = 'podium_runs'").fetchone()
    except sqlite3.Error as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    if found is None:
        raise ConfigError(f"{path} is an SQLite file, but not a journal of Podium")


class SpanStore:
    """The spans of any number of files."""

    def __init__(self) -> None:
        self.duplicates = 0
        """Number of records of spans that already were complete."""
        self._spans = dict[tuple[str, str], Span]()

    def add(self, span: Span) -> None:
        """Add a span, or complete a stored span by another record of it."""
        if (known := self._spans.get((span.trace, span.id))) is not None:
            self.duplicates += not known.is_open and not span.is_open
            span = known.merged(span)
        self._spans[span.trace, span.id] = span

    def queries(self) -> Iterator[list[Span]]:
        """Yield the spans of each query."""
        threads, found = self._threads(), dict[str, list[Span]]()
        for _, span in sorted(self._spans.items()):
            trace = threads.get(span.id, span.trace)
            found.setdefault(trace, []).append(span if trace == span.trace else replace(span, trace=trace))
        yield from (found[trace] for trace in sorted(found))

    def _threads(self) -> dict[str, str]:
        """Return the query of the first call for each call that continues another one's conversation."""
        by_id = {span.id: span for span in self._spans.values() if span.kind == "call"}
        found = dict[str, str]()
        for first in by_id.values():
            path, span = list[str](), first
            while span.continues and span.trace == span.id and span.id not in found:
                path.append(span.id)
                found[span.id] = span.continues  # stays if the beginning is missing, or in a circle
                span = by_id.get(span.continues, span)
            found.update(dict.fromkeys(path, found.get(span.id, span.trace)))
        return found
