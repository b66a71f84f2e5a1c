"""Exports runs as JSON lines, and reads and verifies such lines.

Each line is one record: run, number, time and hash, and the event at the end. The text of the event is
exactly the stored text, because the hash covers this text.
"""

import json
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from typing import Any

from podium.errors import JournalBroken, RunUnknown
from podium.journal.entry import Record
from podium.journal.families import families
from podium.journal.hash_chain import Break
from podium.journal.journal import Journal
from podium.journal.verification import Anchor, Verifier

_EVENT = ',"event":'
_FACTS: dict[str, type | tuple[type, ...]] = {"run_id": str, "number": int, "at": (int, float), "hash": str}


async def export(journal: Journal, run_ids: Sequence[str] | None = None) -> AsyncGenerator[str, None]:
    """Yield the records of runs as JSON lines: each run, then the runs nested in it.

    Args:
        journal: the journal.
        run_ids: the runs; `None` for all runs, newest first.

    Raises:
        RunUnknown: one of the runs is not in the journal.
    """
    async with journal:
        async for family in families(journal, run_ids):
            for row in family:
                try:
                    records = await journal.records(row.run_id)
                except RunUnknown:  # just deleted
                    continue
                for record in records:
                    yield to_line(record)


def to_line(record: Record) -> str:
    """Return a record as a JSON line, without a line break."""
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


def verify_lines(
    lines: Iterable[str], *, anchors: Iterable[Anchor] = ()
) -> Iterator[tuple[str, int, Break | None]]:
    """Yield, for each exported run, its id, the number of its records, and the place where it was changed.

    A missing run has 0 records. A run is missing if an outer run or an anchor refers to it, and the lines do
    not have it.

    Raises:
        JournalBroken: a line is not from `export`.
    """
    verifier = Verifier(anchors)
    for records in read_lines(lines):
        yield records[0].run_id, len(records), verifier.take(records)
    for missing in verifier.missing():
        yield missing.run_id, 0, missing


def _read_line(line: str, number: int) -> Record:
    head, found, text = line.partition(_EVENT)
    facts: Any = None
    if found and text.endswith("}"):
        try:
            facts = json.loads(head + "}")
        except ValueError:
            facts = None
    if not isinstance(facts, dict) or facts.keys() != _FACTS.keys():
        raise JournalBroken(
            f"line {number} is not a record of a run: the line was changed, or the file is not an export"
        )
    for name, kind in _FACTS.items():
        if not isinstance(facts[name], kind) or isinstance(facts[name], bool):
            raise JournalBroken(f"line {number}: {name} is {facts[name]!r:.60}")
    return Record(**facts, text=text[:-1])
