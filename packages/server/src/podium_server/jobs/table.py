"""The table of the jobs, in the database of the journal.

A job is a run in the background. The table has the request of the job only; the journal has its run.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from time import monotonic, time
from typing import Any

from podium.journal import Schema, SqlJournal, SqlTables, Transaction
from podium.journal.journal import LAST_CHARACTER
from podium.journal.sql.changes import Follower
from podium.journal.sql.database import marks
from podium.journal.sql.lease import Lease
from podium.journal.sql.tables import PostgresOnly
from podium.secrets import scrub_data
from podium_server.http import ServerBusy

SCHEMA = Schema(
    "jobs",
    [
        [
            """
            CREATE TABLE podium_jobs (
                job_id TEXT PRIMARY KEY, kind TEXT NOT NULL, caller_id TEXT NOT NULL, request TEXT NOT NULL,
                created DOUBLE PRECISION NOT NULL, holder TEXT NOT NULL, due DOUBLE PRECISION NOT NULL,
                is_urgent INTEGER NOT NULL, is_cancelled INTEGER NOT NULL, error TEXT
            )
            """,
            "CREATE INDEX podium_jobs_due ON podium_jobs (holder, is_urgent, due)",
            "CREATE TABLE podium_job_holders (holder TEXT PRIMARY KEY, until DOUBLE PRECISION NOT NULL)",
            "CREATE TABLE podium_cancels (run_id TEXT PRIMARY KEY, at DOUBLE PRECISION NOT NULL)",
        ],
        [
            "DROP INDEX podium_jobs_due",
            "CREATE INDEX podium_jobs_line ON podium_jobs (holder, is_urgent, caller_id, created)",
        ],
        [PostgresOnly('CREATE INDEX podium_jobs_prefix ON podium_jobs (job_id COLLATE "C")')],
        [  # a response is a view of its run, whose record has the request
            "DELETE FROM podium_jobs WHERE kind = 'response'",
            "DROP TABLE IF EXISTS podium_response_events",
            "DROP TABLE IF EXISTS podium_responses",
            "DELETE FROM podium_schema WHERE name = 'responses'",
        ],
        ["DROP TABLE podium_job_holders"],  # a process has one lease, in the table of the journal
    ],
)
"""The tables.

`podium_jobs` has the jobs that have not ended. `holder` is the process that executes a job; empty if it waits
in the queue, where a process may take it at `due`. Urgent jobs are taken first: those that were begun before,
or were cancelled. A job that failed before its run began is kept for some time: its holder is `failed`, and
`error` says why. `podium_cancels` has the runs of open requests that are to be cancelled.
"""
QUEUE = "queue"
"""The name under which processes follow the queue, in place of the id of a run."""
FAILED = "failed"
"""The holder of a job that failed before its run began."""
_KEPT_SECONDS = 7 * 86400.0
"""How long such a job is kept."""
_COLUMNS = (
    "job_id", "kind", "caller_id", "request", "created", "holder", "due", "is_urgent", "is_cancelled",
    "error",
)  # fmt: skip
COLUMNS = ", ".join(_COLUMNS)
_ADD = f"""
INSERT INTO podium_jobs ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, {{now}}, ?, 0, NULL) ON CONFLICT DO NOTHING
"""  # noqa: S608 - no value from outside
_QUEUED = "SELECT count(*) AS number FROM (SELECT 1 FROM podium_jobs WHERE holder = '' LIMIT ?) AS queued"
_RELEASE = """
UPDATE podium_jobs SET holder = '', due = {now} + ?, is_urgent = ? WHERE job_id = ? AND holder = ?
"""
RELEASE_ALL = "UPDATE podium_jobs SET holder = '', due = {now} WHERE holder = ?"
_CANCEL = f"""
UPDATE podium_jobs
SET is_cancelled = 1, is_urgent = 1, due = CASE WHEN holder = '' THEN 0 ELSE due END
WHERE job_id = ? AND holder <> '{FAILED}'
"""  # noqa: S608 - no value from outside
_FAIL = f"""
UPDATE podium_jobs SET holder = '{FAILED}', request = '{{}}', error = ? WHERE job_id = ? AND holder = ?
"""  # noqa: S608 - as above
_FORGET = f"DELETE FROM podium_jobs WHERE holder = '{FAILED}' AND created < {{now}} - {_KEPT_SECONDS}"  # noqa: S608 - as above

Also = Callable[[Transaction], Awaitable[bool]]


class QueueFull(ServerBusy):
    """The queue has as many jobs as it may have."""

    code = "queue_full"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredJob:
    """A row of the table."""

    job_id: str
    """The id of the run."""
    kind: str
    caller_id: str
    """The caller that pays for the run."""
    request: Mapping[str, Any]
    """What to do, as plain JSON."""
    created: float
    """In seconds of Unix time."""
    holder: str = ""
    due: float = 0.0
    is_urgent: bool = False
    is_cancelled: bool = False
    error: Mapping[str, str] | None = None
    """The `code` and the `message` of a job that failed before its run began; `None` for other jobs."""


def new_job(job_id: str, kind: str, caller_id: str, request: Mapping[str, Any]) -> StoredJob:
    """Return a job that is not stored yet."""
    return StoredJob(job_id=job_id, kind=kind, caller_id=caller_id, request=request, created=time())


class JobTable(SqlTables):
    """The jobs in the database of a journal."""

    def __init__(self, journal: SqlJournal) -> None:
        super().__init__(SCHEMA, journal.url)
        self.journal = journal

    def following(self, job_id: str) -> AbstractAsyncContextManager[Follower]:
        """Follow the run of a job, and the end of the job."""
        return self.journal.following(job_id)

    async def add(
        self, job: StoredJob, holder: str, also: Also | None = None, *, most: int | None = None
    ) -> bool:
        """Store a new job; return `False` if there is one with its id, or `also` returns `False`."""
        async with self.opened() as database:
            add = _ADD.replace("{now}", database.now)
            request = json.dumps(scrub_data(job.request), ensure_ascii=False)
            values = (job.job_id, job.kind, job.caller_id, request, job.created, holder, int(bool(holder)))

            async def work(transaction: Transaction) -> bool:
                if not await transaction.execute(add, *values):
                    found = await self._rows(transaction, "job_id = ?", job.job_id)
                    return found[0].created == job.created  # an earlier attempt has stored it
                if most is not None:
                    (row,) = await transaction.fetch(_QUEUED, most + 1)
                    if row["number"] > most:
                        raise QueueFull(f"the queue is full: {most} runs wait in it")
                if also is not None and not await also(transaction):
                    await transaction.execute("DELETE FROM podium_jobs WHERE job_id = ?", job.job_id)
                    return False
                return True

            is_added = await database.transaction(work, alone=also is None and most is None)
        if is_added and not holder:
            await self.journal.tell([QUEUE])
        return is_added

    async def has_room(self, most: int) -> bool:
        """Return whether the queue has fewer than `most` jobs."""
        return await self.queued(most) < most

    async def queued(self, most: int) -> int:
        """Return the number of jobs that wait in the queue, or `most` if there are more."""
        rows = await self.transaction(lambda each: each.fetch(_QUEUED, most), reads=True)
        return int(rows[0]["number"])

    async def find(self, job_id: str) -> StoredJob | None:
        """Return a job; `None` if there is none, or it has ended."""
        rows = await self.transaction(lambda each: self._rows(each, "job_id = ?", job_id), reads=True)
        return rows[0] if rows else None

    async def without_run(
        self, kind: str, which: Sequence[str], values: Sequence[Any], most: int
    ) -> Sequence[StoredJob]:
        """Return the jobs whose runs have not begun, the newest first."""
        none = "NOT EXISTS (SELECT 1 FROM podium_runs WHERE run_id = job_id)"
        where = " AND ".join(["kind = ?", none, *which])
        order = f"ORDER BY created DESC, job_id DESC LIMIT {most}"
        return await self.transaction(
            lambda each: self._rows(each, f"{where} {order}", kind, *values), reads=True
        )

    async def waiting(self) -> Sequence[tuple[str, float]]:
        """Return the runs that wait for a person, without nested runs, each with the time of its last end."""
        query = "SELECT run_id, ended FROM podium_runs WHERE state = 'waiting' AND parent IS NULL"
        rows = await self.transaction(lambda each: each.fetch(query), reads=True)
        return [(row["run_id"], row["ended"]) for row in rows]

    async def is_open(self, job_id: str) -> bool:
        """Return whether a job is in the queue, or is executed."""
        job = await self.find(job_id)
        return job is not None and job.error is None

    async def ids(self, prefix: str) -> Sequence[str]:
        """Return the ids of the jobs that begin with a text."""
        async with self.opened() as database:
            job_id = f"job_id {database.bytewise}"
            query = f"SELECT job_id FROM podium_jobs WHERE {job_id} >= ? AND {job_id} < ?"  # noqa: S608 - no value from outside
            rows = await database.transaction(
                lambda each: each.fetch(query, prefix, prefix + LAST_CHARACTER), reads=True
            )
        return [row["job_id"] for row in rows]

    async def release(
        self, job_id: str, holder: str, seconds: float = 0.0, *, is_urgent: bool = True
    ) -> None:
        """Return a job to its place in the queue, where a process may take it after some seconds."""
        await self._execute(_RELEASE, seconds, int(is_urgent), job_id, holder)

    async def release_all(self, holder: str) -> None:
        """Return all jobs of a process to the queue."""
        await self._execute(RELEASE_ALL, holder)

    async def remove(self, job_id: str, holder: str) -> None:
        """Delete a job that has ended, if `holder` holds it."""
        await self._execute("DELETE FROM podium_jobs WHERE job_id = ? AND holder = ?", job_id, holder)
        await self.journal.tell([job_id])

    async def fail(self, job_id: str, holder: str, error: Mapping[str, str]) -> None:
        """Keep the error of a job, without its request, because the journal has no run that shows it."""
        text = json.dumps(scrub_data(error), ensure_ascii=False)
        await self._execute(_FAIL, text, job_id, holder)
        await self.journal.tell([job_id])
        await self._execute(_FORGET)

    async def cancel(self, job_id: str) -> bool:
        """Ask the process that executes a job, or takes it next, to end it; return whether there is one."""
        return await self._execute(_CANCEL, job_id) > 0

    async def ask_cancel(self, run_id: str) -> None:
        """Ask the process that answers a request to end its run."""
        statement = "INSERT INTO podium_cancels (run_id, at) VALUES (?, {now}) ON CONFLICT DO NOTHING"
        await self._execute(statement, run_id)

    async def forget_cancel(self, run_id: str) -> None:
        """Delete what `ask_cancel` has stored."""
        await self._execute("DELETE FROM podium_cancels WHERE run_id = ?", run_id)

    async def _rows(self, transaction: Transaction, where: str, *values: str | float) -> list[StoredJob]:
        query = f"SELECT {COLUMNS} FROM podium_jobs WHERE {where}"  # noqa: S608 - no value from outside
        return [read_job(row) for row in await transaction.fetch(query, *values)]

    async def _execute(self, statement: str, *values: str | float) -> int:
        """Execute a statement, and return the number of changed rows."""
        async with self.opened() as database:
            text = statement.replace("{now}", database.now)
            return await database.transaction(lambda each: each.execute(text, *values), alone=True)


def read_job(row: Any) -> StoredJob:
    """Return the job of a row."""
    facts = {name: row[name] for name in _COLUMNS}
    facts |= {name: bool(facts[name]) for name in ("is_urgent", "is_cancelled")}
    facts["request"] = json.loads(facts["request"])
    facts["error"] = None if facts["error"] is None else json.loads(facts["error"])
    return StoredJob(**facts)


_MOST_CALLERS = 1000
"""Maximum callers of one look; the next look continues with the others."""

_CALLERS = """
WITH RECURSIVE line (caller_id) AS (
    SELECT * FROM (
        SELECT caller_id FROM podium_jobs
        WHERE holder = '' AND is_urgent = ? AND caller_id > ? ORDER BY caller_id LIMIT 1
    ) AS begun
    UNION ALL
    SELECT (
        SELECT job.caller_id FROM podium_jobs AS job
        WHERE job.holder = '' AND job.is_urgent = ? AND job.caller_id > line.caller_id
        ORDER BY job.caller_id LIMIT 1
    ) FROM line WHERE line.caller_id IS NOT NULL
)
SELECT caller_id FROM line WHERE caller_id IS NOT NULL LIMIT ?
"""
"""The callers after one of them that have jobs in the queue. The index finds each of them, so that the time
does not depend on the number of their jobs."""
_DUE = f"""
SELECT {COLUMNS} FROM podium_jobs
WHERE holder = '' AND is_urgent = ? AND caller_id = ? AND due <= (SELECT {{now}})
ORDER BY created LIMIT ? {{skip}}
"""  # noqa: S608 - no value from outside
_ONE = f"SELECT {COLUMNS} FROM podium_jobs WHERE holder = '' AND job_id = ? {{lock}}"  # noqa: S608 - as above
_TAKE = "UPDATE podium_jobs SET holder = ?, is_urgent = 1 WHERE job_id IN {ids}"

_HOLDERS = f"""
SELECT holder FROM podium_jobs WHERE holder > '' AND holder < '{FAILED}'
UNION SELECT holder FROM podium_jobs WHERE holder > '{FAILED}'
"""  # noqa: S608 - as above
"""The processes that execute jobs. Jobs in the queue and failed jobs, which may be many, are not read."""
_HELD = "SELECT job_id, is_cancelled FROM podium_jobs WHERE holder = ?"
_CANCEL_SECONDS = 60.0
"""How long a process that was asked to cancel a run may take to see it."""
_FORGET_CANCELS = f"DELETE FROM podium_cancels WHERE at < {{now}} - {_CANCEL_SECONDS}"  # noqa: S608 - as above


@dataclass(frozen=True, slots=True)
class Look:
    """What a process found in the tables."""

    held: Mapping[str, bool]
    """The ids of the jobs that this process held before, and whether they were cancelled."""
    taken: Sequence[StoredJob]
    """The jobs that this process has taken from the queue, as they were before."""
    cancels: Sequence[str]
    """The runs of open requests that were cancelled."""


@dataclass(slots=True)
class _Pace:
    """How slowly jobs of a caller are taken that was refused."""

    until: float
    """When the next is taken, on the monotonic clock."""
    most: int = 1
    """How many one look takes; each look doubles it, until a job is refused."""


class Line:
    """The order in which a process takes jobs."""

    def __init__(self) -> None:
        self._after = {1: "", 0: ""}
        """The caller of the last job that was taken, of urgent jobs and of others."""
        self._paces: dict[str, _Pace] = {}
        """The callers that were refused."""

    @property
    def is_held_up(self) -> bool:
        """Whether jobs may wait because their caller was refused."""
        return bool(self._paces)

    def is_slow(self, caller_id: str) -> bool:
        """Return whether a job of a caller was refused, so that its jobs may wait in the queue."""
        return caller_id in self._paces

    def put_off(self, caller_id: str, seconds: float) -> None:
        """Take no job of a caller for some seconds, and then one, because a job was refused."""
        self._paces[caller_id] = _Pace(monotonic() + seconds)

    def ended(self, caller_id: str) -> None:
        """Take a job of a caller again, because one has ended."""
        if (pace := self._paces.get(caller_id)) is not None:
            pace.until = 0.0

    async def look(self, lease: Lease, most: int, cancelled: str | None = None) -> Look:
        """Return the jobs of ended processes to the queue, take jobs, and one that was cancelled.

        The whole look is one transaction, which also renews the lease. It uses indexes only, and reads of the
        jobs of other processes only their holders.
        """
        now, for_update = lease.database.now, lease.database.for_update

        async def work(transaction: Transaction) -> Look:
            for holder in await lease.ended(transaction, _HOLDERS):
                await transaction.execute(RELEASE_ALL.replace("{now}", now), holder)
            held = await transaction.fetch(_HELD, lease.holder)
            taken = await self._take(transaction, lease.holder, most, now=now, for_update=for_update)
            if cancelled is not None:
                rows = await transaction.fetch(_ONE.format(lock=for_update), cancelled)
                taken += await _taken(transaction, lease.holder, rows)
            cancels = await transaction.fetch("SELECT run_id FROM podium_cancels")
            if cancels:
                await transaction.execute(_FORGET_CANCELS.format(now=now))
            return Look(
                {row["job_id"]: bool(row["is_cancelled"]) for row in held},
                taken,
                [row["run_id"] for row in cancels],
            )

        return await lease.transaction(work)

    async def _take(
        self, transaction: Transaction, holder: str, most: int, *, now: str, for_update: str
    ) -> list[StoredJob]:
        """Take jobs from the queue, and return them as they were before.

        Urgent jobs come first. Otherwise each caller has the same share, and its oldest jobs come first.
        """
        due = _DUE.format(now=now, skip=f"{for_update} SKIP LOCKED" if for_update else "")
        taken: list[StoredJob] = []

        async def take(is_urgent: int, caller_id: str, number: int) -> int:
            rows = await transaction.fetch(due, is_urgent, caller_id, number)
            taken.extend(await _taken(transaction, holder, rows))
            if rows:
                self._note(is_urgent, caller_id, most)
            return len(rows)

        for is_urgent in (1, 0):
            if len(taken) == most:
                break
            callers = await self._callers(transaction, is_urgent)
            shares = {each: share for each in callers if (share := self._share(each, most))}
            while shares and len(taken) < most:
                number = max((most - len(taken)) // len(shares), 1)
                for caller_id in tuple(shares):
                    wanted = min(number, shares[caller_id], most - len(taken))
                    found = await take(is_urgent, caller_id, wanted) if wanted else 0
                    shares[caller_id] -= found
                    if found < wanted or not shares[caller_id]:
                        del shares[caller_id]
        return taken

    async def _callers(self, transaction: Transaction, is_urgent: int) -> Sequence[str]:
        """Return the callers with jobs in the queue, first the next one after the last job."""
        found: list[str] = []
        for after in dict.fromkeys((self._after[is_urgent], "")):
            if len(found) < _MOST_CALLERS:
                rows = await transaction.fetch(_CALLERS, is_urgent, after, is_urgent, _MOST_CALLERS)
                found += (row["caller_id"] for row in rows)
        return tuple(dict.fromkeys(found))

    def _share(self, caller_id: str, most: int) -> int:
        """Return how many jobs of a caller one look may take."""
        pace = self._paces.get(caller_id)
        if pace is None:
            return most
        return pace.most if pace.until <= monotonic() else 0

    def _note(self, is_urgent: int, caller_id: str, most: int) -> None:
        self._after[is_urgent] = caller_id
        if (pace := self._paces.get(caller_id)) is not None:
            pace.most *= 2
            if pace.most > most:
                del self._paces[caller_id]


async def _taken(transaction: Transaction, holder: str, rows: Sequence[Any]) -> list[StoredJob]:
    if rows:
        take = _TAKE.format(ids=marks(len(rows)))
        await transaction.execute(take, holder, *(row["job_id"] for row in rows))
    return [read_job(row) for row in rows]
