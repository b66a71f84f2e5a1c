"""Group commit: one task writes the events of all runs of one event loop in batches."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from time import time

import anyio

from podium.aio.calls import shielded
from podium.errors import JournalError, RunExists, RunLost
from podium.journal.journal import Entry, Head, Log, Record, RunRow, add, head_of, unwritable
from podium.journal.sql.database import (
    FIRST_WAIT,
    LONGEST_WAIT,
    BatchRows,
    Refused,
    Value,
)
from podium.journal.sql.lease import Lease, open_fences
from podium.secrets import scrub
from podium.types.codec import encode
from podium.types.events import Event, RunEnded, RunStarted, RunStopped


class SqlLog(Log):
    """The log of one run in a database."""

    def __init__(
        self,
        put: "Callable[[SqlLog, Event | None], None]",
        run_id: str,
        fence: str,
        holder: str,
        leave: Callable[[], Awaitable[None]],
    ) -> None:
        self.run_id = run_id
        self.fence = fence
        self.holder = holder
        open_fences.add(fence)
        self.row: RunRow | None = None
        """The row after all queued events are committed; `None` before the first event of a new run."""
        self.last: Head | None = None
        """The head after all queued events are committed."""
        self.failure: JournalError | None = None
        self._put = put
        self._leave = leave
        self._open = True
        self._queued = 0
        self._written = 0
        """Number of queued events that were written."""
        self._progress: anyio.Event | None = None
        self._is_closed = False

    @property
    def head(self) -> Head | None:
        """The head of the run, if all events are flushed; `None` after a failure."""
        return self.last if self.failure is None else None

    def begin(self, started: RunStarted) -> None:
        """Queue the first event of a new run."""
        self._queue(started)

    def continue_from(self, entries: tuple[Entry, ...], row: RunRow) -> None:
        """Continue after the recorded entries of a claimed run."""
        self.entries, self.recovery = entries, row.recoveries
        self.row, self.last = replace(row, holder=self.holder), head_of(entries)

    def append(self, event: Event) -> None:
        """Queue an event."""
        if self._open and self._takes(event):
            self._open = not isinstance(event, RunEnded | RunStopped)
            self._queue(event)

    def _queue(self, event: Event | None) -> None:
        self._queued += 1
        self._put(self, event)

    async def flush(self) -> None:
        """Wait until all events queued so far are committed."""
        last = self._queued
        while self._written < last and self.failure is None:
            if self._progress is None:
                self._progress = anyio.Event()
            await self._progress.wait()
        if self.failure is not None:
            raise self.failure

    async def aclose(self) -> None:
        """Flush and release the run, and let the journal close."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._open:
            self._open = False
            self._queue(None)
        try:
            if self._written < self._queued:
                await shielded(self.flush())
            elif self.failure is not None:
                raise self.failure
        finally:
            open_fences.discard(self.fence)
            await self._leave()

    def committed(self, count: int) -> None:
        """Mark the next `count` queued events as committed."""
        self._written += count
        self._wake()

    def fail(self, error: JournalError) -> None:
        """Mark the run as failed: no more events of it can be recorded."""
        if self.failure is None:
            if not self.entries and not self._written:
                error = not_recorded(self.run_id, error)
            self.failure = error
            self._open = False
            self._wake()
            if self.on_lost is not None:
                self.on_lost()

    def _wake(self) -> None:
        if self._progress is not None:
            self._progress.set()
            self._progress = None


def not_recorded(run_id: str, error: JournalError) -> JournalError:
    """Return the error for a run whose first record is not known to be committed."""
    if error.code != JournalError.code:  # a subclass has a more precise message
        return error
    starts = f"`run(..., run_id={run_id!r})`, or `podium run --run-id {run_id}`, starts it"
    made = JournalError(f"{error}; no record of run {run_id} is known to be written: {starts}")
    made.__cause__ = error
    return made


Queued = tuple[SqlLog, float, Event | None]
"""A log, the time of the append in seconds of Unix time, and the event; `None` releases the run."""


@dataclass(slots=True)
class Part:
    """What one transaction commits of one log."""

    since: float = field(default_factory=anyio.current_time)
    """When the batch was made, on the event loop's clock."""
    count: int = 0
    """Number of queue items of the log."""
    begins: bool = False
    """Whether the run begins with this batch."""
    records: list[tuple[Value, ...]] = field(default_factory=list)
    row: RunRow | None = None
    """The row of the run after the batch; `None` if it does not change."""
    answers: list[tuple[Value, ...]] = field(default_factory=list)

    def add(self, log: SqlLog, at: float, event: Event) -> None:
        """Add an event: encode it, remove secrets, and hash its record with the record before."""
        text = scrub(encode(event))
        last = log.last = add(log.last, log.run_id, at, text)
        self.records.append((log.run_id, last.records - 1, at, text, last.hash))
        if log.row is None:
            first = Record(run_id=log.run_id, number=0, at=at, text=text, hash=last.hash)
            log.row = self.row = replace(RunRow.begun(first, event), holder=log.holder)
            self.begins = True
        elif (row := log.row.after(event, at)) is not log.row:
            log.row = self.row = row
        if isinstance(event, RunEnded) and event.answer_key:
            labels = json.dumps(sorted(event.result.labels))
            self.answers.append((event.answer_key, log.run_id, labels))

    def release(self, log: SqlLog) -> None:
        """Release the run. A claimed run without new events keeps its state."""
        if log.row is not None:
            log.row = self.row = log.row.released()


@dataclass(slots=True)
class Batch:
    """The rows that one transaction commits."""

    parts: dict[SqlLog, Part] = field(default_factory=dict)
    released: set[SqlLog] = field(default_factory=set)
    """Logs of an earlier batch that failed or was not acknowledged; their runs are released."""

    def only(self, logs: Iterable[SqlLog]) -> "Batch":
        """Return the part of the batch for some logs, to be retried."""
        return Batch({log: self.parts[log] for log in logs})


def make_batch(queue: Iterable[Queued]) -> Batch:
    """Return the records of the queued events, and the rows of their runs."""
    batch = Batch()
    for log, at, event in queue:
        if log.failure is not None:
            continue
        part = batch.parts.setdefault(log, Part())
        part.count += 1
        if event is None:
            part.release(log)
            continue
        try:
            part.add(log, at, event)
        except Exception as error:  # noqa: BLE001 - reported to its run; other runs continue
            log.fail(unwritable(log.run_id, event, error))
            part.release(log)
    return batch


async def commit(lease: Lease, batch: Batch) -> Collection[SqlLog]:
    """Make one attempt to write a batch durably, and return the logs whose run another process holds."""
    database, lost = lease.database, set[SqlLog]()
    try:
        await lease.keep(patience=0.0)  # a held run needs a lease
        if batch.parts or batch.released:
            while fences := await database.write(_rows(batch, lost)):
                lost |= {log for log in batch.parts if log.fence in fences}
    except Exception as error:  # drivers raise many types; `failure` translates them
        raise database.failure(error) from error
    return lost


def _rows(batch: Batch, lost: Collection[SqlLog]) -> BatchRows:
    parts = {log: part for log, part in batch.parts.items() if log not in lost}
    return BatchRows(
        new_runs=[_new_run(log, part.row) for log, part in parts.items() if part.begins and part.row],
        fences=[(log.run_id, log.fence) for log, part in parts.items() if not part.begins],
        records=[row for part in parts.values() for row in part.records],
        changes=[_change(log, part.row) for log, part in parts.items() if part.row and not part.begins],
        answers=[row for part in parts.values() for row in part.answers],
        releases=[(log.run_id, log.fence) for log in batch.released],
    )


def _new_run(log: SqlLog, row: RunRow) -> tuple[Value, ...]:
    state, ended, cost, holder, run_id, fence = _change(log, row)
    return run_id, row.parent, row.question, state, row.began, ended, cost, holder, fence, 0


def _change(log: SqlLog, row: RunRow) -> tuple[Value, ...]:
    return row.state, row.ended, row.cost, row.holder, log.run_id, log.fence


_GATHER_TURNS = 8
"""Turns of the event loop before a batch is closed: the end of a run follows soon after its last step."""


class GroupCommit:
    """The task that writes the batches."""

    def __init__(
        self,
        commit: Callable[[Batch], Awaitable[Collection[SqlLog]]],
        *,
        patience: float,
    ) -> None:
        self._commit = commit
        self._patience = patience
        self._queue: list[Queued] = []
        self._woken = anyio.Event()
        self._held: set[SqlLog] = set()
        self._has_lost = False
        """Whether the lease was lost, and the held runs were not told so yet."""
        self._to_release: set[SqlLog] = set()
        """Logs whose commit failed; the next successful commit releases their runs."""
        self._is_closing = False
        self._in_flight: list[Queued] = []
        """The batch that is being written."""
        self._failure: JournalError | None = None
        """The error that ended the task early; `None` otherwise."""
        self._task = asyncio.create_task(self._run(), name="podium journal")

    def put(self, log: SqlLog, event: Event | None) -> None:
        """Queue an event; `None` releases the run."""
        if self._failure is not None:
            log.fail(self._failure)
            return
        if not self._queue:
            self._woken.set()
        self._queue.append((log, time(), event))

    def hold(self, log: SqlLog) -> None:
        """Hold a claimed run, which may have nothing to write."""
        self._held.add(log)

    def lose(self) -> None:
        """Let all held runs fail, after their queued events are written."""
        self._has_lost = True
        self._woken.set()

    async def aclose(self) -> None:
        """Write the queued events and end the task. If cancelled, end the task without writing."""
        self._is_closing = True
        self._woken.set()
        try:
            await asyncio.wait([self._task])
        except asyncio.CancelledError:
            self._task.cancel()
            await asyncio.wait([self._task])
            raise
        self._task.result()

    async def _run(self) -> None:
        try:
            await self._write_batches()
        except BaseException as error:  # in any case: no run may wait for a writer that has ended
            self._failure = _fault(error)
            for log in {*(log for log, *_ in (*self._in_flight, *self._queue)), *self._held}:
                log.fail(self._failure)
            raise

    async def _write_batches(self) -> None:
        while self._queue or not self._is_closing:
            if not self._queue:
                with anyio.move_on_after(LONGEST_WAIT if self._to_release else None):
                    await self._woken.wait()
            for _ in range(_GATHER_TURNS):
                await asyncio.sleep(0)
            self._woken = anyio.Event()
            self._in_flight, self._queue = self._queue, []
            batch = make_batch(self._in_flight)
            if batch.parts or self._to_release:
                batch.released.update(self._to_release)
                await self._write(batch)
            if self._has_lost:
                self._has_lost = False
                for log in tuple(self._held):
                    self._fail([log], RunLost(f"run {log.run_id} was given up, because {_LEASE_ENDED}"))

    async def _write(self, batch: Batch) -> None:
        """Write a batch; retry failures without the runs that have waited for `patience`."""
        wait = FIRST_WAIT
        while True:
            try:
                self._take(batch, await self._commit(batch))
            except Refused as error:
                if len(batch.parts) > 1:
                    for log in batch.parts:
                        await self._write(batch.only([log]))
                    return
                self._fail(batch.parts, error)
            except JournalError as error:
                self._fail([log for log, part in batch.parts.items() if self._left(part) <= 0], error)
            except Exception as error:  # noqa: BLE001 - reported to the runs of this batch; other runs continue
                self._fail(batch.parts, _fault(error))
            else:
                return
            batch = batch.only([log for log in batch.parts if log.failure is None])
            if not batch.parts:
                return
            await anyio.sleep(max(min(wait, *map(self._left, batch.parts.values())), 0.0))
            wait = min(2 * wait, LONGEST_WAIT)

    def _left(self, part: Part) -> float:
        return part.since + self._patience - anyio.current_time()

    def _take(self, batch: Batch, lost: Collection[SqlLog]) -> None:
        """Mark the logs of a batch as committed; mark the logs whose run another process holds as failed."""
        self._to_release -= batch.released
        for log, part in batch.parts.items():
            if log in lost:
                log.fail(_lost(log.run_id, begins=part.begins))
            log.committed(part.count)
            held = log.row is not None and log.row.holder is not None and log.failure is None
            (self._held.add if held else self._held.discard)(log)

    def _fail(self, logs: Collection[SqlLog], error: JournalError) -> None:
        for log in logs:
            log.fail(error)
            self._held.discard(log)
            self._to_release.add(log)


_LEASE_ENDED = (
    "this process was stopped for longer than its lease, and another took over its work: resume the run, or "
    "wait for the other process"
)


def _fault(error: BaseException) -> JournalError:
    made = JournalError(f"the journal's writer failed with {type(error).__name__}: {error}")
    made.__cause__ = error
    return made


def _lost(run_id: str, *, begins: bool) -> JournalError:
    if begins:
        return RunExists(f"run {run_id} already exists: choose another id")
    return RunLost(f"run {run_id} was claimed by another process, or deleted")
