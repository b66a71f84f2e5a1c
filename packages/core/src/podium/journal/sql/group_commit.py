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
from podium.journal.sql.database import Refused
from podium.journal.sql.run_log import RunState, SqlLog
from podium.types.events import Event

_GATHER_TURNS = 8
"""Turns of the event loop before a batch is closed. A run's end is appended a few turns after the end of its
last step, and would otherwise wait for that step's commit."""


class GroupCommit:
    """The task that writes.

    Args:
        commit: writes a batch and returns once it is durable, with the logs that it left out because
            another process holds their run. Raises `JournalError` if the batch cannot be written.
        period: longest time between two commits while runs are held, which renews the lease, in seconds.
    """

    def __init__(self, commit: Callable[[Batch], Awaitable[Collection[SqlLog]]], period: float) -> None:
        self._commit = commit
        self._period = period
        self._queue: list[Queued] = []
        self._woken = anyio.Event()
        self._held: set[SqlLog] = set()
        self._to_release: dict[SqlLog, RunState] = {}
        """Logs whose commit failed: their runs are released with the next commit that succeeds."""
        self._is_closing = False
        self._in_flight: list[Queued] = []
        """What is being written."""
        self._failure: JournalError | None = None
        """Why the task ended before it was told to."""
        self.is_failing = False
        """Whether the last commit failed."""
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
        except BaseException as error:
            self._failure = JournalError(f"the journal's writer was ended by {type(error).__name__}: {error}")
            self._failure.__cause__ = error
            self.is_failing = True
            for log in {*(log for log, *_ in (*self._in_flight, *self._queue)), *self._held}:
                log.fail(self._failure)
            raise

    async def _write_batches(self) -> None:
        while self._queue or not self._is_closing:
            if not self._queue:
                with anyio.move_on_after(self._period if self._held or self._to_release else None):
                    await self._woken.wait()
            for _ in range(_GATHER_TURNS):
                await anyio.lowlevel.checkpoint()
            self._woken = anyio.Event()
            self._in_flight, self._queue = self._queue, []
            batch = make_batch(self._in_flight)
            if batch.counts or self._held or self._to_release:
                batch.states.update(self._to_release)
                await self._write(batch)

    async def _write(self, batch: Batch) -> None:
        try:
            lost = await self._commit(batch)
        except Refused as error:
            if len(batch.counts) > 1:
                for log in batch.counts:
                    await self._write(batch.only(log))
            else:
                self._fail(batch, error)
            return
        except JournalError as error:
            self.is_failing = True
            self._fail(batch, error)
            return
        self.is_failing = False
        for log in batch.states:
            self._to_release.pop(log, None)
        for log, count in batch.counts.items():
            if log in lost:
                log.fail(_lost(log, batch))
            log.committed(count)
            held = log.state.is_held and log.failure is None
            (self._held.add if held else self._held.discard)(log)

    def _fail(self, batch: Batch, error: JournalError) -> None:
        for log in batch.counts:
            log.fail(error)
            self._held.discard(log)
            self._to_release[log] = RunState("stopped", is_held=False)


def _lost(log: SqlLog, batch: Batch) -> JournalError:
    if log in batch.new:
        return RunExists(f"there is a run {log.run_id} already: give this one an id of its own")
    return RunLost(f"run {log.run_id} was taken over by someone else, or deleted")
