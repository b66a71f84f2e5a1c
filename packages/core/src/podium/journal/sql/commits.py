"""Group commit: one task writes the events of all runs of one event loop in batches."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from math import inf
from time import monotonic, time

import anyio

from podium.aio import shielded
from podium.errors import JournalError, RunExists, RunLost
from podium.journal.journal import Entry, Head, Log, add, head_of, question_of, unwritable
from podium.journal.sql.database import (
    FIRST_WAIT,
    LONGEST_WAIT,
    BatchRows,
    Database,
    Refused,
    Transaction,
    Value,
)
from podium.journal.sql.lease import forget_fence, keep_fence, new_holder
from podium.secrets import scrub
from podium.types.codec import PIECES, encode
from podium.types.events import Event, RunEnded, RunStarted, RunStopped

_LEFT_OUT = (*PIECES, RunStarted)
_LAST = (RunEnded, RunStopped)


@dataclass(frozen=True, slots=True)
class RunState:
    """The state of a run, as stored in its row of the table of runs."""

    name: str = "running"
    ended: float | None = None
    cost: float | None = None
    is_held: bool = True


class SqlLog(Log):
    """The log of one run in a database."""

    def __init__(
        self,
        put: "Callable[[SqlLog, Event | None], None]",
        run_id: str,
        fence: str,
        leave: Callable[[], Awaitable[None]],
    ) -> None:
        self.run_id = run_id
        self.fence = fence
        keep_fence(fence)
        self.started: RunStarted | None = None
        """The first event of a new run; `None` for a claimed run."""
        self.is_minted = False
        """Whether the id was generated, so that no other run can have it."""
        self.state = RunState()
        """The state after all queued events are committed."""
        self.last: Head | None = None
        """The head after all queued events are committed."""
        self.failure: JournalError | None = None
        self._put = put
        self._leave = leave
        self._open = True
        self._queued = 0
        self._written = 0
        """Number of queued events that were written."""
        self.waits_since = 0.0
        """Start of the wait for the next commit, on the event loop's clock. This is the later of two times:
        when the oldest unwritten event was queued, and when the event before was written.
        """
        self._progress: anyio.Event | None = None
        self._is_closed = False

    @property
    def head(self) -> Head | None:
        """The head of the run, if all events are flushed; `None` after a failure."""
        return self.last if self.failure is None else None

    def begin(self, started: RunStarted, *, minted: bool) -> None:
        """Queue the first event of a new run."""
        self.started, self.is_minted = started, minted
        self._queue(started)

    def continue_from(self, entries: tuple[Entry, ...], state: RunState, recovery: int) -> None:
        """Continue after the recorded entries of a claimed run."""
        self.entries, self.state, self.recovery = entries, state, recovery
        self.last = head_of(entries)

    def append(self, event: Event) -> None:
        """Queue an event."""
        if self._open and event.run_id == self.run_id and not isinstance(event, _LEFT_OUT):
            self._open = not isinstance(event, _LAST)
            self._queue(event)

    def _queue(self, event: Event | None) -> None:
        if self._written == self._queued:
            self.waits_since = anyio.current_time()
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
            forget_fence(self.fence)
            await self._leave()

    def committed(self, count: int) -> None:
        """Mark the next `count` queued events as committed."""
        self._written += count
        self.waits_since = anyio.current_time()
        self._wake()

    def fail(self, error: JournalError) -> None:
        """Mark the run as failed: no more events of it can be recorded."""
        if self.failure is None:
            if self.started is not None and not self._written:
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
"""A log, the time of the append in seconds of Unix time, and the event.

`None` in place of an event releases the run.
"""
RecordRow = tuple[str, int, float, str, str]
"""A record: run id, number, time, text and hash."""


@dataclass(slots=True)
class Batch:
    """The rows that one transaction commits."""

    counts: dict[SqlLog, int] = field(default_factory=dict)
    """Number of queue items of each log in the batch."""
    new: list[SqlLog] = field(default_factory=list)
    """The logs whose run begins with this batch."""
    records: dict[SqlLog, list[RecordRow]] = field(default_factory=dict)
    """The records of each log, in order."""
    states: dict[SqlLog, RunState] = field(default_factory=dict)
    """The state of each changed run after the batch."""
    answers: dict[SqlLog, list[tuple[str, str, str]]] = field(default_factory=dict)
    """Key, run id and labels of the answers of each log."""
    released: set[SqlLog] = field(default_factory=set)
    """Logs of an earlier batch that failed or was not acknowledged; their runs are released."""
    is_retry: bool = False
    """Whether an earlier attempt may have committed the batch already."""

    def only(self, logs: Collection[SqlLog]) -> "Batch":
        """Return the part of the batch for some logs, to be retried."""
        return Batch(
            counts={log: count for log, count in self.counts.items() if log in logs},
            new=[log for log in self.new if log in logs],
            records={log: rows for log, rows in self.records.items() if log in logs},
            states={log: state for log, state in self.states.items() if log in logs},
            answers={log: rows for log, rows in self.answers.items() if log in logs},
            is_retry=True,
        )


def make_batch(queue: Iterable[Queued]) -> Batch:
    """Encode each event, remove secrets, and hash each record with the previous record."""
    batch = Batch()
    encoded: list[tuple[SqlLog, float, str]] = []
    for log, at, event in queue:
        if log.failure is not None:
            continue
        batch.counts[log] = batch.counts.get(log, 0) + 1
        if event is None:
            _release(batch, log)
            continue
        try:
            encoded.append((log, at, encode(event)))
        except Exception as error:  # noqa: BLE001 - reported to its run; other runs continue
            _release(batch, log)
            log.fail(unwritable(log.run_id, event, error))
            continue
        _update_state(batch, log, at, event)
    texts = [text for *_, text in encoded]
    joined = "\n".join(texts)
    if scrub(joined) != joined:  # rare, and one pass over the whole batch is cheaper than one for each text
        texts = [scrub(text) for text in texts]
    for (log, at, _), text in zip(encoded, texts, strict=True):
        last = log.last = add(log.last, log.run_id, at, text)
        batch.records.setdefault(log, []).append((log.run_id, last.records - 1, at, text, last.hash))
    return batch


def _update_state(batch: Batch, log: SqlLog, at: float, event: Event) -> None:
    """Update the state of a run after an event."""
    match event:
        case RunStarted():
            batch.new.append(log)
            return
        case RunEnded(result=result, cost=cost, answer_key=key):
            log.state = RunState(result.status, at, cost, is_held=False)
            if key:
                row = (key, log.run_id, json.dumps(sorted(result.labels)))
                batch.answers.setdefault(log, []).append(row)
        case RunStopped():
            log.state = RunState("stopped", at, is_held=False)
        case _ if log.state.name != "running":
            log.state = RunState()
        case _:
            return
    batch.states[log] = log.state


def _release(batch: Batch, log: SqlLog) -> None:
    """Release a run. A claimed run without new events keeps its state."""
    name = "stopped" if log.state.name == "running" else log.state.name
    batch.states[log] = log.state = replace(log.state, name=name, is_held=False)


_FORGET_SECONDS = 86400.0
"""Seconds from the end of a lease to its deletion."""


class FencedStore:
    """Writes batches to a database."""

    def __init__(self, database: Database, lease: float) -> None:
        self.database = database
        self.holder = new_holder()
        self._renewed_at = -inf
        self._lease = lease
        # no value from outside is in these statements
        self._renew = f"""
            INSERT INTO podium_leases (holder, until) VALUES (?, {database.now} + ?)
            ON CONFLICT (holder) DO UPDATE SET until = excluded.until
        """  # noqa: S608
        self._forget = f"DELETE FROM podium_leases WHERE until < {database.now} - ?"  # noqa: S608

    async def commit(self, batch: Batch) -> Collection[SqlLog]:
        """Make one attempt to write a batch durably, and return the logs whose run another process holds."""
        try:
            return await self._write(batch)
        except Exception as error:  # drivers raise many types; `failure` translates them
            is_first, batch.is_retry = not batch.is_retry, True
            if is_first and self.database.is_duplicate_key(error):
                return await self.commit(batch)  # without the records that were already written
            raise self.database.failure(error) from error

    async def renew(self, transaction: Transaction) -> None:
        """Renew the lease."""
        await transaction.execute(self._renew, self.holder, self._lease)
        await transaction.execute(self._forget, _FORGET_SECONDS)

    async def _write(self, batch: Batch) -> Collection[SqlLog]:
        now = monotonic()
        if now - self._renewed_at >= self._lease / 3:
            await self.database.attempt(self.renew)  # a held run needs a lease
            self._renewed_at = now
        if not batch.counts and not batch.released:
            return ()
        written = await self._hashes(batch) if batch.is_retry else frozenset[str]()
        lost: set[SqlLog] = set()
        while True:
            fences = await self.database.write(self._rows(batch, lost, written))
            if not fences:
                return lost
            lost |= {log for log in batch.counts if log.fence in fences}

    async def _hashes(self, batch: Batch) -> frozenset[str]:
        """Return the hashes of the recorded events of the batch's runs."""

        async def read(transaction: Transaction) -> frozenset[str]:
            hashes: set[str] = set()
            for log in batch.records:
                rows = await transaction.fetch("SELECT hash FROM podium_events WHERE run_id = ?", log.run_id)
                hashes |= {row["hash"] for row in rows}
            return frozenset(hashes)

        return await self.database.attempt(read, reads=True)

    def _rows(self, batch: Batch, lost: Collection[SqlLog], written: Collection[str]) -> BatchRows:
        logs = [log for log in batch.counts if log not in lost]
        new = {log for log in batch.new if log not in lost}
        changed = [log for log in batch.states if log not in new and log not in lost]
        return BatchRows(
            new_runs=[self._new_run(log, batch) for log in batch.new if log in new],
            ids_are_new=not batch.is_retry and all(log.is_minted for log in new),
            fences=[(log.run_id, log.fence) for log in logs if log not in new],
            records=[row for log in logs for row in batch.records.get(log, ()) if row[4] not in written],
            changes=[self._change(log, batch.states[log]) for log in changed],
            answers=[row for log in logs for row in batch.answers.get(log, ())],
            releases=[(log.run_id, log.fence) for log in batch.released],
        )

    def _new_run(self, log: SqlLog, batch: Batch) -> tuple[Value, ...]:
        assert log.started is not None
        parent = None if log.started.parent is None else log.started.parent[0]
        _, _, began, text, _ = batch.records[log][0]
        name, ended, cost, holder, run_id, fence = self._change(log, batch.states.get(log, RunState()))
        return run_id, parent, question_of(text), name, began, ended, cost, holder, fence, 0

    def _change(self, log: SqlLog, state: RunState) -> tuple[Value, ...]:
        holder = self.holder if state.is_held else None
        return state.name, state.ended, state.cost, holder, log.run_id, log.fence


_GATHER_TURNS = 8
"""Turns of the event loop before a batch is closed.

A run appends its end a few turns after the end of its last step. Both should be in the same batch.
"""


class GroupCommit:
    """The task that writes the batches."""

    def __init__(
        self,
        commit: Callable[[Batch], Awaitable[Collection[SqlLog]]],
        *,
        period: float,
        patience: float,
    ) -> None:
        self._commit = commit
        self._period = period
        self._patience = patience
        self._queue: list[Queued] = []
        self._woken = anyio.Event()
        self._held: set[SqlLog] = set()
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
        """Renew the lease while a claimed run has nothing to write."""
        self._held.add(log)
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
                with anyio.move_on_after(self._rest()):
                    await self._woken.wait()
            for _ in range(_GATHER_TURNS):
                await asyncio.sleep(0)
            self._woken = anyio.Event()
            self._in_flight, self._queue = self._queue, []
            batch = make_batch(self._in_flight)
            if batch.counts or self._held or self._to_release:
                batch.released.update(self._to_release)
                await self._write(batch)

    def _rest(self) -> float | None:
        """Return the maximum time until the next commit, in seconds; `None` if there is no lease to renew."""
        if self._to_release:
            return LONGEST_WAIT
        return self._period if self._held else None

    async def _write(self, batch: Batch) -> None:
        """Write a batch; retry failures without the runs that have waited for `patience`."""
        wait = FIRST_WAIT
        while True:
            try:
                self._take(batch, await self._commit(batch))
            except Refused as error:
                if len(batch.counts) > 1:
                    for log in batch.counts:
                        await self._write(batch.only([log]))
                    return
                self._fail(batch.counts, error)
            except JournalError as error:
                self._fail([log for log in batch.counts if self._left(log) <= 0], error)
            except Exception as error:  # noqa: BLE001 - reported to the runs of this batch; other runs continue
                self._fail(batch.counts, _fault(error))
            else:
                return
            batch = batch.only([log for log in batch.counts if log.failure is None])
            if not batch.counts:
                return
            await anyio.sleep(max(min(wait, *map(self._left, batch.counts)), 0.0))
            wait = min(2 * wait, LONGEST_WAIT)

    def _left(self, log: SqlLog) -> float:
        """Return the remaining time that a run waits for its commit, in seconds."""
        return log.waits_since + self._patience - anyio.current_time()

    def _take(self, batch: Batch, lost: Collection[SqlLog]) -> None:
        """Mark the logs of a batch as committed; mark the logs whose run another process holds as failed."""
        self._to_release -= batch.released
        for log, count in batch.counts.items():
            if log in lost:
                log.fail(_lost(log, batch))
            log.committed(count)
            held = log.state.is_held and log.failure is None
            (self._held.add if held else self._held.discard)(log)

    def _fail(self, logs: Collection[SqlLog], error: JournalError) -> None:
        for log in logs:
            log.fail(error)
            self._held.discard(log)
            self._to_release.add(log)


def _fault(error: BaseException) -> JournalError:
    made = JournalError(f"the journal's writer failed with {type(error).__name__}: {error}")
    made.__cause__ = error
    return made


def _lost(log: SqlLog, batch: Batch) -> JournalError:
    if log in batch.new:
        return RunExists(f"run {log.run_id} already exists: choose another id")
    return RunLost(f"run {log.run_id} was claimed by another process, or deleted")
