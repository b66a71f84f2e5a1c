"""The lease of this process on all that it holds in a database: its runs, its jobs, and its reservations.

Runs, jobs and reservations have the name of their holder: one opened database of one process. What the holder
holds may be taken over when its lease has ended, or when its process is known to have ended.
"""

import asyncio
import logging
import os
import platform
from collections.abc import Callable
from functools import cache
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar
from uuid import uuid4

import anyio

from podium.journal.sql.database import Database, Transaction, Work

_LOGGER = logging.getLogger("podium")
_Result = TypeVar("_Result")
_FORGET_SECONDS = 86400.0
"""Seconds from the end of a lease to its deletion."""
_RETRY_SECONDS = 1.0
"""Maximum seconds between two attempts to renew a lease."""


class Lease:
    """One row, and the task that renews it.

    All times are those of the database, so that no two clocks are compared. A process that takes something
    over deletes the row in the same transaction. The holder, if it lives, sees at its next renewal that its
    row is missing: it adds the row again, and gives up everything that it held before.

    Args:
        database: the database.
        seconds: how long the lease is valid after a renewal.
    """

    def __init__(self, database: Database, seconds: float) -> None:
        self.database = database
        self.holder = new_holder()
        self.on_lost: list[Callable[[], object]] = []
        """Called in the event loop after the lease was lost."""
        self._seconds = seconds
        self._renewed_at = -inf
        self._is_lost = False
        self._task: asyncio.Task[None] | None = None
        now = database.now
        # no value from outside is in these statements
        self._renew = f"UPDATE podium_leases SET until = {now} + ? WHERE holder = ?"  # noqa: S608
        self._begin = f"""
            INSERT INTO podium_leases (holder, until) VALUES (?, {now} + ?) ON CONFLICT DO NOTHING
        """  # noqa: S608
        self._forget = f"DELETE FROM podium_leases WHERE until < {now} - ?"  # noqa: S608
        self._end_late = f"DELETE FROM podium_leases WHERE holder = ? AND until < {now}"  # noqa: S608

    async def keep(self, *, patience: float | None = None) -> None:
        """Begin the lease, or renew it when a third of its time has passed."""
        if monotonic() - self._renewed_at >= self._seconds / 3:
            await self.renew(patience=patience)

    async def renew(self, *, patience: float | None = None) -> None:
        """Renew the lease, and delete those that ended long ago."""
        await self.transaction(
            lambda transaction: transaction.execute(self._forget, _FORGET_SECONDS), patience=patience
        )

    async def transaction(self, work: Work[_Result], *, patience: float | None = None) -> _Result:
        """Run `work` in a transaction that renews the lease first; see `Database.transaction`."""

        async def renewed(transaction: Transaction) -> _Result:
            if not await transaction.execute(self._renew, self._seconds, self.holder):
                is_added = await transaction.execute(self._begin, self.holder, self._seconds)
                self._is_lost |= bool(is_added) and self._task is not None
            return await work(transaction)

        at = monotonic()
        try:
            result = await self.database.transaction(renewed, patience=patience)
        finally:
            if self._is_lost:  # also if this attempt failed: a retry finds the row that an earlier one added
                self._is_lost = False
                for lose in self.on_lost:
                    lose()
        self._renewed_at = at
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="podium lease")
        return result

    async def _run(self) -> None:
        """Renew the lease until the task is cancelled."""
        while True:
            await anyio.sleep(max(self._renewed_at + self._seconds / 3 - monotonic(), 0.0))
            try:
                await self.keep()
            except Exception as error:  # noqa: BLE001 - logged: the next attempt may succeed
                _LOGGER.warning("the lease of this process cannot be renewed: %s", error)
                await anyio.sleep(min(self._seconds / 3, _RETRY_SECONDS))

    async def ended(self, transaction: Transaction, holders: str) -> list[str]:
        """End the leases of other processes that are late or have ended, and return these holders.

        The transaction may take over what they hold.

        Args:
            transaction: the transaction.
            holders: SQL query for each `holder` of what may be taken over.
        """
        found = await transaction.fetch(
            f"SELECT held.holder, lease.until < {self.database.now} AS is_late FROM ({holders}) AS held "  # noqa: S608 - no value from outside
            "LEFT JOIN podium_leases AS lease ON lease.holder = held.holder ORDER BY held.holder"
        )
        ended: list[str] = []
        for holder, is_late in ((row["holder"], row["is_late"]) for row in found):
            if holder == self.holder:
                continue
            if has_ended(holder):
                await transaction.execute("DELETE FROM podium_leases WHERE holder = ?", holder)
            elif is_late is not None and not (is_late and await transaction.execute(self._end_late, holder)):
                continue
            ended.append(holder)
        return ended

    async def aclose(self) -> None:
        """End the task. The lease ends by itself."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])


PROC = Path("/proc")

open_fences: set[str] = set()
"""The fences of the runs that this process is running."""


def is_given_up(holder: str, fence: str) -> bool:
    """Return whether this process held a run and released it while the database failed."""
    return holder.rpartition(":")[2].startswith(_token(os.getpid())) and fence not in open_fences


def new_holder() -> str:
    """Return a new name: host, process id, its namespace, its start time, and a number of this process."""
    pid = os.getpid()
    number = _token(pid) + uuid4().hex[:8]
    return f"{platform.node()}:{pid}:{_namespace()}:{_start_time(pid) or ''}:{number}"


def is_held(row: Any) -> bool:
    """Return whether a live process holds the run of a row, which has `holder`, `fence` and `is_live`."""
    holder, fence = row["holder"], row["fence"]
    if holder is None or not row["is_live"]:
        return False
    return not has_ended(holder) and not is_given_up(holder, fence)


def process_of(holder: str) -> str:
    """Return the process and host of a holder, for messages."""
    host, pid = holder.rsplit(":", 4)[:2]
    return f"process {pid} on {host}"


def has_ended(holder: str) -> bool:
    """Return whether the process of a holder is known to have ended."""
    parts = holder.rsplit(":", 4)
    namespace = _namespace()
    if len(parts) != 5 or not parts[1].isdigit() or not namespace or parts[2] != namespace:
        return False
    return _start_time(int(parts[1])) != parts[3]


@cache
def _token(pid: int) -> str:
    """Return the prefix for the numbers of this process's holders; a forked process has its own."""
    del pid
    return uuid4().hex[:16]


def _namespace() -> str:
    """Return the scope in which process ids are unique: boot id and pid namespace; empty if unknown."""
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot}.{(PROC / 'self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def _start_time(pid: int) -> str | None:
    """Return when a process started, in clock ticks since the boot; `None` if no such process runs."""
    try:
        state, *rest = (PROC / str(pid) / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except (OSError, ValueError):
        return None
    return None if state in "ZX" else rest[18]
