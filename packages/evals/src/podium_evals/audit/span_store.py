"""Stores spans in a temporary database on disk, and returns them query by query.

Memory use does not grow with the export. The operating system deletes the database when the process ends,
even if it is killed.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Self

from podium.errors import ConfigError
from podium.types.messages import storable
from podium_evals.audit.span import Span

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
        """Add a span, or complete a stored span by another record of it.

        Raises:
            ConfigError: the disk of the temporary folder is full.
        """
        with _translated():
            self._add(span)

    def queries(self) -> Iterator[list[Span]]:
        """Yield the spans of each query.

        Raises:
            ConfigError: the disk of the temporary folder is full.
        """
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
