"""The shared queue: which process takes which jobs, and what happens to the jobs of lost processes."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import pytest

from podium.errors import JournalError, PodiumError, RunUnknown
from podium.journal import SqlJournal
from podium.journal.sql.lease import Lease
from podium_server.jobs.jobs import Job, Jobs
from podium_server.jobs.table import JobTable, Line, Look, StoredJob, new_job

pytestmark = pytest.mark.anyio


async def filled(
    table: JobTable, number: int, holder: str = "", kind: str = "new", caller: str = "local"
) -> None:
    """Add jobs."""
    for each in range(number):
        assert await table.add(new_job(f"{kind}-{each}", kind, caller, {}), holder)


class Process:
    """The look of one process."""

    def __init__(self, table: JobTable, lease: Lease) -> None:
        self.table = table
        self.lease = lease
        self.line = Line()
        self.holder = lease.holder
        self.losses = 0

    async def look(self, most: int, cancelled: str | None = None) -> Look:
        """Look for jobs."""
        return await self.line.look(self.lease, most, cancelled)

    def lose(self) -> None:
        """Count that the lease was lost."""
        self.losses += 1


@asynccontextmanager
async def process(url: str) -> AsyncGenerator[Process, None]:
    """Yield a process with its own lease."""
    journal = SqlJournal(url)
    async with JobTable(journal) as table, journal.leased() as lease:
        made = Process(table, lease)
        lease.on_lost.append(made.lose)
        yield made


@pytest.fixture
async def one(url: str) -> AsyncGenerator[Process, None]:
    """Yield a process."""
    async with process(url) as made:
        yield made


async def expire(one: Process) -> None:
    """End the lease of a process, as time does."""
    end = "UPDATE podium_leases SET until = 1.0 WHERE holder = ?"
    await one.table.transaction(lambda each: each.execute(end, one.holder))


@pytest.mark.parametrize("url", ["sqlite", "postgres"], indirect=True)
async def test_lost_jobs_go_first(url: str) -> None:
    """Also if many older jobs are held, queued or failed; the process that had them is told."""
    async with process(url) as living, process(url) as lost, process(url) as next_one:
        table = living.table
        await filled(table, 20, living.holder, "held")
        await filled(table, 20)
        await filled(table, 2, lost.holder, "lost")
        await filled(table, 1, "of a process without a lease", "left")
        await filled(table, 1, living.holder, "failed")
        await table.fail("failed-0", living.holder, {"code": "failed", "message": "Why?"})
        await expire(lost)
        taken = (await next_one.look(4)).taken
        assert [job.kind for job in taken] == ["lost", "lost", "left", "new"]
        found = await lost.look(0)
        assert (lost.losses, found.held) == (1, {})
        await lost.look(0)
        assert (lost.losses, living.losses, next_one.losses) == (1, 0, 0)
        assert len((await living.look(0)).held) == 20


class Failing:
    """Work that begins, and then fails."""

    error: PodiumError
    runs = 0
    ended: PodiumError | None = None

    def __init__(self, job: Job) -> None:
        self._job = job

    async def run(self) -> None:
        """Begin, and fail."""
        Failing.runs += 1
        self._job.is_admitted = True
        self._job.begin()
        raise Failing.error

    async def end(self, failure: Exception | None) -> Mapping[str, str] | None:
        """Keep the failure."""
        return None if failure is None else {"code": "failed", "message": str(failure)}

    async def drop(self) -> None:
        """Do nothing."""


@asynccontextmanager
async def running(table: JobTable) -> AsyncGenerator[Jobs, None]:
    """Execute jobs in the block."""
    async with table:
        jobs = Jobs(table, {"failing": Failing}, most=2, queued=10, on_cancels=lambda _: None, period=0.05)
        async with jobs.opened():
            yield jobs


async def found(table: JobTable, job_id: str) -> StoredJob:
    """Return a job of the table."""
    job = await table.find(job_id)
    assert job is not None
    return job


@pytest.mark.parametrize("error", [JournalError("the disk is full"), RunUnknown("deleted")])
async def test_a_journal_that_fails_after_the_beginning(tmp_path: Path, error: PodiumError) -> None:
    """The job returns to the queue, and is not removed; after a lasting error it fails."""
    Failing.error, Failing.runs = error, 0
    table = JobTable(SqlJournal(tmp_path / "runs.db"))
    async with running(table) as jobs:
        await jobs.begin(new_job("job", "failing", "local", {}))
        with anyio.fail_after(20):
            while not jobs.is_idle:  # noqa: ASYNC110 - the public face has no event
                await anyio.sleep(0.01)
        job = await found(table, "job")
        assert Failing.runs == 1
        if isinstance(error, RunUnknown):
            assert job.error == {"code": "failed", "message": "deleted"}
        else:
            assert (job.error, job.holder, job.is_urgent) == (None, "", True)
            assert job.due > job.created


class Endless:
    """Work that begins; jobs of the kind `endless` then never end."""

    def __init__(self, job: Job) -> None:
        self._job = job

    async def run(self) -> None:
        """Begin."""
        self._job.begin()
        if self._job.stored.kind == "endless":
            await anyio.sleep_forever()

    async def end(self, failure: Exception | None) -> Mapping[str, str] | None:
        """Keep nothing."""
        del failure
        return None

    async def drop(self) -> None:
        """Do nothing."""


async def test_jobs_are_given_up(url: str) -> None:
    """By a process that was suspended for so long that another one continues them."""
    async with AsyncExitStack() as stack:
        processes: list[Jobs] = []
        for period in (3600.0, 0.05):
            journal = await stack.enter_async_context(SqlJournal(url))
            table = await stack.enter_async_context(JobTable(journal))
            kinds = {"endless": Endless}
            jobs = Jobs(table, kinds, most=2, queued=10, on_cancels=lambda _: None, period=period)
            await stack.enter_async_context(jobs.opened())
            processes.append(jobs)
        suspended, other = processes
        for name in ("a", "b"):
            assert await suspended.begin(new_job(name, "endless", "local", {}))
        holder = (await found(other.table, "a")).holder
        end = "UPDATE podium_leases SET until = 1.0 WHERE holder = ?"
        with anyio.fail_after(20):
            while other.count < 2:
                # again, because the look after the start of a job renews the lease
                await other.table.transaction(lambda each: each.execute(end, holder))
                await anyio.sleep(0.02)
        assert suspended.count == 2
        await suspended.table.journal.check(5.0)
        with anyio.fail_after(20):
            while suspended.count:  # noqa: ASYNC110 - as above
                await anyio.sleep(0.02)
        assert other.count == 2
        assert holder not in {(await found(other.table, name)).holder for name in ("a", "b")}


async def test_an_idle_process_is_told_of_a_queued_job(postgres_url: str) -> None:
    """It takes the job at once; here, its next look would be an hour later."""
    async with AsyncExitStack() as stack:
        processes: list[Jobs] = []
        for _ in range(2):
            journal = await stack.enter_async_context(SqlJournal(postgres_url))
            table = await stack.enter_async_context(JobTable(journal))
            kinds = {"endless": Endless, "quick": Endless}
            jobs = Jobs(table, kinds, most=1, queued=10, on_cancels=lambda _: None, period=3600.0)
            await stack.enter_async_context(jobs.opened())
            processes.append(jobs)
        busy, idle = processes
        await busy.begin(new_job("endless", "endless", "local", {}))
        job = await busy.begin(new_job("quick", "quick", "local", {}))
        assert job is not None
        assert not job.has_begun
        with anyio.fail_after(20):
            while await idle.table.is_open("quick"):  # noqa: ASYNC110 - the other process removes it
                await anyio.sleep(0.02)
