"""Executes jobs: at most some at a time, from a queue that all replicas share.

If a process ends, another process, or the next start, continues its jobs: the journal has what was paid for.
"""

import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup

from podium.errors import JournalError
from podium.secrets import scrub
from podium_server.jobs.failures import RETRY_SECONDS, is_temporary
from podium_server.jobs.job import Job, JobLost, Postponed, Work
from podium_server.jobs.leases import Lease
from podium_server.jobs.table import Also, JobTable, StoredJob

LOGGER = logging.getLogger("podium")
PERIOD = 2.0
"""Seconds between two looks for jobs to take or to cancel."""
_GATHER_SECONDS = 0.02
"""How long ends of jobs are gathered before the next look fills their slots."""
_LOOK_SECONDS = 0.05
"""Seconds between two looks for the end of a job."""
_LEAVE_SECONDS = 5.0
"""How long the database may take to return the jobs to the queue when the server stops."""

Kind = Callable[[Job], Work]
"""Makes the work of a job."""


class Jobs:
    """The jobs that this process executes.

    Args:
        table: the jobs of all processes.
        kinds: makes the work of jobs, by kind.
        most: maximum number of jobs that this process executes at the same time.
        on_cancels: called with the runs of open requests that were cancelled.
        period: see `PERIOD`.
    """

    def __init__(
        self,
        table: JobTable,
        kinds: Mapping[str, Kind],
        *,
        most: int,
        on_cancels: Callable[[Sequence[str]], object],
        period: float = PERIOD,
    ) -> None:
        self.table = table
        self._kinds = kinds
        self._most = most
        self._on_cancels = on_cancels
        self._period = period
        self._lease = Lease(table)
        self._held: dict[str, Job] = {}
        self._looking = anyio.Lock()
        self._wake = anyio.Event()
        self._may_have_more = False
        """Whether the queue may have jobs that found no free slot."""
        self._is_stopping = False
        self._tasks: TaskGroup | None = None

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None, None]:
        """Execute jobs in the block; at its end, return them to the queue."""
        await self._lease.begin()
        async with anyio.create_task_group() as self._tasks:
            self._tasks.start_soon(self._watch)
            try:
                yield
            finally:
                self.stop()
                self._tasks.cancel_scope.cancel()
        with anyio.move_on_after(_LEAVE_SECONDS, shield=True):
            try:
                await self._lease.end()
            except JournalError as error:
                LOGGER.warning("other processes continue the jobs of this process later: %s", error)

    @property
    def is_idle(self) -> bool:
        """Whether this process executes no job."""
        return not self._held

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

    async def begin(self, stored: StoredJob, also: Also | None = None) -> Job | None:
        """Store a new job, and return when it has begun, or at once if it must wait in the queue.

        Args:
            stored: the job.
            also: further statements of the transaction that stores it; see `JobTable.add`.

        Returns:
            The job; `None` if there is one with its id.

        Raises:
            JournalError: the job cannot be stored.
            PodiumError: the work was refused, and the job is not stored.
        """
        assert self._tasks is not None
        job = Job(stored, self._lease.holder, is_new=True)
        if self._free <= 0:
            self._may_have_more = True
            return job if await self.table.add(stored, "", also) else None
        if stored.job_id in self._held:
            return None
        self._held[job.job_id] = job
        try:
            is_added = await self.table.add(stored, job.holder, also)
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

    async def cancel(self, job_id: str, seconds: float) -> bool:
        """Cancel a job, wait some seconds for its end, and return whether there was one."""
        if not await self.table.cancel(job_id):
            return False
        if (job := self.find(job_id)) is not None:
            job.cancel("cancelled")
        elif not self._is_stopping:
            await self._look(least=1)
        with anyio.move_on_after(seconds):
            while await self.table.is_open(job_id):  # noqa: ASYNC110 - another process may have the job
                await anyio.sleep(_LOOK_SECONDS)
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

    async def _look(self, least: int = 0) -> None:
        """Renew the lease, end cancelled jobs, and take jobs from the queue.

        Args:
            least: minimum number of jobs to take, also without a free slot.
        """
        async with self._looking:
            await self._look_once(least)

    async def _look_once(self, least: int) -> None:
        lease, most = self._lease, max(self._free, least)
        before = {job_id: job for job_id, job in self._held.items() if job.is_stored}
        found = await lease.look(most)
        if found is None:
            await self._renew(lease)
            return
        self._may_have_more = len(found.taken) >= most
        for stored in found.taken:
            self._take(Job(stored, lease.holder))
        for job_id, job in before.items():
            if job_id not in found.held:
                job.cancel("lost")
            elif found.held[job_id]:
                job.cancel("cancelled")
        for job_id in found.held.keys() - self._held.keys():
            await self.table.release(job_id, lease.holder)  # its end, or its begin, could not be written
        if found.cancels:
            self._on_cancels(found.cancels)

    async def _renew(self, lost: Lease) -> None:
        """Begin a new lease, after the process was suspended for so long that others have its jobs."""
        if self._lease is not lost:
            return
        LOGGER.warning("the lease of this process has ended: other processes continue its jobs")
        self._lease = Lease(self.table)
        for job in self._held.values():
            if job.holder == lost.holder:
                job.cancel("lost")
        await self._lease.begin()

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
            job.change()
            if self._may_have_more:
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
            await self.table.release(job.job_id, job.holder)
            return
        except Exception as error:  # noqa: BLE001 - handled below, after the scope
            failure = error
        if is_done:
            await self.table.remove(job.job_id, job.holder)
        elif job.why not in ("stopped", "lost"):
            await self._end(job, work, failure)

    async def _end(self, job: Job, work: Work, failure: Exception | None) -> None:
        """Write the end of a job that was cancelled, or failed."""
        failure = failure if job.why is None else None
        if not job.has_begun and (job.why == "abandoned" or (job.is_new and failure is not None)):
            job.refusal = failure
            await work.drop()
            await self.table.remove(job.job_id, job.holder)
        elif failure is not None and is_temporary(failure, is_admitted=job.is_admitted):
            LOGGER.warning("job %s is tried again: %s", job.job_id, scrub(str(failure)))
            is_urgent = job.stored.is_urgent or job.is_admitted
            await self.table.release(job.job_id, job.holder, RETRY_SECONDS, is_urgent=is_urgent)
        else:
            kept = await work.end(failure)
            if kept is None:
                await self.table.remove(job.job_id, job.holder)
            else:
                await self.table.fail(job.job_id, job.holder, kept)
