"""Verifies the hash chains of a journal, exports runs, and yields anchors."""

import json
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from dataclasses import dataclass

from podium.errors import JournalBroken, RunUnknown
from podium.journal.cache import Cache
from podium.journal.journal import Break, Entry, Head, Journal, Record, RunRow, head_of, verify
from podium.secrets import scrub
from podium.types.events import NestedRunEnded, RunResumed, RunStarted, StepEnded

Family = Sequence[RunRow]
"""A run, and then the runs nested in it; each run is before the runs nested in it."""


async def families(
    journal: Journal,
    run_ids: Sequence[str] | None = None,
    *,
    since: float | None = None,
    until: float | None = None,
) -> AsyncGenerator[Family, None]:
    """Yield families of runs."""
    if run_ids is not None:
        for run_id in run_ids:
            row = await find(journal, run_id)
            if row is None:
                raise RunUnknown(f"run {run_id} is not in the journal")
            yield await _family(journal, row)
        return
    async for page in journal.pages(nested=True, since=since, until=until):
        known: dict[str, RunRow | None] = {row.run_id: row for row in page}
        asked: Sequence[RunRow] = page
        while missing := list({row.parent for row in asked if row.parent is not None} - known.keys()):
            asked = await journal.runs(limit=None, ids=missing, nested=True)
            known |= dict.fromkeys(missing) | {row.run_id: row for row in asked}
        for row in page:
            if _is_first(row, known):
                yield await _family(journal, row)


async def find(journal: Journal, run_id: str) -> RunRow | None:
    """Return the row of a run; `None` if there is none."""
    rows = await journal.runs(ids=[run_id], nested=True)
    return rows[0] if rows else None


async def _family(journal: Journal, first: RunRow) -> Family:
    family, known = [first], {first.run_id}
    for row in family:  # the loop adds to it
        nested = await journal.runs(limit=None, parent=row.run_id)
        family += [each for each in nested if each.run_id not in known]
        known |= {each.run_id for each in nested}
    return family


def _is_first(row: RunRow, known: dict[str, RunRow | None]) -> bool:
    """Return whether a run is the first of a family: no run, or a circle of runs, is around it."""
    seen, outer = {row.run_id}, row
    while outer.parent is not None and outer.parent not in seen:
        around = known[outer.parent]
        if around is None:
            return outer is row
        seen.add(around.run_id)
        outer = around
    return row.parent is None or outer.parent == row.run_id


@dataclass(frozen=True, slots=True)
class Anchor:
    """An earlier head of a run.

    If you keep anchors outside the journal, an audit finds runs that were shortened or deleted.
    """

    run_id: str
    head: Head

    def to_line(self) -> str:
        """Return the anchor as a JSON line, without a line break."""
        return json.dumps({"run_id": self.run_id, "records": self.head.records, "hash": self.head.hash})


def read_anchors(lines: Iterable[str]) -> Iterator[Anchor]:
    """Yield anchors from lines that `Anchor.to_line` returned; empty lines are skipped.

    Raises:
        JournalBroken: a line is not an anchor.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            read = json.loads(line)
        except (ValueError, RecursionError):
            read = None
        match read:
            case {"run_id": str(run_id), "records": int(records), "hash": str(digest), **rest} if (
                not rest and records > 0 and not isinstance(records, bool)
            ):
                yield Anchor(run_id, Head(records, digest))
            case _:
                raise JournalBroken(
                    f"line {number} is not an anchor: the file was changed, or is not a file of anchors"
                )


class Verifier:
    """Finds changes in runs. The caller passes each outer run before the runs nested in it."""

    def __init__(self, anchors: Iterable[Anchor]) -> None:
        self.reused: defaultdict[str, list[Entry]] = defaultdict(list)
        """The ends of steps that reused a cached answer, by the answer's key."""
        self._expected: defaultdict[str, list[tuple[Head, str]]] = defaultdict(list)
        """Earlier heads of each run, with their sources."""
        for anchor in anchors:
            self._expected[anchor.run_id].append((anchor.head, "the anchor"))

    def take(self, records: Sequence[Record]) -> Break | None:
        """Return the first break in a run, which has at least one record; `None` if there is none."""
        run_id = records[0].run_id
        expected = self._expected.pop(run_id, ())
        number = 0
        try:
            records[0].entry()  # first, because another schema may have other hashes
            if broken := verify(records):
                return broken
            for number, record in enumerate(records):
                entry = record.entry()
                if entry.event.run_id != run_id:
                    return Break(run_id, number, f"the event belongs to run {entry.event.run_id}")
                if isinstance(entry.event, RunStarted) != (number == 0):
                    return Break(run_id, number, "a run must begin with RunStarted, and have no other")
                self._note(entry)
        except JournalBroken as error:
            return Break(run_id, number, str(error))
        return next(filter(None, (_wrong_head(records, head, source) for head, source in expected)), None)

    def forget(self, run_id: str) -> None:
        """Remove a run from the expected runs, because it was deleted with `delete` or `prune`."""
        self._expected.pop(run_id, None)

    def missing(self) -> Iterator[Break]:
        """Yield a break for each missing run: an outer run or an anchor names it, but `take` never got it."""
        for run_id, expected in self._expected.items():
            yield Break(run_id, None, f"the run is missing: {expected[0][1]} refers to it")

    def _note(self, entry: Entry) -> None:
        """Store the nested run or the cached answer to which an event refers."""
        match entry.event:
            case NestedRunEnded(nested=nested, records=records, hash=digest):
                self._expected[nested].append((Head(records, digest), f"its outer run {entry.run_id}"))
            case StepEnded(outcome=outcome) if outcome.cache_key:
                self.reused[outcome.cache_key].append(entry)


def _wrong_head(records: Sequence[Record], head: Head, source: str) -> Break | None:
    run_id = records[0].run_id
    if head.records > len(records):
        return Break(run_id, len(records), f"records are missing: {source} has {head.records}")
    if head.records < 1 or records[head.records - 1].hash != head.hash:
        return Break(run_id, head.records - 1, f"the record differs from the record of {source}")
    return None


_OPEN_STATES = ("running", "stopped", "dead")
"""States of a run whose last record is not an end. Such a state changes without a record."""


def _wrong_row(row: RunRow, records: Sequence[Record]) -> Break | None:
    """Return a break if a run's row differs from its records, whose chain is valid."""
    expected, last = RunRow.begun(records[0], records[0].entry().event), records[-1]
    if len(records) > 1:
        expected = expected.after(last.entry().event, last.at)
    resumed = [record.entry().event for record in records if RunResumed.type in record.text[:60]]
    recoveries = max((event.recovery for event in resumed if isinstance(event, RunResumed)), default=0)
    compared = ("parent", "question", "began", "ended", "cost")
    names = [name for name in compared if getattr(row, name) != getattr(expected, name)]
    if row.state not in (_OPEN_STATES if expected.state == "running" else (expected.state, "dead")):
        names.append("state")
    if row.recoveries < recoveries + (row.state == "dead"):  # the refused claim counts too
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
    facts = {name: getattr(record, name) for name in ("run_id", "number", "at", "hash")}
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
) -> Iterator[tuple[str, Sequence[Record], Break | None]]:
    """Yield, for each exported run, its id, its records, and the place where it was changed.

    A missing run has no records. A run is missing if an outer run or an anchor refers to it, and the lines do
    not have it.

    Raises:
        JournalBroken: a line is not from `export`.
    """
    verifier = Verifier(anchors)
    for records in read_lines(lines):
        yield records[0].run_id, records, verifier.take(records)
    for missing in verifier.missing():
        yield missing.run_id, (), missing


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
) -> AsyncGenerator[tuple[Family, Sequence[Break]], None]:
    """Verify a journal, and yield the runs of each part with the places where they were changed.

    A part is a run with the runs nested in it, newest first. Breaks that concern no run of the journal have
    no runs.

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
    async with journal:
        async for family in families(journal, run_ids, since=since, until=until):
            own = [anchor for row in family for anchor in known.pop(row.run_id, ())]
            yield family, await _verify_family(journal, family, own, cache)
        if run_ids is not None:
            return
        for run_id in list(known):
            row = await find(journal, run_id)  # it began before `since`, or while the others were read
            if row is None:
                yield (), tuple(Verifier(known[run_id]).missing())
            else:
                yield [row], await _verify_family(journal, [row], known[run_id], cache)
        if since is None and until is None:
            yield (), [Break(run_id, None, "its row is missing") for run_id in await journal.strays()]


async def _verify_family(
    journal: Journal, family: Family, anchors: Sequence[Anchor], cache: Cache | None
) -> Sequence[Break]:
    """Return the breaks of a run and of the runs nested in it."""
    first = family[0]
    verifier = Verifier(anchors)
    found = [await _verify_run(journal, verifier, row) for row in family]
    for missing in list(verifier.missing()):
        row = await find(journal, missing.run_id)  # it may have begun after the rows were read
        if row is not None:
            found.append(await _verify_run(journal, verifier, row))
        elif await find(journal, first.run_id) is not None:  # otherwise all of them were just deleted
            found.append(missing)
    if first.parent is not None and await find(journal, first.parent) is None:
        found.append(Break(first.run_id, None, f"its outer run {first.parent} is missing"))
    if verifier.reused and cache is not None:
        async with cache:
            for key, entries in verifier.reused.items():
                found += await _wrong_answers(cache, key, entries)
    return list(filter(None, found))


async def _verify_run(journal: Journal, verifier: Verifier, row: RunRow) -> Break | None:
    try:
        records = await journal.records(row.run_id)
        broken = verifier.take(records) if records else Break(row.run_id, None, "its records are missing")
        while broken is None and (broken := _wrong_row(row, records)) is not None:
            before, row = row, await find(journal, row.run_id) or row
            if row == before:
                break
            broken, records = None, await journal.records(row.run_id)  # the run has continued
    except RunUnknown:  # just deleted
        verifier.forget(row.run_id)
        return None
    return broken


async def _wrong_answers(cache: Cache, key: str, entries: Sequence[Entry]) -> Sequence[Break]:
    """Return a break for each step that reused an answer that differs from the stored answer."""
    told = f"the cached answer {key}, which the step reused, was changed"
    try:
        stored = await cache.stored(key)
    except JournalBroken:
        return [Break(each.run_id, each.number, told) for each in entries]
    if stored is None:
        return []
    wrong: list[Break] = []
    for entry in entries:
        match entry.event:
            case StepEnded(outcome=outcome) if stored.at <= entry.at and scrub(outcome.text) != scrub(
                stored.answer.text
            ):
                wrong.append(Break(entry.run_id, entry.number, told))
    return wrong


async def anchors_of(journal: Journal, run_ids: Sequence[str] | None = None) -> AsyncGenerator[Anchor, None]:
    """Yield the current heads of runs, newest run first, to be kept outside the journal.

    Args:
        journal: the journal.
        run_ids: the runs, with the runs nested in them; `None` for all runs.

    Raises:
        RunUnknown: one of the runs is not in the journal.
    """
    async with journal:
        async for family in families(journal, run_ids):
            for row in family:
                try:
                    head = head_of(await journal.records(row.run_id))
                except RunUnknown:  # just deleted
                    continue
                if head is not None:
                    yield Anchor(row.run_id, head)
