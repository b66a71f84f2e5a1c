"""The table of the runs in the background, in the database of the journal.

The table has the requests only; the journal has the runs.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from podium.errors import RunHeld
from podium.journal import Location, Schema, SqlJournal, SqlTables, has_ended
from podium.secrets import scrub_data

SCHEMA = Schema(
    "run jobs",
    [
        [
            """
            CREATE TABLE podium_run_jobs (
                run_id TEXT PRIMARY KEY, caller_id TEXT NOT NULL, request TEXT NOT NULL,
                events INTEGER NOT NULL, is_cancelled INTEGER NOT NULL, holder TEXT NOT NULL,
                until DOUBLE PRECISION NOT NULL
            )
            """
        ]
    ],
)
"""The table. A process that executes a job renews its lease, which ends at `until`."""
LEASE = 60.0
"""Seconds for which a process holds a job after it has last renewed its lease."""
_ADD = """
INSERT INTO podium_run_jobs (run_id, caller_id, request, events, is_cancelled, holder, until)
VALUES (?, ?, ?, ?, 0, ?, {now} + ?) ON CONFLICT (run_id) DO NOTHING
"""
_HOLD = "UPDATE podium_run_jobs SET holder = ?, until = {now} + ? WHERE run_id = ? AND holder = ?"
_JOBS = f"""
SELECT *, until < {{now}} AS is_late, until < {{now}} + {LEASE / 2} AS is_due
FROM podium_run_jobs ORDER BY run_id
"""  # noqa: S608 - no value from outside


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredJob:
    """A row of the table: a run that some process executes, or must continue."""

    run_id: str
    caller_id: str
    """The caller that pays for the run."""
    request: Mapping[str, Any]
    """What to do with the run, as plain JSON."""
    events: int
    """The number of recorded events of the run before the request."""
    holder: str
    """The process that executes the run; empty if the job was released."""
    is_cancelled: bool = False
    is_late: bool = False
    """Whether the lease of the holder has ended."""
    is_due: bool = False
    """Whether the holder must renew its lease."""

    @property
    def is_free(self) -> bool:
        """Whether another process may execute the run."""
        return self.is_late or (self.holder != "" and has_ended(self.holder))


class RunStore(SqlTables):
    """The runs in the background in a database, which is the database of a journal.

    Args:
        location: see `SqlJournal`.
    """

    def __init__(self, location: Location = None) -> None:
        super().__init__(SCHEMA, location)

    @classmethod
    def beside(cls, journal: SqlJournal) -> Self:
        """Return the store in the database of a journal."""
        return cls(journal.url)

    async def add(self, job: StoredJob) -> None:
        """Store a job and hold it.

        Raises:
            RunHeld: the run has a job.
        """
        request = json.dumps(scrub_data(job.request), ensure_ascii=False)
        values = (job.run_id, job.caller_id, request, job.events, job.holder, LEASE)
        if not await self._changed(_ADD, *values):
            raise RunHeld(f"run {job.run_id} is executed in the background: wait for its end")

    async def hold(self, run_id: str, holder: str, before: str, seconds: float = LEASE) -> bool:
        """Replace the holder of a job, or renew its lease; return `False` if another process was faster.

        Args:
            run_id: the run.
            holder: the new holder; empty to release the job.
            before: the holder until now.
            seconds: the lease.
        """
        return await self._changed(_HOLD, holder, seconds, run_id, before) > 0

    async def remove(self, run_id: str, holder: str) -> None:
        """Delete the job of a run, if this process holds it."""
        await self._changed("DELETE FROM podium_run_jobs WHERE run_id = ? AND holder = ?", run_id, holder)

    async def cancel(self, run_id: str) -> bool:
        """Mark the job of a run as cancelled; return whether there is one."""
        return await self._changed("UPDATE podium_run_jobs SET is_cancelled = 1 WHERE run_id = ?", run_id) > 0

    async def has(self, run_id: str) -> bool:
        """Return whether a run has a job."""
        query = "SELECT 1 FROM podium_run_jobs WHERE run_id = ?"
        return bool(await self.transaction(lambda each: each.fetch(query, run_id), reads=True))

    async def is_response(self, run_id: str) -> bool:
        """Return whether a run belongs to a response in the background, whose own job continues it."""
        query = "SELECT 1 FROM podium_responses WHERE run_id = ? AND until IS NOT NULL"
        return bool(await self.transaction(lambda each: each.fetch(query, run_id), reads=True))

    async def jobs(self) -> Sequence[StoredJob]:
        """Return the jobs of all processes."""
        async with self.opened() as database:
            query = _JOBS.format(now=database.now)
            rows = await database.transaction(lambda each: each.fetch(query), reads=True)
        return [_job(row) for row in rows]

    async def _changed(self, statement: str, *values: str | float) -> int:
        """Execute a statement, and return the number of changed rows."""
        async with self.opened() as database:
            text = statement.format(now=database.now)
            return await database.transaction(lambda each: each.execute(text, *values))


def _job(row: Any) -> StoredJob:
    return StoredJob(
        run_id=row["run_id"],
        caller_id=row["caller_id"],
        request=json.loads(row["request"]),
        events=row["events"],
        holder=row["holder"],
        is_cancelled=bool(row["is_cancelled"]),
        is_late=bool(row["is_late"]),
        is_due=bool(row["is_due"]),
    )
