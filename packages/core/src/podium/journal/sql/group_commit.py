"""Group commit: what the runs of one event loop append is written by one task, batch by batch.

While a batch is committed the next one gathers. What was appended counts as durable only
after the commit of its own batch. The writer knows logs and their order; how a batch
reaches the database is the store's business.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from time import time

import anyio
import anyio.lowlevel

from podium.errors import JournalError, RunExists, RunLost
from podium.journal.sql.batch import Batch, Queued, sealed
from podium.journal.sql.run_log import SqlLog, State
from podium.types.events import Event

_GATHERING = 8
"""Turns of the event loop before a batch is closed. What follows at once goes along: a run's end is
told a few turns after that of its last step, and would else wait for that one's commit."""


class Unwritable(JournalError):
    """The database refuses something that a batch holds."""


class Writer:
    """The one task that writes.

    Args:
        commit: writes a batch and returns once it is durable, with the logs that were left
            out of it since they do not hold their run; raises `JournalError` if the batch
            cannot be written.
        period: how often at least to commit while runs are held, if only to say that their
            holder lives, in seconds.
    """

    def __init__(self, commit: Callable[[Batch], Awaitable[Collection[SqlLog]]], period: float) -> None:
        self._commit = commit
        self._period = period
        self._queue: list[Queued] = []
        self._woken = anyio.Event()
        self._held: set[SqlLog] = set()
        self._abandoned: dict[SqlLog, State] = {}
        """Logs the database failed, whose runs are given up as soon as it works again."""
        self._is_closing = False
        self._taken: list[Queued] = []
        """What is being written."""
        self._end: JournalError | None = None
        """Why the task ended before it was told to."""
        self.fails = False
        """Whether what was written last could not be: what is begun now is best waited for."""
        self._task = asyncio.create_task(self._run(), name="podium journal")

    def put(self, log: SqlLog, event: Event | None) -> None:
        """Queue an event; `None` gives the run up."""
        if self._end is not None:
            log.fail(self._end)
            return
        if not self._queue:
            self._woken.set()
        self._queue.append((log, time(), event))

    def hold(self, log: SqlLog) -> None:
        """Take it that a log's run is held before anything is written."""
        self._held.add(log)
        self._woken.set()

    async def aclose(self) -> None:
        """Write what is queued, and end the task; cancelled, end it with that unwritten."""
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
            await self._work()
        except BaseException as error:
            self._end = JournalError(f"the journal's writer was ended by {type(error).__name__}: {error}")
            self._end.__cause__ = error
            self.fails = True
            for log in {*(log for log, *_ in (*self._taken, *self._queue)), *self._held}:
                log.fail(self._end)
            raise

    async def _work(self) -> None:
        while self._queue or not self._is_closing:
            if not self._queue:
                with anyio.move_on_after(self._period if self._held or self._abandoned else None):
                    await self._woken.wait()
            for _ in range(_GATHERING):
                await anyio.lowlevel.checkpoint()
            self._woken = anyio.Event()
            self._taken, self._queue = self._queue, []
            batch = sealed(self._taken)
            if batch.counts or self._held or self._abandoned:
                batch.states.update(self._abandoned)
                await self._write(batch)

    async def _write(self, batch: Batch) -> None:
        try:
            lost = await self._commit(batch)
        except Unwritable as error:
            if len(batch.counts) > 1:
                for log in batch.counts:
                    await self._write(batch.of(log))
            else:
                self._fail(batch, error)
            return
        except JournalError as error:
            self.fails = True
            self._fail(batch, error)
            return
        self.fails = False
        for log in batch.states:
            self._abandoned.pop(log, None)
        for log, count in batch.counts.items():
            if log in lost:
                log.fail(_lost(log, batch))
            log.settle(count)
            held = log.state.is_held and log.failure is None
            (self._held.add if held else self._held.discard)(log)

    def _fail(self, batch: Batch, error: JournalError) -> None:
        for log in batch.counts:
            log.fail(error)
            self._held.discard(log)
            self._abandoned[log] = State("stopped", is_held=False)


def _lost(log: SqlLog, batch: Batch) -> JournalError:
    if log in batch.begun:
        return RunExists(f"there is a run {log.run_id} already: give this one an id of its own")
    return RunLost(f"run {log.run_id} was taken over by someone else, or deleted")
