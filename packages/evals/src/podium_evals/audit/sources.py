"""Reads the rows of JSON files piece by piece, and keeps spans on disk: memory does not grow with the files.

A file is plain or gzipped, and has JSON lines or one JSON document. Bad lines are counted and left out. In a
JSON document, everything after an error is lost.
"""

import gzip
import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from io import BufferedReader
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import quote

import ijson

from podium.errors import ConfigError
from podium.journal import Journal, SqlJournal
from podium.types.messages import storable
from podium_evals.audit.queries import Span

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
    """Return whether a file is an SQLite database."""
    if path.is_fifo() or path.is_char_device():  # bytes that are read from a pipe cannot be read again
        return False
    with _opened(path) as file:
        return _head(file, path).startswith(b"SQLite format 3\x00")


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a file, or raise `ConfigError` if it cannot be read or is not JSON."""
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
    """Yield the events of a document; the time for each grows with its depth, so the depth is limited."""
    for prefix, event, value in events:
        if len(prefix) > _MOST_PREFIX:
            raise RecursionError("the document is nested too deeply")
        yield prefix, event, value


def source_of(named: str, wanted: str) -> Path | Journal:
    """Return the file or the journal that an argument names."""
    if named.startswith(("sqlite://", "postgresql://", "postgres://")):
        _check(wanted, named, is_database=True)
        journal = SqlJournal(named)
        if named.startswith("sqlite://"):
            _check_journal(Path(named.removeprefix("sqlite:///")))
        return journal
    path = Path(named)
    is_database = is_journal(path)
    _check(wanted, named, is_database=is_database)
    if not is_database:
        return path
    _check_journal(path)
    return SqlJournal(path)


def _check(wanted: str, named: str, *, is_database: bool) -> None:
    if wanted == "journal" and not is_database:
        raise ConfigError(f"{named} is not a journal: a journal is an SQLite file or the URL of a database")
    if wanted not in ("auto", "journal") and is_database:
        raise ConfigError(f"{named} is a database, not a file of the format {wanted}")


def _check_journal(path: Path) -> None:
    """Refuse an SQLite file without a journal, because opening it would create a journal's tables in it."""
    if not is_journal(path):
        raise ConfigError(f"{path} is not an SQLite file")
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as database:
            found = database.execute("SELECT 1 FROM sqlite_master WHERE name = 'podium_runs'").fetchone()
    except sqlite3.Error as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    if found is None:
        raise ConfigError(f"{path} is an SQLite file, but not a journal of Podium")


_TABLE = """
CREATE TABLE spans (
    trace TEXT NOT NULL, id TEXT NOT NULL, continues TEXT NOT NULL, data TEXT NOT NULL,
    PRIMARY KEY (trace, id)
) WITHOUT ROWID
"""
_JOIN = """
CREATE TABLE threads AS
WITH RECURSIVE thread (id, trace, depth) AS (
    SELECT id, trace, 0 FROM spans WHERE id IN (SELECT continues FROM spans WHERE continues <> '')
        AND continues NOT IN (SELECT id FROM spans WHERE id <> '')
    UNION
    SELECT spans.id, thread.trace, depth + 1 FROM spans JOIN thread ON spans.continues = thread.id
        WHERE depth < 100000
)
SELECT id, MIN(trace) AS trace FROM thread GROUP BY id
"""


class SpanStore:
    """Spans of any number of files; use it as a context manager."""

    def __init__(self) -> None:
        self.spans = 0
        """Number of different spans."""
        self.duplicates = 0
        """Number of records of spans that already were complete."""
        self._continued = False

    def __enter__(self) -> Self:
        self._database = sqlite3.connect(
            "", check_same_thread=False
        )  # the empty name is a file that SQLite deletes; journals are read in another thread
        with _translated():
            self._database.execute("PRAGMA journal_mode = OFF")
            self._database.execute(_TABLE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._database.close()

    def add(self, span: Span) -> None:
        """Add a span, or complete a stored span by another record of it."""
        with _translated():
            self._add(span)

    def queries(self) -> Iterator[list[Span]]:
        """Yield the spans of each query."""
        with _translated():
            yield from self._queries()

    def _add(self, span: Span) -> None:
        span = replace(
            span,
            trace=storable(span.trace),
            id=storable(span.id),
            parent=storable(span.parent),
            continues=storable(span.continues),
        )
        known = self._known(span)
        if known is not None and span.is_local_id and not known.is_open and not span.is_open:
            number = 2
            while known is not None and known.to_json() != span.to_json():
                span = replace(span, trace=f"{span.trace.split(' #')[0]} #{number}")
                known, number = self._known(span), number + 1
        if known is not None:
            self.duplicates += not known.is_open and not span.is_open
            span = known.merged(span)
        else:
            self.spans += 1
        self._continued |= bool(span.continues)
        row = (span.trace, span.id, span.continues, span.to_json())
        self._database.execute("INSERT OR REPLACE INTO spans VALUES (?, ?, ?, ?)", row)

    def _queries(self) -> Iterator[list[Span]]:
        if self._continued:
            self._join()
        query: list[Span] = []
        for trace, data in self._database.execute("SELECT trace, data FROM spans ORDER BY trace, id"):
            if query and query[0].trace != trace:
                yield query
                query = []
            query.append(replace(Span.from_json(data), trace=trace))
        if query:
            yield query

    def _known(self, span: Span) -> Span | None:
        found = self._database.execute(
            "SELECT data FROM spans WHERE trace = ? AND id = ?", (span.trace, span.id)
        ).fetchone()
        return None if found is None else Span.from_json(found[0])

    def _join(self) -> None:
        """Move calls that continue another call's conversation into the query of the first call."""
        self._database.execute("CREATE INDEX continued ON spans (continues)")
        self._database.execute(_JOIN)
        self._database.execute("CREATE INDEX threaded ON threads (id)")
        self._database.execute(
            "UPDATE OR IGNORE spans SET trace = (SELECT trace FROM threads WHERE threads.id = spans.id) "
            "WHERE trace = id AND id IN (SELECT id FROM threads)"
        )
        self._database.execute(
            "UPDATE OR IGNORE spans SET trace = continues WHERE continues <> '' AND trace = id"
        )


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        told = "free space in the temporary folder, or set SQLITE_TMPDIR to another folder"
        raise ConfigError(f"the temporary database cannot be written: {error}: {told}") from error
