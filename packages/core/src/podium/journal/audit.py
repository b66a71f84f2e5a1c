"""Verifies the hash chains of a journal, exports runs, and yields anchors."""

import json
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Annotated

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config

from podium.errors import JournalBroken, RunUnknown
from podium.journal.cache import Cache
from podium.journal.journal import Break, Entry, Journal, Record, RunRow, head_of, unknown, verify
from podium.secrets import scrub
from podium.types.events import NestedRunEnded, RunResumed, RunStarted, StepEnded


async def _with_nested(
    journal: Journal, run_ids: Sequence[str] | None = None
) -> AsyncGenerator[RunRow, None]:
    """Yield the rows of runs, each before the runs nested in it; `None` stands for all runs, newest first."""
    if run_ids is None:
        async for page in journal.pages(nested=True):
            for row in page:
                if row.parent is None or await _find(journal, row.parent) is None:
                    async for each in _family(journal, row):
                        yield each
    for run_id in run_ids or ():
        found = await _find(journal, run_id)
        if found is None:
            raise unknown(run_id)
        async for each in _family(journal, found):
            yield each


async def _find(journal: Journal, run_id: str) -> RunRow | None:
    """Return the row of a run; `None` if there is none."""
    rows = await journal.runs(ids=[run_id], nested=True)
    return rows[0] if rows else None


async def _family(journal: Journal, first: RunRow) -> AsyncGenerator[RunRow, None]:
    family, known = [first], {first.run_id}
    for row in family:  # the loop adds to it
        yield row
        nested = await journal.runs(limit=None, parent=row.run_id)
        family += [each for each in nested if each.run_id not in known]
        known |= {each.run_id for each in nested}


@with_config(ConfigDict(extra="forbid", strict=True))
@dataclass(frozen=True, slots=True)
class Anchor:
    """An earlier head of a run.

    If you keep anchors outside the journal, an audit finds runs that were shortened or deleted.
    """

    run_id: str
    records: Annotated[int, Field(ge=1)]
    """The number of records that the run had."""
    hash: str
    """The hash of the last of these records, which covers all of them."""

    def to_line(self) -> str:
        """Return the anchor as a JSON line, without a line break."""
        return json.dumps(asdict(self))


def read_anchors(lines: Iterable[str]) -> Iterator[Anchor]:
    """Yield anchors from lines that `Anchor.to_line` returned; `JournalBroken` for another line."""
    form = TypeAdapter(Anchor)
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield form.validate_json(line)
            except ValidationError as error:
                raise JournalBroken(
                    f"line {number} is not an anchor: the file was changed, or is not a file of anchors"
                ) from error


def read_run(records: Sequence[Record]) -> tuple[Sequence[Entry], Break | None]:
    """Return the entries of a run, which has at least one record, up to its first break, and the break."""
    run_id, entries = records[0].run_id, list[Entry]()
    try:
        records[0].entry()  # first, because another schema may have other hashes
        if broken := verify(records):
            return entries, broken
        for number, record in enumerate(records):
            entry = record.entry()
            if entry.event.run_id != run_id:
                return entries, Break(run_id, number, f"the event belongs to run {entry.event.run_id}")
            if isinstance(entry.event, RunStarted) != (number == 0):
                return entries, Break(run_id, number, "a run must begin with RunStarted, and have no other")
            entries.append(entry)
    except JournalBroken as error:
        return entries, Break(run_id, len(entries), str(error))
    return entries, None


def _nested_heads(entries: Sequence[Entry]) -> Iterator[Anchor]:
    """Yield the heads of nested runs that an outer run has recorded."""
    for entry in entries:
        match entry.event:
            case NestedRunEnded(nested=nested, records=records, hash=digest):
                yield Anchor(nested, records, digest)


def _missing(run_id: str, source: str) -> Break:
    return Break(run_id, None, f"the run is missing: {source} refers to it")


def _wrong_head(records: Sequence[Record], head: Anchor, source: str) -> Break | None:
    if head.records > len(records):
        return Break(head.run_id, len(records), f"records are missing: {source} has {head.records}")
    if head.records < 1 or records[head.records - 1].hash != head.hash:
        return Break(head.run_id, head.records - 1, f"the record differs from the record of {source}")
    return None


_OPEN_STATES = ("running", "stopped", "dead")
"""States of a run whose last record is not an end. Such a state changes without a record."""


def _wrong_row(row: RunRow, entries: Sequence[Entry], first: Record) -> Break | None:
    """Return a break if a run's row differs from its records, whose chain is valid."""
    expected, last = RunRow.begun(first, entries[0].event), entries[-1]
    if len(entries) > 1:
        expected = expected.after(last.event, last.at)
    resumed = (entry.event.recovery for entry in entries if isinstance(entry.event, RunResumed))
    compared = ("parent", "question", "began", "ended", "cost")
    names = [name for name in compared if getattr(row, name) != getattr(expected, name)]
    if row.state not in (_OPEN_STATES if expected.state == "running" else (expected.state, "dead")):
        names.append("state")
    if row.recoveries < max(resumed, default=0) + (row.state == "dead"):  # the refused claim counts too
        names.append("recoveries")
    if not names:
        return None
    return Break(row.run_id, None, f"its row differs from its records: {', '.join(names)}")


_EVENT = ',"event":'


async def export(journal: Journal, run_ids: Sequence[str] | None = None) -> AsyncGenerator[str, None]:
    """Yield the records of runs as JSON lines: each run, then the runs nested in it.

    Args:
        journal: the journal.
        run_ids: the runs; `None` for all runs, newest first.

    Raises:
        RunUnknown: one of the runs is not in the journal.
    """
    async for records in _records_of_each(journal, run_ids):
        for record in records:
            yield to_line(record)


async def _records_of_each(
    journal: Journal, run_ids: Sequence[str] | None
) -> AsyncGenerator[Sequence[Record], None]:
    async with journal:
        async for row in _with_nested(journal, run_ids):
            try:
                records = await journal.records(row.run_id)
            except RunUnknown:  # just deleted
                continue
            yield records


def to_line(record: Record) -> str:
    """Return a record as a JSON line, without a line break."""
    facts = {name: getattr(record, name) for name in ("run_id", "number", "at", "hash")}
    return json.dumps(facts, ensure_ascii=False, separators=(",", ":"))[:-1] + _EVENT + record.text + "}"


def read_lines(lines: Iterable[str]) -> Iterator[Sequence[Record]]:
    """Yield the records of each run from lines that `export` wrote; `JournalBroken` for another line."""
    numbered = ((number, line.strip("\r\n")) for number, line in enumerate(lines, 1) if line.strip())
    records = (_read_line(line, number) for number, line in numbered)
    for _, run in groupby(records, lambda record: record.run_id):
        yield tuple(run)


def verify_lines(
    lines: Iterable[str], *, anchors: Iterable[Anchor] = ()
) -> Iterator[tuple[str, Sequence[Record], Break | None]]:
    """Yield, for each exported run, its id, its records, and the place where it was changed.

    A missing run has no records. A run is missing if an outer run or an anchor refers to it, and the lines do
    not have it.

    Raises:
        JournalBroken: a line is not from `export`.
    """
    expected: defaultdict[str, list[tuple[Anchor, str]]] = defaultdict(list)
    for anchor in anchors:
        expected[anchor.run_id].append((anchor, "the anchor"))
    for records in read_lines(lines):
        run_id = records[0].run_id
        entries, broken = read_run(records)
        for head in _nested_heads(entries):
            expected[head.run_id].append((head, f"its outer run {run_id}"))
        wrong = (_wrong_head(records, head, source) for head, source in expected.pop(run_id, ()))
        yield run_id, records, broken or next(filter(None, wrong), None)
    for run_id, ((_, source), *_) in expected.items():
        yield run_id, (), _missing(run_id, source)


def _read_line(line: str, number: int) -> Record:
    head, found, text = line.partition(_EVENT)
    try:
        facts = json.loads(head + "}") if found and text.endswith("}") else None
    except ValueError:
        facts = None
    match facts:
        case {
            "run_id": str(run),
            "number": int(place),
            "at": int() | float() as at,
            "hash": str(digest),
            **rest,
        }:
            if not rest:
                return Record(run_id=run, number=place, at=at, text=text[:-1], hash=digest)
    raise JournalBroken(
        f"line {number} is not a record of a run: the line was changed, or the file is not an export"
    )


async def verify_runs(
    journal: Journal,
    run_ids: Sequence[str] | None = None,
    *,
    anchors: Iterable[Anchor] = (),
    cache: Cache | None = None,
) -> tuple[Break, ...]:
    """Return the places where runs were changed after they were recorded; empty if there are none.

    The arguments and errors are those of `verify_each`.
    """
    verified = verify_each(journal, run_ids, anchors=anchors, cache=cache)
    return tuple([broken async for _, breaks in verified for broken in breaks])


async def verify_each(
    journal: Journal,
    run_ids: Sequence[str] | None = None,
    *,
    anchors: Iterable[Anchor] = (),
    cache: Cache | None = None,
    since: float | None = None,
    until: float | None = None,
) -> AsyncGenerator[tuple[RunRow | None, Sequence[Break]], None]:
    """Verify a journal, and yield each run, newest first, with the places where it was changed.

    Breaks that concern no run of the journal have no run.

    Args:
        journal: the journal.
        run_ids: the runs to verify, with the runs nested in them; `None` for all runs.
        anchors: earlier heads of the runs. With these, the audit finds runs that were deleted or shortened
            later. With `run_ids`, only the anchors of these runs are used. Without, all runs of the anchors
            are verified.
        cache: the cache from which the runs may have reused answers; `None` verifies no answers.
        since: with all runs, verify only those that began at this time or later, in seconds of Unix time.
        until: with all runs, verify only those that began at this time or earlier.

    Raises:
        RunUnknown: one of the runs is not in the journal.
    """
    known: defaultdict[str, list[Anchor]] = defaultdict(list)
    for anchor in anchors:
        known[anchor.run_id].append(anchor)
    async with journal, cache or nullcontext():
        if run_ids is not None:
            async for row in _with_nested(journal, run_ids):
                yield row, await _verify_run(journal, row, known[row.run_id], cache)
            return
        async for page in journal.pages(nested=True, since=since, until=until):
            for row in page:
                yield row, await _verify_run(journal, row, known.pop(row.run_id, ()), cache)
        for run_id, heads in known.items():
            found = await _find(journal, run_id)  # it began before `since`, or while the others were read
            if found is None:
                yield None, [_missing(run_id, "the anchor")]
            else:
                yield found, await _verify_run(journal, found, heads, cache)
        if since is None and until is None:
            yield None, [Break(run_id, None, "its row is missing") for run_id in await journal.strays()]


async def _verify_run(
    journal: Journal, row: RunRow, anchors: Sequence[Anchor], cache: Cache | None
) -> Sequence[Break]:
    """Return the breaks of a run, and those that it shows in its outer run and in the runs nested in it."""
    try:
        records = await journal.records(row.run_id)
        if not records:
            return [Break(row.run_id, None, "its records are missing")]
        entries, broken = read_run(records)
        while broken is None and (broken := _wrong_row(row, entries, records[0])) is not None:
            before, row = row, await _find(journal, row.run_id) or row
            if row == before:
                break
            records = await journal.records(row.run_id)  # the run has continued
            entries, broken = read_run(records)
    except RunUnknown:  # just deleted
        return []
    found = [
        broken or next(filter(None, (_wrong_head(records, each, "the anchor") for each in anchors)), None)
    ]
    found += [await _wrong_nested(journal, row.run_id, head) for head in _nested_heads(entries)]
    if row.parent is not None and await _find(journal, row.parent) is None:
        found.append(Break(row.run_id, None, f"its outer run {row.parent} is missing"))
    if cache is not None:
        found += [await _wrong_answer(cache, entry) for entry in entries]
    return list(filter(None, found))


async def _wrong_nested(journal: Journal, run_id: str, head: Anchor) -> Break | None:
    """Return a break if a nested run has not the head that its outer run recorded."""
    source = f"its outer run {run_id}"
    try:
        return _wrong_head(await journal.records(head.run_id), head, source)
    except RunUnknown:
        is_there = await _find(journal, run_id) is not None  # otherwise both were just deleted
        return _missing(head.run_id, source) if is_there else None


async def _wrong_answer(cache: Cache, entry: Entry) -> Break | None:
    """Return a break if a step reused a cached answer that differs from the stored answer."""
    if not isinstance(entry.event, StepEnded) or not entry.event.outcome.cache_key:
        return None
    outcome = entry.event.outcome
    try:
        stored = await cache.stored(outcome.cache_key)
    except JournalBroken:
        is_changed = True
    else:
        if stored is None or stored[0] > entry.at:
            return None
        is_changed = scrub(outcome.text) != scrub(stored[1].text)
    told = f"the cached answer {outcome.cache_key}, which the step reused, was changed"
    return Break(entry.run_id, entry.number, told) if is_changed else None


async def anchors_of(journal: Journal, run_ids: Sequence[str] | None = None) -> AsyncGenerator[Anchor, None]:
    """Yield the current heads of runs, newest run first, to be kept outside the journal.

    Args:
        journal: the journal.
        run_ids: the runs, with the runs nested in them; `None` for all runs.

    Raises:
        RunUnknown: one of the runs is not in the journal.
    """
    async for records in _records_of_each(journal, run_ids):
        if (head := head_of(records)) is not None:
            yield Anchor(records[0].run_id, head.records, head.hash)
