"""Group commit: one task writes the events of all runs of one event loop in batches.

While one batch is committed, the next batch collects events. An event counts as durable only after the commit
of its own batch. `FencedStore` writes a batch to the database.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from time import time

import anyio

from podium.errors import JournalError, RunExists, RunLost
from podium.journal.sql.batch import Batch, Queued, make_batch
from podium.journal.sql.database import FIRST_WAIT, LONGEST_WAIT, Refused
from podium.journal.sql.run_log import SqlLog
from podium.types.events import Event

_GATHER_TURNS = 8
"""Turns of the event loop before a batch is closed.

A run appends its end a few turns after the end of its last step. Both should be in the same batch.
"""


class GroupCommit:
    """The task that writes the batches.

    Args:
        commit: makes one attempt to write a batch durably, and returns the logs whose run another process
            holds. Raises `JournalError` if the attempt fails.
        period: maximum time between two commits while runs are held, in seconds; a commit renews the lease.
        patience: minimum time in seconds for which a run waits for a commit while the database fails.
    """

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
