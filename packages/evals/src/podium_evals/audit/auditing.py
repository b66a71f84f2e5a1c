"""Reads exports and journals, adds up the costs of their queries, and returns a report."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from podium.aio import run_sync
from podium.errors import ConfigError
from podium.journal import Journal
from podium_evals.audit.files import Row, read_rows
from podium_evals.audit.formats.podium_runs import run_spans
from podium_evals.audit.formats.readers import reader_of
from podium_evals.audit.prices import Prices
from podium_evals.audit.query import Query
from podium_evals.audit.report import Report, Source
from podium_evals.audit.span_store import SpanStore
from podium_evals.audit.tally import Tally, amounts, by_cost
from podium_evals.audit.texts import excerpt

TURNS = 10
"""Default limit of turns: an agent with more turns is reported as a loop."""
_PROBLEMS = 5


@dataclass(slots=True)
class _Reading:
    """The state of reading one source: a file or a journal."""

    name: str
    rows: Counter[str] = field(default_factory=Counter)
    bad: int = 0
    problems: list[str] = field(default_factory=list)

    def complain(self, row: Row, problem: str) -> None:
        self.bad += 1
        if len(self.problems) < _PROBLEMS:
            self.problems.append(excerpt(f"{row.place}: {problem}", 200))

    def source(self) -> Source:
        return Source(name=self.name, rows=dict(self.rows), bad_rows=self.bad, problems=tuple(self.problems))


def audit(
    sources: Sequence[Path | Journal],
    *,
    file_format: str = "auto",
    prices: Prices | None = None,
    turns: int = TURNS,
    on_bytes: Callable[[Path, int], object] = lambda _path, _bytes: None,
) -> Report:
    """Audit files and journals together; the spans of a query may be in several of them.

    This function blocks until all files are read. In an event loop, call it in a separate thread.

    Args:
        sources: files of exports, and journals.
        file_format: the format of the rows of files: `auto`, `langsmith`, `otlp` or `openai`.
        prices: the prices of calls; default: today's prices.
        turns: the limit of turns; an agent with more turns is reported as a loop.
        on_bytes: called with a file and the number of its bytes that were read so far.

    Raises:
        ConfigError: a file cannot be read, or no source has a model call.
        JournalError: a journal cannot be read.
    """
    priced, tally = prices or Prices(), Tally(turns)
    readings = []
    with SpanStore() as store:
        for source in sources:
            if isinstance(source, Path):
                readings.append(_read_file(source, file_format, store, on_bytes))
            else:
                readings.append(run_sync(partial(_read_journal, source, store)))
        for spans in store.queries():
            tally.add(Query(spans, priced))
        duplicates = store.duplicates
    if not tally.queries:
        raise ConfigError(_nothing(readings))
    return Report(
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        prices=priced.source,
        turns=turns,
        sources=tuple(reading.source() for reading in readings),
        queries=tally.queries,
        total=amounts(tally.total),
        latency=tally.latency(),
        expensive=tally.expensive(),
        models=by_cost(tally.models),
        steps=by_cost(tally.steps),
        findings=tally.finding_rows(),
        wasted=tally.wasted,
        errors=dict(tally.errors.most_common()),
        estimate=tally.estimate(),
        doubts=tally.doubts(duplicates),
    )


def _read_file(
    path: Path, file_format: str, store: SpanStore, on_bytes: Callable[[Path, int], object]
) -> _Reading:
    reading = _Reading(excerpt(str(path), 200))
    for row in _rows(path, on_bytes):
        if row.value is None:
            reading.complain(row, row.problem)
            continue
        try:
            reader = reader_of(row.value, file_format)
            found = list(reader.spans(row.value))
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError, OverflowError) as error:
            told = str(error) if isinstance(error, ValueError) else f"a field has an unexpected type: {error}"
            reading.complain(row, told)
            continue
        reading.rows[reader.name] += 1
        for span in found:
            store.add(span)
    return reading


def _rows(path: Path, on_bytes: Callable[[Path, int], object]) -> Iterator[Row]:
    return read_rows(path, lambda number: on_bytes(path, number))


async def _read_journal(journal: Journal, store: SpanStore) -> _Reading:
    reading = _Reading("journal")
    async for span in run_spans(journal):
        reading.rows["journal"] += span.name == "run"
        store.add(span)
    return reading


def _nothing(readings: Sequence[_Reading]) -> str:
    """Return why there is nothing to report."""
    told = ["no model call was found"]
    for reading in readings:
        read = sum(reading.rows.values())
        why = f"; {reading.problems[0]}" if reading.problems else ""
        told.append(f"{reading.name}: readable rows: {read:,}; unreadable rows: {reading.bad:,}{why}")
    return "\n".join(told)
