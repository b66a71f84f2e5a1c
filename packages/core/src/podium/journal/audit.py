"""Verifies the hash chains of a journal, and exports its runs as JSON lines.

Each line is one record: run, number, time and hash, and the event at the end. The text of the event is
exactly the stored text, because the hash covers this text.
"""

import json
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from typing import Any

from podium.errors import JournalBroken, RunUnknown
from podium.journal.answer_cache import Cache
from podium.journal.entry import Entry, Record, RunRow
from podium.journal.hash_chain import Break, head_of
from podium.journal.journal import Journal
from podium.journal.verification import Anchor, Verifier, is_other_answer, wrong_row

_EVENT = ',"event":'
_FACTS: dict[str, type | tuple[type, ...]] = {"run_id": str, "number": int, "at": (int, float), "hash": str}


async def verify_runs(
    journal: Journal,
    run_ids: Sequence[str] | None = None,
    *,
    anchors: Iterable[Anchor] = (),
    cache: Cache | None = None,
) -> tuple[Break, ...]:
    """Return the places where runs were changed after they were recorded; empty if there are none.

    Args:
        journal: the journal.
        run_ids: the runs to verify, with the runs nested in them; `None` for all runs.
        anchors: earlier heads of the runs. With these, the audit finds runs that were deleted or shortened
            later. With `run_ids`, only the anchors of these runs are used.
        cache: the cache from which the runs may have reused answers; `None` verifies no answers.

    Raises:
        RunUnknown: one of the runs is not in the journal.
    """
    async with journal:
        rows = {row.run_id: row for row in await journal.runs(limit=None, nested=True)}
        order = list(_outer_first(rows, run_ids))
        known = anchors if run_ids is None else [each for each in anchors if each.run_id in order]
        verifier = Verifier(known)
        found = [await _verify_run(journal, verifier, rows[run_id]) for run_id in order]
        for missing in list(verifier.missing()):  # it may have begun after the rows were read
            row = await _row(journal, missing.run_id)
            found.append(missing if row is None else await _verify_run(journal, verifier, row))
        orphans = [rows[run_id] for run_id in order if rows[run_id].parent not in (None, *rows)]
        found += [Break(each.run_id, None, f"its outer run {each.parent} is missing") for each in orphans]
        if verifier.reused and cache is not None:
            async with cache:
                for key, entries in verifier.reused.items():
                    found += await _wrong_answers(cache, key, entries)
        if run_ids is None:
            found += [Break(run_id, None, "its row is missing") for run_id in await journal.strays()]
    return tuple(filter(None, found))


def _outer_first(rows: Mapping[str, RunRow], run_ids: Sequence[str] | None) -> Iterator[str]:
    """Yield the ids of runs, each run before the runs nested in it.

    Raises:
        RunUnknown: one of the runs is not in `rows`.
    """
    nested: dict[str | None, list[str]] = {}
    for row in rows.values():
        nested.setdefault(row.parent, []).append(row.run_id)
    if run_ids is None:
        tops = [run_id for run_id, row in rows.items() if row.parent not in rows]
        run_ids = [*tops, *rows]  # rows that were changed may name each other as parents
    seen = set[str]()
    for run_id in run_ids:
        if run_id not in rows:
            raise RunUnknown(f"run {run_id} is not in the journal")
        left = [run_id]
        while left:
            if (each := left.pop()) not in seen:
                seen.add(each)
                yield each
                left += nested.get(each, ())


async def _verify_run(journal: Journal, verifier: Verifier, row: RunRow) -> Break | None:
    try:
        records = await journal.records(row.run_id)
        broken = verifier.take(records) if records else Break(row.run_id, None, "its records are missing")
        while broken is None and (broken := wrong_row(row, records)) is not None:
            before, row = row, await _row(journal, row.run_id) or row
            if row == before:
                break
            broken, records = None, await journal.records(row.run_id)  # the run has continued
    except RunUnknown:  # just deleted
        verifier.forget(row.run_id)
        return None
    return broken


async def _wrong_answers(cache: Cache, key: str, entries: Sequence[Entry]) -> Sequence[Break]:
    """Return a break for each step that reused an answer that differs from the stored answer.

    If the answer was stored after the end of the step, a difference is not a break: the answer then replaces
    an answer that was pruned.
    """
    try:
        stored = await cache.stored(key)
    except JournalBroken:
        wrong = entries
    else:
        wrong = [] if stored is None else [each for each in entries if is_other_answer(each, stored)]
    told = f"the cached answer {key}, which the step reused, was changed"
    return [Break(each.run_id, each.number, told) for each in wrong]


async def _row(journal: Journal, run_id: str) -> RunRow | None:
    rows = await journal.runs(limit=None, nested=True, prefix=run_id)
    return next((row for row in rows if row.run_id == run_id), None)


async def anchors_of(journal: Journal, run_ids: Sequence[str] | None = None) -> AsyncGenerator[Anchor, None]:
    """Yield the current heads of runs, oldest run first, to be kept outside the journal.

    Args:
        journal: the journal.
        run_ids: the runs, with the runs nested in them; `None` for all runs.

    Raises:
        RunUnknown: one of the runs is not in the journal.
    """
    async with journal:
        rows = {row.run_id: row for row in reversed(await journal.runs(limit=None, nested=True))}
        for run_id in _outer_first(rows, run_ids):
            if head := head_of(await journal.records(run_id)):
                yield Anchor(run_id, head)


async def export(journal: Journal, run_ids: Sequence[str] | None = None) -> AsyncGenerator[str, None]:
    """Yield the records of runs as JSON lines: each run, then the runs nested in it.

    Args:
        journal: the journal.
        run_ids: the runs; `None` for all runs, oldest first.

    Raises:
        RunUnknown: one of the runs is not in the journal.
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
