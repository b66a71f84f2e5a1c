"""The table of the runs in the background, in the database of the journal.

The table has the requests only. The journal has the runs, and its lease says which process executes a run.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from podium.journal import Location, Schema, SqlJournal, SqlTables

SCHEMA = Schema(
    "run jobs",
    [
        [
            """
            CREATE TABLE podium_run_jobs (
                run_id TEXT PRIMARY KEY, caller_id TEXT NOT NULL, request TEXT NOT NULL,
                events INTEGER NOT NULL, is_cancelled INTEGER NOT NULL
            )
            """
        ]
    ],
)
_ADD = """
INSERT INTO podium_run_jobs (run_id, caller_id, request, events, is_cancelled) VALUES (?, ?, ?, ?, 0)
ON CONFLICT (run_id) DO NOTHING
"""
_MOST = 1_000


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
    is_cancelled: bool = False


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

    async def add(self, job: StoredJob) -> bool:
        """Store a job; return `False` if the run has a job."""
        request = json.dumps(job.request, ensure_ascii=False)
        values = (job.run_id, job.caller_id, request, job.events)
        return bool(await self.transaction(lambda each: each.execute(_ADD, *values)))

    async def remove(self, run_id: str) -> None:
        """Delete the job of a run."""
        statement = "DELETE FROM podium_run_jobs WHERE run_id = ?"
        await self.transaction(lambda each: each.execute(statement, run_id))

    async def cancel(self, run_id: str) -> bool:
        """Mark the job of a run as cancelled; return whether there is one."""
        statement = "UPDATE podium_run_jobs SET is_cancelled = 1 WHERE run_id = ?"
        return bool(await self.transaction(lambda each: each.execute(statement, run_id)))

    async def jobs(self, run_id: str | None = None) -> Sequence[StoredJob]:
        """Return the jobs of all processes, or the job of one run."""
        query = f"SELECT * FROM podium_run_jobs {'' if run_id is None else 'WHERE run_id = ?'} LIMIT {_MOST}"  # noqa: S608 - no value from outside
        values = () if run_id is None else (run_id,)
        rows = await self.transaction(lambda each: each.fetch(query, *values), reads=True)
        return [
            StoredJob(
                run_id=row["run_id"],
                caller_id=row["caller_id"],
                request=json.loads(row["request"]),
                events=row["events"],
                is_cancelled=bool(row["is_cancelled"]),
            )
            for row in rows
        ]
