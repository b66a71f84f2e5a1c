"""The lease of this process on the jobs that it executes, and its look into the shared queue."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from podium.journal import Transaction
from podium.journal.sql.lease import has_ended, new_holder
from podium_server.jobs.line import Line, take_one
from podium_server.jobs.table import JobTable, StoredJob

LEASE = 60.0
"""Seconds for which a process holds its jobs after it has last renewed its lease. It is longer than the
`patience` of the database."""
_CANCEL_SECONDS = 60.0
"""How long a process that was asked to cancel a run may take to see it."""

_BEGIN = "INSERT INTO podium_job_holders (holder, until) VALUES (?, {now} + ?)"
_RENEW = "UPDATE podium_job_holders SET until = {now} + ? WHERE holder = ?"
_HOLDERS = "SELECT holder, until < {now} AS is_late FROM podium_job_holders ORDER BY holder"
_END_LATE = "DELETE FROM podium_job_holders WHERE holder = ? AND until < {now}"
_END = "DELETE FROM podium_job_holders WHERE holder = ?"
_RETURN = "UPDATE podium_jobs SET holder = '', due = {now} WHERE holder = ?"
_HELD = "SELECT job_id, is_cancelled FROM podium_jobs WHERE holder = ?"
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


class Lease:
    """The lease of one process. After the lease was lost, the process needs a new one."""

    def __init__(self, table: JobTable, line: Line, seconds: float = LEASE) -> None:
        self.holder = new_holder()
        self._table = table
        self._line = line
        self._seconds = seconds

    async def begin(self) -> None:
        """Begin the lease."""
        async with self._table.opened() as database:
            begin = _BEGIN.format(now=database.now) + " ON CONFLICT DO NOTHING"
            await database.transaction(lambda each: each.execute(begin, self.holder, self._seconds))

    async def look(self, most: int, cancelled: str | None = None) -> Look | None:
        """Renew the lease, return the jobs of dead processes to the queue, and take jobs from the queue.

        The whole look is one transaction. It uses indexes only, and reads no job that another process holds.

        Returns:
            `None` if the lease was lost: then other processes have the jobs.
        """
        async with self._table.opened() as database:
            now = database.now
            renew, forget = (text.format(now=now) for text in (_RENEW, _FORGET_CANCELS))

            async def work(transaction: Transaction) -> Look | None:
                if not await transaction.execute(renew, self._seconds, self.holder):
                    return None
                await self._return_jobs(transaction, now)
                held = await transaction.fetch(_HELD, self.holder)
                taken = await self._line.take(
                    transaction, self.holder, most, now=now, for_update=database.for_update
                )
                if cancelled is not None:
                    taken += await take_one(
                        transaction, self.holder, cancelled, for_update=database.for_update
                    )
                cancels = await transaction.fetch("SELECT run_id FROM podium_cancels")
                if cancels:
                    await transaction.execute(forget)
                return Look(
                    {row["job_id"]: bool(row["is_cancelled"]) for row in held},
                    taken,
                    [row["run_id"] for row in cancels],
                )

            return await database.transaction(work)

    async def end(self) -> None:
        """End the lease, and return its jobs to the queue."""
        async with self._table.opened() as database:
            give_back = _RETURN.format(now=database.now)

            async def work(transaction: Transaction) -> None:
                await transaction.execute(_END, self.holder)
                await transaction.execute(give_back, self.holder)

            await database.transaction(work)

    async def _return_jobs(self, transaction: Transaction, now: str) -> None:
        """Return the jobs of processes that have ended, or lost their lease, to the queue."""
        for row in await transaction.fetch(_HOLDERS.format(now=now)):
            holder = row["holder"]
            is_dead = holder != self.holder and has_ended(holder)
            if is_dead or row["is_late"]:
                ended = await transaction.execute(_END if is_dead else _END_LATE.format(now=now), holder)
                if ended:
                    await transaction.execute(_RETURN.format(now=now), holder)
