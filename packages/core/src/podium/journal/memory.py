"""A journal in the memory of one process."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from threading import RLock
from time import time
from typing import Self

import anyio.lowlevel

from podium.errors import JournalBroken, JournalError, RunExists, RunHeld
from podium.journal.audit import read_lines, read_run
from podium.journal.journal import (
    Head,
    Journal,
    Log,
    Record,
    RunRow,
    Wanted,
    add,
    check_id,
    head_of,
    unknown,
    unwritable,
)
from podium.secrets import scrub
from podium.types.codec import encode
from podium.types.events import ApprovalGiven, Event, RunEnded, RunStarted, RunStopped, StepEnded, StepStarted


class _Run:
    """One run."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.records: list[Record] = []
        self.answers: list[RunEnded] = []
        """Its ends with a key of the answer."""
        self.log: _MemoryLog | None = None
        self._row: RunRow | None = None

    def add(self, event: Event) -> None:
        text, at = scrub(encode(event)), time()
        head = add(head_of(self.records), self.run_id, at, text)
        self.keep(
            Record(run_id=self.run_id, number=head.records - 1, at=at, text=text, hash=head.hash), event
        )

    def keep(self, record: Record, event: Event) -> None:
        self.records.append(record)
        self._row = RunRow.begun(record, event) if self._row is None else self._row.after(event, record.at)
        if isinstance(event, RunEnded | RunStopped):
            self.log = None
        if isinstance(event, RunEnded) and event.answer_key:
            self.answers.append(event)

    @property
    def row(self) -> RunRow:
        assert self._row is not None
        return self._row.released() if self.log is None else replace(self._row, holder="this process")


class _MemoryLog(Log):
    def __init__(self, run: _Run, journal: "MemoryJournal") -> None:
        self.run_id = run.run_id
        self._run = run
        self._journal = journal
        self._lock = journal._lock  # noqa: SLF001 - a part of the journal
        self._is_behind = False
        """Whether what is stored elsewhere lacks an action or a decision."""
        self._failure: JournalError | None = None

    @property
    def head(self) -> Head | None:
        return head_of(self._run.records)

    def append(self, event: Event) -> None:
        with self._lock:
            if not self._takes(event) or self._run.log is not self or self._failure is not None:
                return
            try:
                self._run.add(event)
                self._is_behind = self._is_behind or _is_decisive(event)
            except (TypeError, ValueError) as error:
                self._failure = unwritable(self.run_id, event, error)
        if self._failure is not None and self.on_lost is not None:
            self.on_lost()

    async def flush(self) -> None:
        await anyio.lowlevel.checkpoint()
        if self._failure is not None:
            raise self._failure
        if self._is_behind and self._journal.keep is not None:
            self._is_behind = False
            await self._journal.keep()

    async def aclose(self) -> None:
        with self._lock:
            if self._run.log is self:
                self._run.log = None
        if self._failure is not None:
            raise self._failure


def _is_decisive(event: Event) -> bool:
    """Return whether an event is of an action, or a person's decision."""
    if isinstance(event, StepStarted):
        return bool(event.action)
    if isinstance(event, ApprovalGiven):
        return True
    return isinstance(event, StepEnded) and event.outcome.action is not None


class MemoryJournal(Journal):
    """Records runs in the memory of this process, for tests, and to replay and resume within a process."""

    keep: Callable[[], Awaitable[None]] | None = None
    """Stores the journal elsewhere: called before an action begins, after its end, and after a decision."""

    def __init__(self) -> None:
        self._runs: dict[str, _Run] = {}
        self._lock = RLock()

    @classmethod
    def of(cls, lines: Iterable[str]) -> Self:
        """Return a journal with the runs from `podium.journal.export`, none of them held.

        Raises:
            JournalBroken: a line is not from `export`, or was changed.
        """
        journal = cls()
        for records in read_lines(lines):
            entries, broken = read_run(records)
            if broken is not None:
                raise JournalBroken(str(broken))
            run = journal._runs[records[0].run_id] = _Run(records[0].run_id)
            for record, entry in zip(records, entries, strict=True):
                run.keep(record, entry.event)
        return journal

    async def begin(self, started: RunStarted, *, minted: bool) -> Log:
        """Record a new run and hold it."""
        check_id(started.run_id)
        del minted
        with self._lock:
            if started.run_id in self._runs:
                raise RunExists(f"run {started.run_id} already exists: choose another id")
            run = _Run(started.run_id)
            run.add(started)
            self._runs[run.run_id] = run
            log = run.log = _MemoryLog(run, self)
        return log

    async def claim(self, run_id: str, *, force: bool = False) -> Log:
        """Hold an earlier run that is not held."""
        del force
        with self._lock:
            run = self._find(run_id)
            if run.log is not None:
                raise RunHeld(f"run {run_id} is running: wait for it to end or stop")
            entries = tuple(record.entry() for record in run.records)
            log = run.log = _MemoryLog(run, self)
            log.entries = entries
        return log

    async def records(self, run_id: str) -> Sequence[Record]:
        """Return all records of a run in their stored form, in order."""
        with self._lock:
            return tuple(self._find(run_id).records)

    async def _rows(self, wanted: Wanted, limit: int | None) -> Sequence[RunRow]:
        with self._lock:
            rows = [row for run in self._runs.values() if wanted.fits(row := run.row)]
        return tuple(sorted(rows, key=lambda row: (row.began, row.run_id), reverse=True)[:limit])

    async def answer_labels(self, keys: Collection[str]) -> Mapping[str, frozenset[str]]:
        """Return the labels of recorded answers."""
        found: dict[str, frozenset[str]] = {}
        with self._lock:
            for end in (end for run in self._runs.values() for end in run.answers):
                if end.answer_key in keys:
                    found[end.answer_key] = found.get(end.answer_key, end.result.labels) | end.result.labels
        return found

    async def delete(self, run_id: str) -> None:
        """Delete a run and all runs nested in it."""
        with self._lock:
            doomed = [self._find(run_id)]
            for run in doomed:
                doomed += [inner for inner in self._runs.values() if inner.row.parent == run.run_id]
            if any(run.log is not None for run in doomed):
                raise RunHeld(f"run {run_id} is running: wait for it to end or stop")
            for run in doomed:
                del self._runs[run.run_id]

    def _find(self, run_id: str) -> _Run:
        if run_id not in self._runs:
            raise unknown(run_id)
        return self._runs[run_id]
