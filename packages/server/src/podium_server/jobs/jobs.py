"""Executes jobs: at most some at a time, from a queue that all replicas share.

If a process ends, another process, or the next start, continues its jobs: the journal has what was paid for.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Literal, Protocol

import anyio
from anyio.abc import TaskGroup

from podium.errors import JournalBroken, JournalError, RunDead, RunExists, RunUnknown
from podium.journal.sql.lease import Lease
from podium.secrets import scrub
from podium.types import Result
from podium_server.errors import RunCancelled, fault_of
from podium_server.jobs.table import QUEUE, Also, JobTable, Line, StoredJob
from podium_server.keys import KeyRefused, RateLimited

Why = Literal["cancelled", "abandoned", "stopped", "lost"]
"""Why a job ends before its work: somebody cancelled it, the client disconnected before it began, the server
stops, or another process has the job."""


class JobLost(Exception):
    """Another process has the job, or its work was deleted."""


class Postponed(Exception):
    """The job returns to the queue at once, and continues when a process takes it again."""


class Job:
    """A job that this process executes."""

    def __init__(self, stored: StoredJob, *, is_new: bool = False) -> None:
        self.stored = stored
        self.is_new = is_new
        self.is_stored = not is_new
        self.is_admitted = False
        """Whether the work was admitted, so that it may have been paid for."""
        self.needs_slot = True
        """Whether the job counts against the maximum number of jobs; not while it waits for a decision."""
        self.scope = anyio.CancelScope()
        self.why: Why | None = "cancelled" if stored.is_cancelled else None
        """Why the work was cancelled; `None` if it was not."""
        self.has_begun = False
        self.headers: Mapping[str, str] = {}
        """Headers for the client whose request began the job."""
        self.refusal: Exception | None = None
        """Why a new job did not begin."""
        self.result: Result | None = None
        """The result of the run, after it has ended; `None` also for a run that ended without one."""
        self.decided = anyio.Event()
        """Set when the work has begun, or has ended."""

    @property
    def job_id(self) -> str:
        """The id of the run."""
        return self.stored.job_id

    def begin(self, headers: Mapping[str, str] | None = None) -> None:
        """Tell the client whose request began the job that the work has begun."""
        if not self.has_begun:
            self.has_begun, self.headers = True, headers or {}
            self.decided.set()

    def cancel(self, why: Why) -> None:
        """Cancel the work."""
        self.why = self.why or why
        self.scope.cancel()


class Work(Protocol):
    """The work of one job."""

    async def run(self) -> None:
        """Do the work: begin it, or continue it."""

    async def end(self, failure: Exception | None) -> Mapping[str, str] | None:
        """Write the end of cancelled or failed work; return the `code` and `message` that the job keeps."""

    async def drop(self) -> None:
        """Delete what was stored for a new job that was refused before it began."""


RETRY_SECONDS = 15.0
"""How long a job waits before it is tried again."""
_LASTING = (JournalBroken, RunDead, RunExists, RunUnknown)
"""Errors of the journal that another attempt would have, too."""


def is_temporary(error: Exception, *, is_admitted: bool) -> bool:
    """Return whether a later attempt may succeed without paying again."""
    if isinstance(error, JournalError):
        return not isinstance(error, _LASTING)
    return not is_admitted and fault_of(error).status in (429, 503)


LOGGER = logging.getLogger("podium")
PERIOD = 2.0
"""Seconds between two looks for jobs to take or to cancel."""
_GATHER_SECONDS = 0.02
"""How long ends of jobs are gathered before the next look fills their slots."""
_LEAVE_SECONDS = 5.0
"""How long the database may take to return the jobs to the queue when the server stops."""

Check = Callable[[], Awaitable[None]]
Kind = Callable[[Job], Work]
"""Makes the work of a job."""
OnEnd = Callable[[str, str], object]
"""Gets the state of an ended run, as `GET /v1/runs` has it, and the code of its problem or an empty text."""


class Jobs:
    """The jobs that this process executes."""

    def __init__(
        self,
        table: JobTable,
        kinds: Mapping[str, Kind],
        *,
        most: int,
        queued: int,
        on_cancels: Callable[[Sequence[str]], object],
        period: float = PERIOD,
    ) -> None:
        self.table = table
        self._kinds = kinds
        self._most = most
        self._queued = queued
        self._on_cancels = on_cancels
        self.on_end: OnEnd = lambda state, code: None  # noqa: ARG005 - nobody counts
        """Called when a run has ended for good."""
        self._period = period
        self._line = Line()
        self._lease: Lease
        self._held: dict[str, Job] = {}
        self._looking = anyio.Lock()
        self._wake = anyio.Event()
        self._has_more = False
        """Whether the queue may have jobs that found no free slot."""
        self._is_stopping = False
        self._tasks: TaskGroup | None = None

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None, None]:
        """Execute jobs in the block; at its end, return them to the queue."""
        async with self.table.journal.leased(self._lose) as self._lease:
            async with anyio.create_task_group() as self._tasks:
                self._tasks.start_soon(self._watch)
                self._tasks.start_soon(self._listen)
                try:
                    yield
                finally:
                    self.stop()
                    self._tasks.cancel_scope.cancel()
            with anyio.move_on_after(_LEAVE_SECONDS, shield=True):
                try:
                    await self.table.release_all(self._lease.holder)
                except JournalError as error:
                    LOGGER.warning("other processes continue the jobs of this process later: %s", error)

    @property
    def is_idle(self) -> bool:
        """Whether this process executes no job."""
        return not self._held

    @property
    def count(self) -> int:
        """The number of jobs that this process executes."""
        return len(self._held)

    def find(self, job_id: str) -> Job | None:
        """Return a job that this process executes."""
        return self._held.get(job_id)

    def drain(self) -> None:
        """Take no more jobs. Running jobs may end; those that wait for a decision return to the queue."""
        self._is_stopping = True
        for job in self._held.values():
            if not job.needs_slot:
                job.cancel("stopped")

    def stop(self) -> None:
        """Cancel the running jobs, which return to the queue."""
        self._is_stopping = True
        for job in self._held.values():
            job.cancel("stopped")

    async def begin(
        self, stored: StoredJob, also: Also | None = None, check: Check | None = None
    ) -> Job | None:
        """Store a new job, and return it when it has begun, or at once if it must wait in the queue.

        A job that its caller's limits refuse for now waits in the queue, too. If there is a job with its id,
        return `None`.
        """
        assert self._tasks is not None
        job = Job(stored, is_new=True)
        if self._free <= 0 or self._has_more or self._line.is_slow(stored.caller_id):
            if check is not None:
                await check()
            return job if await self._queue(stored, also) else None  # the jobs in the queue come first
        if stored.job_id in self._held:
            return None
        self._held[job.job_id] = job
        try:
            is_added = await self.table.add(stored, self._lease.holder, also)
        except BaseException:  # also after a cancellation; `_look` returns a job that was stored to the queue
            del self._held[job.job_id]
            raise
        if not is_added:
            del self._held[job.job_id]
            return None
        job.is_stored = True
        self._tasks.start_soon(self._execute, job)
        try:
            await job.decided.wait()
        finally:
            if not job.decided.is_set():
                job.cancel("abandoned")
        if job.refusal is not None:
            raise job.refusal
        return job

    async def _queue(self, stored: StoredJob, also: Also | None) -> bool:
        """Add a job to the queue, and return whether there was none with its id."""
        is_added = await self.table.add(stored, "", also, most=self._queued)
        self._has_more = True
        if self._free > 0:  # a slot became free meanwhile
            self._wake.set()
        return is_added

    async def cancel(self, job_id: str, seconds: float) -> bool:
        """Cancel a job, wait some seconds for its end, and return whether there was one."""
        if not await self.table.cancel(job_id):
            return False
        if (job := self.find(job_id)) is not None:
            job.cancel("cancelled")
        elif not self._is_stopping:
            await self._look(job_id)
        async with self.table.following(job_id) as follower:
            with anyio.move_on_after(seconds):
                while await self.table.is_open(job_id):
                    await follower.wait()
        return True

    @property
    def _free(self) -> int:
        """The number of free slots."""
        return 0 if self._is_stopping else self._most - sum(job.needs_slot for job in self._held.values())

    async def _watch(self) -> None:
        """Look into the tables now, after each period, and when slots become free."""
        while True:
            self._wake = anyio.Event()
            try:
                await self._look()
            except JournalError as error:
                LOGGER.warning("jobs cannot be looked for: %s", error)
            with anyio.move_on_after(self._period):
                await self._wake.wait()
                await anyio.sleep(_GATHER_SECONDS)

    async def _listen(self) -> None:
        """Look as soon as another process has added a job to the queue.

        Not with SQLite, where each look would be seen as another change.
        """
        async with self.table.opened() as database:
            if not database.notifies:
                return
            async with self.table.following(QUEUE) as follower:
                while True:
                    if not await follower.wait():
                        continue
                    if self._free > 0:
                        self._wake.set()
                    else:
                        self._has_more = True

    async def _look(self, cancelled: str | None = None) -> None:
        """End cancelled jobs, and take jobs from the queue."""
        async with self._looking:
            await self._look_once(cancelled)

    async def _look_once(self, cancelled: str | None) -> None:
        most = max(self._free, 0)
        before = {job_id: job for job_id, job in self._held.items() if job.is_stored}
        found = await self._line.look(self._lease, most, cancelled)
        self._has_more = len(found.taken) >= most
        for stored in found.taken:
            self._take(Job(stored))
        for job_id, job in before.items():
            if job_id not in found.held:
                job.cancel("lost")
            elif found.held[job_id]:
                job.cancel("cancelled")
        for job_id in found.held.keys() - self._held.keys():
            await self.table.release(job_id, self._lease.holder)  # its end or begin could not be written
        if found.cancels:
            self._on_cancels(found.cancels)

    def _lose(self) -> None:
        """Give up all jobs, after the process was suspended for so long that others have them."""
        if self._held:
            LOGGER.warning("the lease of this process has ended: other processes continue its jobs")
        for job in self._held.values():
            job.cancel("lost")

    def _take(self, job: Job) -> None:
        assert self._tasks is not None
        if job.job_id not in self._held:  # else an earlier task of this process still ends
            self._held[job.job_id] = job
            self._tasks.start_soon(self._execute, job)

    async def _execute(self, job: Job) -> None:
        """Do the work of a job, and write its end, or return the job to the queue."""
        try:
            await self._run(job)
        except Exception as error:  # noqa: BLE001 - logged: one job must not end the others
            LOGGER.warning("job %s is continued later: %s", job.job_id, scrub(str(error)))
            job.refusal = error
        finally:
            if self._held.get(job.job_id) is job:
                del self._held[job.job_id]
            job.decided.set()
            if self._has_more or self._line.is_held_up:
                self._wake.set()

    async def _run(self, job: Job) -> None:
        work, failure = self._kinds[job.stored.kind](job), None
        is_done = False
        try:
            with job.scope:
                if not job.stored.is_cancelled:
                    await work.run()
                    is_done = True
        except JobLost:
            LOGGER.info("job %s was deleted, or another process has it", job.job_id)
            return
        except Postponed:
            await self.table.release(job.job_id, self._lease.holder)
            return
        except Exception as error:  # noqa: BLE001 - handled below, after the scope
            failure = error
        if is_done:
            self._line.ended(job.stored.caller_id)
            await self.table.remove(job.job_id, self._lease.holder)
            if job.result is not None and job.result.status != "waiting":
                self.on_end(job.result.status, "" if job.result.problem is None else job.result.problem.code)
        elif job.why not in ("stopped", "lost"):
            await self._end(job, work, failure)

    async def _end(self, job: Job, work: Work, failure: Exception | None) -> None:
        """Write the end of a job that was cancelled, or failed."""
        failure = failure if job.why is None else None
        waits = isinstance(failure, RateLimited) and await self.table.has_room(self._queued)
        if not job.has_begun and (
            job.why == "abandoned" or (job.is_new and failure is not None and not waits)
        ):
            job.refusal = failure
            await work.drop()
            await self.table.remove(job.job_id, self._lease.holder)
        elif failure is not None and is_temporary(failure, is_admitted=job.is_admitted):
            await self._try_again(job, failure)
        else:
            self._line.ended(job.stored.caller_id)
            kept = await work.end(failure)
            if kept is None:
                await self.table.remove(job.job_id, self._lease.holder)
            else:
                await self.table.fail(job.job_id, self._lease.holder, kept)
            if failure is None:
                self.on_end("stopped", RunCancelled.code)
            else:
                self.on_end("failed", fault_of(failure).code)

    async def _try_again(self, job: Job, failure: Exception) -> None:
        """Return a job to the queue. If its caller was refused, its other jobs wait too."""
        is_urgent = job.stored.is_urgent or job.is_admitted
        if isinstance(failure, KeyRefused):
            wait = RETRY_SECONDS if failure.retry_after is None else min(failure.retry_after, RETRY_SECONDS)
            LOGGER.info("job %s waits until its API key admits it: %s", job.job_id, scrub(str(failure)))
            self._line.put_off(job.stored.caller_id, wait)
            await self.table.release(job.job_id, self._lease.holder, is_urgent=is_urgent)
        else:
            LOGGER.warning("job %s is tried again: %s", job.job_id, scrub(str(failure)))
            await self.table.release(job.job_id, self._lease.holder, RETRY_SECONDS, is_urgent=is_urgent)
