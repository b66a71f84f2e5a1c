"""The shared queue: which process takes which jobs, and what happens to the jobs of lost processes."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import pytest

from podium.errors import JournalError, PodiumError, RunUnknown
from podium.journal import SqlJournal
from podium_server.jobs.jobs import Job, Jobs
from podium_server.jobs.leases import Lease, Look
from podium_server.jobs.line import Line
from podium_server.jobs.table import JobTable, StoredJob, new_job

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/runs.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


async def filled(
    table: JobTable, number: int, holder: str = "", kind: str = "new", caller: str = "local"
) -> None:
    """Add jobs."""
    for each in range(number):
        assert await table.add(new_job(f"{kind}-{each}", kind, caller, {}), holder)


async def looked(lease: Lease, most: int) -> Look:
    """Look for jobs with a lease that is not lost."""
    found = await lease.look(most)
    assert found is not None
    return found


@pytest.mark.long
async def test_processes_share_the_queue(url: str) -> None:
    """Each job is taken once, the oldest first, and no more than asked for."""
    async with JobTable(SqlJournal(url)) as table:
        await filled(table, 40)
        leases = [Lease(table, Line()) for _ in range(4)]
        found: list[Look] = []

        async def take(lease: Lease) -> None:
            await lease.begin()
            found.extend([await looked(lease, 3) for _ in range(3)])

        async with anyio.create_task_group() as tasks:
            for lease in leases:
                tasks.start_soon(take, lease)
        taken = [job.job_id for look in found for job in look.taken]
        assert len(taken) == len(set(taken)) == 36
        assert {len(look.taken) for look in found} == {3}
        assert set(taken) == {f"new-{number}" for number in range(36)}


async def test_lost_jobs_go_first(url: str) -> None:
    """Also if many older jobs are held or queued; held jobs are not read."""
    async with JobTable(SqlJournal(url)) as table:
        living, next_one = Lease(table, Line()), Lease(table, Line())
        lost = Lease(table, Line(), seconds=0.0)
        for lease in (living, lost, next_one):
            await lease.begin()
        await filled(table, 20, living.holder, "held")
        await filled(table, 20)
        await filled(table, 2, lost.holder, "lost")
        await anyio.sleep(0.01)
        assert [job.kind for job in (await looked(next_one, 3)).taken] == ["lost", "lost", "new"]
        assert await lost.look(1) is None
        assert len((await looked(living, 0)).held) == 20


async def test_callers_take_turns(url: str) -> None:
    """However many jobs a caller has in the queue, and however few are taken at once."""
    async with JobTable(SqlJournal(url)) as table:
        lease = Lease(table, Line())
        await lease.begin()
        await filled(table, 30, kind="a", caller="anna")
        await filled(table, 4, kind="b", caller="bert")
        await filled(table, 1, kind="c", caller="cleo")
        first = [job.job_id for job in (await looked(lease, 8)).taken]
        assert sorted(first) == ["a-0", "a-1", "a-2", "a-3", "b-0", "b-1", "b-2", "c-0"]
        each = [(await looked(lease, 1)).taken[0].job_id for _ in range(3)]
        assert sorted(each[:2]) == ["a-4", "b-3"]
        assert each[2] in ("a-4", "a-5")
        assert len((await looked(lease, 50)).taken) == 24


async def test_a_caller_that_was_refused(url: str) -> None:
    """None of its jobs is taken for some time, then one, two, four and so on; others are taken."""
    async with JobTable(SqlJournal(url)) as table:
        line = Line()
        lease = Lease(table, line)
        await lease.begin()
        await filled(table, 30, kind="a", caller="anna")
        await filled(table, 2, kind="b", caller="bert")
        line.put_off("anna", 60.0)
        assert [job.kind for job in (await looked(lease, 8)).taken] == ["b", "b"]
        assert not (await looked(lease, 8)).taken
        line.ended("anna")
        taken = [(await looked(lease, 8)).taken for _ in range(5)]
        assert [len(jobs) for jobs in taken] == [1, 2, 4, 8, 8]
        assert {job.job_id for job in taken[1]} == {"a-1", "a-2"}


async def test_a_released_job_keeps_its_place(url: str) -> None:
    """After its time, it is taken before jobs that were added later."""
    async with JobTable(SqlJournal(url)) as table:
        lease = Lease(table, Line())
        await lease.begin()
        await filled(table, 5)
        for seconds in (0.0, 0.05):
            assert (await looked(lease, 1)).taken[0].job_id == "new-0"
            await table.release("new-0", lease.holder, seconds, is_urgent=False)
        await anyio.sleep(0.1)
        assert [job.job_id for job in (await looked(lease, 2)).taken] == ["new-0", "new-1"]


async def test_a_cancelled_job_is_taken_by_its_id(url: str) -> None:
    """Also without a free slot, and if the jobs of its caller are not taken now."""
    async with JobTable(SqlJournal(url)) as table:
        line = Line()
        lease = Lease(table, line)
        await lease.begin()
        await filled(table, 3)
        line.put_off("local", 60.0)
        assert await table.cancel("new-1")
        found = await lease.look(0, "new-1")
        assert found is not None
        assert [(job.job_id, job.is_cancelled) for job in found.taken] == [("new-1", True)]
        again = await lease.look(0, "new-1")
        assert again is not None
        assert not again.taken


async def test_a_released_job_waits(url: str) -> None:
    """A refused job is taken later, and does not hinder others; a cancelled one is taken at once."""
    async with JobTable(SqlJournal(url)) as table:
        lease = Lease(table, Line())
        await lease.begin()
        await filled(table, 3)
        (job,) = (await looked(lease, 1)).taken
        await table.release(job.job_id, lease.holder, 60.0, is_urgent=False)
        assert [job.job_id for job in (await looked(lease, 5)).taken] == ["new-1", "new-2"]
        assert await table.cancel(job.job_id)
        (again,) = (await looked(lease, 5)).taken
        assert (again.job_id, again.is_cancelled) == (job.job_id, True)
        await lease.end()
        other = Lease(table, Line())
        await other.begin()
        assert len((await looked(other, 5)).taken) == 3


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


async def test_a_job_whose_end_could_not_be_written(tmp_path: Path) -> None:
    """The process returns it to the queue, and executes it again."""
    Failing.error, Failing.runs = RunUnknown("deleted"), 0
    table = JobTable(SqlJournal(tmp_path / "runs.db"))
    async with running(table) as jobs:
        holders = "SELECT holder FROM podium_job_holders"
        (row,) = await table.transaction(lambda each: each.fetch(holders), reads=True)
        assert jobs.is_idle
        await table.add(new_job("job", "failing", "local", {}), row["holder"])
        with anyio.fail_after(20):
            while await table.is_open("job"):  # noqa: ASYNC110 - as above
                await anyio.sleep(0.01)
    assert Failing.runs == 1


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
