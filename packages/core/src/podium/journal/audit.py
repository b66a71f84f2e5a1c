"""For auditors: verify the hash chains of a journal, and export its runs as lines of JSON.

A line holds one record: run, number, time, hash, and last the event, byte for byte as it is stored, because
the hash covers these bytes.
"""

import json
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from typing import Any

from podium.errors import JournalBroken, RunUnknown
from podium.journal.entry import Record, RunRow
from podium.journal.hash_chain import Break, verify
from podium.journal.journal import Journal

_EVENT = ',"event":'
_FACTS: dict[str, type | tuple[type, ...]] = {"run_id": str, "number": int, "at": (int, float), "hash": str}


async def verify_runs(journal: Journal, run_ids: Sequence[str] | None = None) -> tuple[Break, ...]:
    """Return where the chains of runs are broken; empty if all hold.

    Args:
        journal: the journal.
        run_ids: the runs, without those nested in them; `None` means all runs.

    Raises:
        RunUnknown: the journal does not have one of the runs.
    """
    breaks: list[Break | None] = []
    async with journal:
        rows = {row.run_id: row for row in await journal.runs(limit=None, nested=True)}
        for run_id in rows if run_ids is None else run_ids:
            try:
                records = await journal.records(run_id)
            except RunUnknown:
                if run_ids is not None:
                    raise
                continue  # deleted meanwhile
            breaks.append(verify(records) or (_cut_off(rows[run_id], records) if run_id in rows else None))
    return tuple(found for found in breaks if found is not None)


async def export(journal: Journal, run_ids: Sequence[str] | None = None) -> AsyncGenerator[str, None]:
    """Yield runs as lines of JSON, one for each record: each run whole, then the runs nested in it.

    Args:
        journal: the journal.
        run_ids: the runs; `None` means all runs, the oldest first.

    Raises:
        RunUnknown: the journal does not have one of the runs.
    """
    async with journal:
        if run_ids is None:
            run_ids = [row.run_id for row in reversed(await journal.runs(limit=None))]
        left = list(reversed(run_ids))
        while left:
            run_id = left.pop()
            for record in await journal.records(run_id):
                yield to_line(record)
            left += [row.run_id for row in await journal.runs(limit=None, parent=run_id)]


def to_line(record: Record) -> str:
    """Return a record as a line of JSON, without a line break."""
    facts = {name: getattr(record, name) for name in _FACTS}
    return json.dumps(facts, ensure_ascii=False, separators=(",", ":"))[:-1] + _EVENT + record.text + "}"


def read_lines(lines: Iterable[str]) -> Iterator[Sequence[Record]]:
    """Yield the records of each run from lines that `export` wrote.

    Raises:
        JournalBroken: a line is not from `export`.
    """
    run: list[Record] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        record = _read_line(line.strip("\r\n"), number)
        if run and record.run_id != run[0].run_id:
            yield tuple(run)
            run = []
        run.append(record)
    if run:
        yield tuple(run)


def verify_lines(lines: Iterable[str]) -> Iterator[tuple[str, int, Break | None]]:
    """Yield, for each exported run, its id, the number of its records, and where its chain is broken.

    Raises:
        JournalBroken: a line is not from `export`.
    """
    for records in read_lines(lines):
        yield records[0].run_id, len(records), verify(records)


def _read_line(line: str, number: int) -> Record:
    head, found, text = line.partition(_EVENT)
    facts: Any = None
    if found and text.endswith("}"):
        try:
            facts = json.loads(head + "}")
        except ValueError:
            facts = None
    if not isinstance(facts, dict) or facts.keys() != _FACTS.keys():
        raise JournalBroken(f"line {number} is no record of a run: it was changed, or the file is another")
    for name, kind in _FACTS.items():
        if not isinstance(facts[name], kind) or isinstance(facts[name], bool):
            raise JournalBroken(f"line {number}: {name} is {facts[name]!r:.60}")
    return Record(**facts, text=text[:-1])


def _cut_off(row: RunRow, records: Sequence[Record]) -> Break | None:
    """Return a break if the run's row says that it ended and its last record is missing."""
    if row.ended is None or (records and records[-1].at >= row.ended):
        return None
    return Break(row.run_id, len(records), "records are missing at the end")
