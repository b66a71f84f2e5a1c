"""The shared queue: which process takes which jobs, and what happens to the jobs of lost processes."""

from collections.abc import Mapping
from contextlib import AsyncExitStack

import anyio
import pytest

from podium.journal import SqlJournal
from podium_server.jobs.jobs import Job, Jobs
from podium_server.jobs.table import JobTable, StoredJob, new_job

pytestmark = pytest.mark.anyio


async def found(table: JobTable, job_id: str) -> StoredJob:
    job = await table.find(job_id)
    assert job is not None
    return job


class Endless:
    """Work that begins; jobs of the kind `endless` then never end."""

    def __init__(self, job: Job) -> None:
        self._job = job

    async def run(self) -> None:
        self._job.begin()
        if self._job.stored.kind == "endless":
            await anyio.sleep_forever()

    async def end(self, failure: Exception | None) -> Mapping[str, str] | None:
        del failure
        return None

    async def drop(self) -> None:
        """Do nothing."""


async def test_jobs_are_given_up(url: str) -> None:
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
