"""A journal in the memory of one process."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from threading import RLock
from time import time
from typing import Self

import anyio.lowlevel

from podium.errors import JournalBroken, JournalError, RunExists, RunHeld, RunUnknown
from podium.journal.audit import read_lines
from podium.journal.journal import (
    Head,
    Journal,
    Log,
    Record,
    RunRow,
    add,
    check_id,
    head_of,
    question_of,
    verify,
)
from podium.secrets import scrub
from podium.types.codec import PIECES, encode
from podium.types.events import Event, RunEnded, RunStarted, RunStopped

_LEFT_OUT = (*PIECES, RunStarted)


class _Run:
    """One run."""

    def __init__(self, started: RunStarted) -> None:
        self.run_id = started.run_id
        self.parent = None if started.parent is None else started.parent[0]
        self.records: list[Record] = []
        self.state = "running"
        self.ended: float | None = None
        self.cost: float | None = None
        self.log: _MemoryLog | None = None
        self.answers: list[tuple[str, frozenset[str]]] = []
        """Keys and labels of its answers."""

    def add(self, event: Event) -> None:
        """Record an event."""
        text, at = scrub(encode(event)), time()
        head = add(head_of(self.records), self.run_id, at, text)
        record = Record(run_id=self.run_id, number=head.records - 1, at=at, text=text, hash=head.hash)
        self.keep(record, event)

    def keep(self, record: Record, event: Event) -> None:
        """Keep the record of an event."""
        self.records.append(record)
        self.state, self.ended, self.cost = "running", None, None
        if isinstance(event, RunEnded | RunStopped):
            result = event.result if isinstance(event, RunEnded) else None
            self.state, self.ended = "stopped" if result is None else result.status, record.at
            self.cost = event.cost if isinstance(event, RunEnded) else None
            self.log = None
        if isinstance(event, RunEnded) and event.answer_key:
            self.answers.append((event.answer_key, event.result.labels))

    def row(self) -> RunRow:
        """Return the row of a list of runs."""
        return RunRow(
            run_id=self.run_id,
            parent=self.parent,
            question=question_of(self.records[0].text),
            state=self.state,
            began=self.records[0].at,
            ended=self.ended,
            cost=self.cost,
            holder=None if self.log is None else "this process",
            recoveries=0,
        )


class _MemoryLog(Log):
    """The log of a run in memory."""

    def __init__(self, run: _Run, lock: RLock) -> None:
        self.run_id = run.run_id
        self._run = run
        self._lock = lock
        self._failure: JournalError | None = None

    @property
    def head(self) -> Head | None:
        """The head of the run."""
        return head_of(self._run.records)

    def append(self, event: Event) -> None:
        """Record an event at once."""
        if event.run_id != self.run_id or isinstance(event, _LEFT_OUT):
            return
        with self._lock:
            if self._run.log is not self or self._failure is not None:
                return
            try:
                self._run.add(event)
            except (TypeError, ValueError) as error:
                self._failure = JournalError(
                    f"run {self.run_id}: its {event.type} cannot be recorded: {error}"
                )
        if self._failure is not None and self.on_lost is not None:
            self.on_lost()

    async def flush(self) -> None:
        """Raise the error of a failed `append`; there is nothing to wait for."""
        await anyio.lowlevel.checkpoint()
        if self._failure is not None:
            raise self._failure

    async def aclose(self) -> None:
        """Release the run."""
        with self._lock:
            if self._run.log is self:
                self._run.log = None
                if self._run.state == "running":
                    self._run.state = "stopped"
        if self._failure is not None:
            raise self._failure


class MemoryJournal(Journal):
    """Records runs in the memory of this process, for tests, and to replay and resume within a process."""

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
            if broken := verify(records):
                raise JournalBroken(str(broken))
            events = [record.entry().event for record in records]
            if not isinstance(events[0], RunStarted):
                raise JournalBroken(f"run {records[0].run_id} does not begin with RunStarted")
            run = _Run(events[0])
            for record, event in zip(records, events, strict=True):
                run.keep(record, event)
            run.state = "stopped" if run.state == "running" else run.state
            journal._runs[run.run_id] = run
        return journal

    async def begin(self, started: RunStarted, *, minted: bool) -> Log:
        """Record a new run and hold it."""
        check_id(started.run_id)
        del minted
        with self._lock:
            if started.run_id in self._runs:
                raise RunExists(f"run {started.run_id} already exists: choose another id")
            run = _Run(started)
            run.add(started)
            self._runs[run.run_id] = run
            log = run.log = _MemoryLog(run, self._lock)
        return log

    async def claim(self, run_id: str, *, force: bool = False) -> Log:
        """Hold an earlier run that is not held."""
        del force
        with self._lock:
            run = self._find(run_id)
            if run.log is not None:
                raise RunHeld(f"run {run_id} is running: wait for it to end or stop")
            entries = tuple(record.entry() for record in run.records)
            log = run.log = _MemoryLog(run, self._lock)
        log.entries = entries
        return log

    async def records(self, run_id: str) -> Sequence[Record]:
        """Return all records of a run in their stored form, in order."""
        with self._lock:
            return tuple(self._find(run_id).records)

    async def runs(
        self,
        *,
        limit: int | None = 50,
        nested: bool = False,
        prefix: str = "",
        parent: str | None = None,
        since: float | None = None,
        ids: Collection[str] | None = None,
    ) -> Sequence[RunRow]:
        """Return the latest runs, newest first."""
        with self._lock:
            rows = [run.row() for run in reversed(self._runs.values()) if run.run_id.startswith(prefix)]
        if parent is not None:
            rows = [row for row in rows if row.parent == parent]
        elif not nested:
            rows = [row for row in rows if row.parent is None]
        if ids is not None:
            rows = [row for row in rows if row.run_id in ids]
        return tuple([row for row in rows if since is None or row.began >= since][:limit])

    async def answer_labels(self, keys: Collection[str]) -> Mapping[str, frozenset[str]]:
        """Return the labels of recorded answers."""
        found: dict[str, frozenset[str]] = {}
        with self._lock:
            for key, labels in (answer for run in self._runs.values() for answer in run.answers):
                if key in keys:
                    found[key] = found.get(key, labels) | labels
        return found

    async def delete(self, run_id: str) -> None:
        """Delete a run and all runs nested in it."""
        with self._lock:
            doomed = [self._find(run_id)]
            for run in doomed:
                doomed += [inner for inner in self._runs.values() if inner.parent == run.run_id]
            if any(run.log is not None for run in doomed):
                raise RunHeld(f"run {run_id} is running: wait for it to end or stop")
            for run in doomed:
                del self._runs[run.run_id]

    def _find(self, run_id: str) -> _Run:
        run = self._runs.get(run_id)
        if run is None:
            raise RunUnknown(f"run {run_id} is not in the journal")
        return run
