"""Reads the rows of JSON files, plain or gzipped, piece by piece: JSON lines or one JSON document.

Bad lines are counted and left out. In a JSON document, everything after an error is lost.
"""

import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple

import ijson

from podium.errors import ConfigError

MOST_LINE = 64 * 2**20
"""Maximum length of a line in bytes; longer lines are bad rows."""
_MOST_PREFIX = 10_000
"""The longest path of a value in a document, in characters; a longer one is nested too deeply to be read."""
_BUFFER = 8192
"""Bytes that are parsed at once. The paths of all their values are made before the first path is checked, and
grow with each level: 64 KiB of brackets take 12 s."""
_HEAD = 2**20
_LISTS = ("", "runs", "data")
"""Where a JSON document has its list of rows: the document itself, or the list under one of these names."""
_SPAN_LISTS = (
    ("resourceSpans", "resource_spans"),
    ("scopeSpans", "scope_spans", "instrumentationLibrarySpans"),
    ("spans",),
)
"""Names of the nested lists of OTLP. The items of the last list are spans."""
_SPANS = ("resourceSpans.item.scopeSpans.item.spans.item", "resource_spans.item.scope_spans.item.spans.item")


class Row(NamedTuple):
    """A row of a file, and its place in the file."""

    place: str
    """The place in the file, such as `line 7`."""
    value: Mapping[str, Any] | None
    """The JSON object of the row; `None` if the row cannot be read."""
    problem: str = ""
    """Why the row cannot be read; empty if it can."""


def is_journal(path: Path) -> bool:
    """Return whether a file is an SQLite database.

    Raises:
        ConfigError: the file cannot be read.
    """
    if path.is_fifo() or path.is_char_device():  # bytes that are read from a pipe cannot be read again
        return False
    with _opened(path) as file:
        return _head(file, path).startswith(b"SQLite format 3\x00")


def read_rows(path: Path, on_bytes: Callable[[int], object] = lambda _: None) -> Iterator[Row]:
    """Yield the rows of a file.

    Args:
        path: the file.
        on_bytes: called after each row with the number of bytes read so far.

    Raises:
        ConfigError: the file cannot be read, or is not JSON.
    """
    with _opened(path) as plain:
        head = _head(plain, path)
        file: Any = plain
        if head.startswith(b"\x1f\x8b"):
            file = BufferedReader(gzip.GzipFile(fileobj=plain), _HEAD)
            head = _head(file, path)
        _refuse(path, head)
        if head.startswith(b"\xef\xbb\xbf"):
            file.read(3)
            head = head[3:]
        rows = _document if _is_document(head) else _lines
        try:
            for row in rows(file):
                yield row
                if plain.seekable():
                    on_bytes(plain.tell())
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


def _refuse(path: Path, head: bytes) -> None:
    """Refuse files that cannot be JSON text."""
    kinds = {
        b"PAR1": "a Parquet file: export it as JSON lines",
        b"PK\x03\x04": "a zip archive: unpack it first",
        b"\x28\xb5\x2f\xfd": "compressed by zstd: unpack it first, or compress it by gzip",
        b"\xff\xfe": "text in UTF-16: save it as UTF-8",
        b"\xfe\xff": "text in UTF-16: save it as UTF-8",
    }
    for begin, told in kinds.items():
        if head.startswith(begin):
            raise ConfigError(f"{path} is {told}")
    if not head.strip():
        raise ConfigError(f"{path} is empty")


def _is_document(head: bytes) -> bool:
    """Return whether a file is one JSON document; otherwise it has one object on each line."""
    text = head.lstrip()
    line, _, rest = text.partition(b"\n")
    is_whole = bool(rest) or len(head) < _HEAD
    is_spread = line.strip() == b"{" and rest.lstrip()[:1] in (b'"', b"}")
    return text.startswith(b"[") or is_spread or (not is_whole and _begins_list(text))


def _begins_list(text: bytes) -> bool:
    begin = text[:40].replace(b" ", b"")
    return any(begin.startswith(b'{"' + name) for name in (b"runs", b"data", b"resourceSpans"))


def _lines(file: BufferedReader) -> Iterator[Row]:
    number = 0
    while line := file.readline(MOST_LINE):
        number += 1
        place = f"line {number}"
        if len(line) == MOST_LINE and not line.endswith(b"\n"):
            while (rest := file.readline(MOST_LINE)) and not rest.endswith(b"\n"):
                pass
            yield Row(place, None, f"the line is longer than {MOST_LINE // 2**20} MiB")
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
        yield Row(place, None, f"no JSON: {error}" if line.endswith(b"\n") else f"the line is cut: {error}")
    else:
        yield from _exploded(place, value)


def _exploded(place: str, value: object) -> Iterator[Row]:
    """Yield the rows of a line: its object, or the items of the list in its object."""
    if isinstance(value, Mapping):
        if any(key in value for key in _SPAN_LISTS[0]):
            yield from _spans(place, value, 0)
            return
        listed = next((value[key] for key in _LISTS[1:] if _is_list_of_rows(value, key)), None)
        if listed is None:
            yield Row(place, value)
            return
        value = listed
    if not isinstance(value, list):
        yield Row(place, None, f"the line has {type(value).__name__}, not an object")
        return
    for number, each in enumerate(value, 1):
        inner = f"{place}, item {number}"
        is_row = isinstance(each, Mapping)
        yield Row(inner, each) if is_row else Row(inner, None, "the item is not an object")


def _spans(place: str, value: object, level: int) -> Iterator[Row]:
    """Yield the spans in the nested lists of OTLP one by one, so that a bad span spoils no other span."""
    if level == len(_SPAN_LISTS):
        yield (
            Row(place, value) if isinstance(value, Mapping) else Row(place, None, "the span is not an object")
        )
        return
    keys = _SPAN_LISTS[level]
    found: Any = None
    if isinstance(value, Mapping):
        found = next((value[key] for key in keys if value.get(key)), [])
    if not isinstance(found, list):
        yield Row(place, None, f"{keys[0]} is not a list of objects")
        return
    for number, each in enumerate(found, 1):
        yield from _spans(
            f"{place}, span {number}" if level == len(_SPAN_LISTS) - 1 else place, each, level + 1
        )


def _is_list_of_rows(value: Mapping[str, Any], key: str) -> bool:
    return isinstance(value.get(key), list) and "id" not in value


def _document(file: BufferedReader) -> Iterator[Row]:
    """Yield the rows of a JSON document: items of its list, or spans of OTLP."""
    number, depth = 0, 0
    targets = {f"{name}.item".removeprefix(".") for name in _LISTS} | set(_SPANS)
    events = _shallow(ijson.parse(file, buf_size=_BUFFER, use_float=True, multiple_values=True))
    builder: Any = None
    try:
        for prefix, event, value in events:
            if builder is None and prefix in targets and event == "start_map":
                builder, depth = ijson.ObjectBuilder(), 0
            if builder is not None:
                builder.event(event, value)
                depth += {"start_map": 1, "start_array": 1, "end_map": -1, "end_array": -1}.get(event, 0)
                if depth == 0:
                    number += 1
                    yield from _exploded(f"item {number}", builder.value)
                    builder = None
            elif prefix in targets and event not in ("end_map", "start_array", "end_array"):
                number += 1
                yield Row(f"item {number}", None, "the item is not an object")
        if not number:
            told = "the document has no runs, spans or completions: write one object on each line"
            yield Row("the document", None, told)
    except (ijson.JSONError, UnicodeDecodeError, RecursionError) as error:
        told = str(error).splitlines()[0] if str(error) else type(error).__name__
        yield Row(f"after item {number}", None, f"the rest cannot be read: {told}")


def _shallow(events: Iterable[tuple[str, str, Any]]) -> Iterator[tuple[str, str, Any]]:
    """Yield the events of a document; the time for each grows with its depth, so the depth is limited.

    Raises:
        RecursionError: the document is nested too deeply.
    """
    for prefix, event, value in events:
        if len(prefix) > _MOST_PREFIX:
            raise RecursionError("the document is nested too deeply")
        yield prefix, event, value
