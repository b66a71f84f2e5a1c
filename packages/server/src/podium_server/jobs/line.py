"""The look of a process into the shared queue.

It takes jobs in turn from each caller, and slowly from callers that were refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from podium.journal import Transaction
from podium.journal.sql.database import marks
from podium.journal.sql.lease import Lease
from podium_server.jobs.table import COLUMNS, FAILED, RELEASE_ALL, StoredJob, read_job

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
SELECT DISTINCT holder FROM podium_jobs
WHERE (holder > '' AND holder < '{FAILED}') OR holder > '{FAILED}'
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
