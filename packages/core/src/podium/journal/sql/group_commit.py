"""Group commit: one task writes what all runs of one event loop append, batch by batch.

While a batch is committed the next one gathers. An event counts as durable only after the commit of its own
batch. This module knows logs and their order; the store knows how a batch reaches the database.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from time import time

import anyio
import anyio.lowlevel

from podium.errors import JournalError, RunExists, RunLost
from podium.journal.sql.batch import Batch, Queued, make_batch
from podium.journal.sql.database import FIRST_WAIT, LONGEST_WAIT, Refused
from podium.journal.sql.run_log import SqlLog
from podium.types.events import Event

_GATHER_TURNS = 8
"""Turns of the event loop before a batch is closed. A run's end is appended a few turns after the end of its
last step, and would otherwise wait for that step's commit."""


class GroupCommit:
    """The task that writes.

    Args:
        commit: tries once to write a batch, and returns once it is durable, with the logs that it left out
            because another process holds their run. Raises `JournalError` if that fails.
        period: longest time between two commits while runs are held, which renews the lease, in seconds.
        patience: how long a run waits at least for a commit while the database fails, in seconds.
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
        """Logs whose commit failed: their runs are released with the next commit that succeeds."""
        self._is_closing = False
        self._in_flight: list[Queued] = []
        """What is being written."""
        self._failure: JournalError | None = None
        """Why the task ended before it was told to."""
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
        """Renew the lease for a claimed run, of which nothing is written yet."""
        self._held.add(log)
        self._woken.set()

    async def aclose(self) -> None:
        """Write what is queued and end the task. If cancelled, end the task without writing."""
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
        except BaseException as error:  # however it ends, no run may wait for a writer that is gone
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
                await anyio.lowlevel.checkpoint()
            self._woken = anyio.Event()
            self._in_flight, self._queue = self._queue, []
            batch = make_batch(self._in_flight)
            if batch.counts or self._held or self._to_release:
                batch.released.update(self._to_release)
                await self._write(batch)

    def _rest(self) -> float | None:
        """Return the longest time without a commit, in seconds; `None` while there is nothing to renew."""
        if self._to_release:
            return LONGEST_WAIT
        return self._period if self._held else None

    async def _write(self, batch: Batch) -> None:
        """Write a batch; while that fails, try again without the runs that have waited for `patience`."""
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
            except Exception as error:  # noqa: BLE001 - told to the runs of this batch; the others go on
                self._fail(batch.counts, _fault(error))
            else:
                return
            batch = batch.only([log for log in batch.counts if log.failure is None])
            if not batch.counts:
                return
            await anyio.sleep(max(min(wait, *map(self._left, batch.counts)), 0.0))
            wait = min(2 * wait, LONGEST_WAIT)

    def _left(self, log: SqlLog) -> float:
        """Return how long a run still waits for its commit, in seconds."""
        return log.waits_since + self._patience - anyio.current_time()

    def _take(self, batch: Batch, lost: Collection[SqlLog]) -> None:
        """Tell the logs of a batch that it is durable, apart from those that another process holds."""
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
        return RunExists(f"there is a run {log.run_id} already: give this one an id of its own")
    return RunLost(f"run {log.run_id} was taken over by someone else, or deleted")
