"""Wakes those who follow a run when the run has changed, in any process.

A process wakes its own followers directly after each commit, and then notifies other processes. The
notification is not a part of the commit: on PostgreSQL, commits with notifications wait for each other, in
all databases of the server. A notification may be lost, so followers also look after `PERIOD`.
"""

import asyncio
import logging
from collections.abc import Collection, Generator
from contextlib import contextmanager

import anyio

from podium.journal.sql.database import LONGEST_WAIT, Database

PERIOD = 2.0
"""Maximum seconds between two looks of a follower. Some changes have no notification, such as the end of the
process that executes the run."""
_GATHER_SECONDS = 0.02
"""Minimum seconds between two notifications of this process; changes in this time are notified together."""
_CLOSE_SECONDS = 1.0

_logger = logging.getLogger("podium")


class Follower:
    """Waits for the changes of a run."""

    def __init__(self) -> None:
        self._due = anyio.current_time() + PERIOD
        self._has_changed = False
        self._woken = anyio.Event()

    def change(self) -> None:
        """End the wait, because the run has changed."""
        self._has_changed = True
        self._woken.set()

    def wake(self) -> None:
        """End the wait for another reason."""
        self._woken.set()

    async def wait(self) -> bool:
        """Wait until the run has changed or may have changed (`True`), or `wake` is called (`False`)."""
        with anyio.CancelScope(deadline=self._due):
            await self._woken.wait()
        self._woken = anyio.Event()
        if not self._has_changed and anyio.current_time() < self._due:
            return False
        self._has_changed, self._due = False, anyio.current_time() + PERIOD
        return True


class Changes:
    """The changes of the runs of a database, in one event loop."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._followers: dict[str, set[Follower]] = {}
        self._untold: set[str] = set()
        """The runs whose changes other processes do not know yet."""
        self._telling: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._closing = anyio.Event()
        self._is_failing = False
        """Whether a failure was logged, and nothing has worked since."""

    def tell(self, run_ids: Collection[str]) -> None:
        """Wake the followers of runs in this process at once, and then those in other processes."""
        for run_id in run_ids:
            self._changed(run_id)
        if self._database.notifies:
            self._untold.update(run_ids)
            if self._telling is None and self._untold:
                self._telling = asyncio.create_task(self._tell(), name="podium notifications")

    @contextmanager
    def followed(self, run_id: str) -> Generator[Follower, None, None]:
        """Yield a follower of a run."""
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch(), name="podium changes")
        follower = Follower()
        self._followers.setdefault(run_id, set()).add(follower)
        try:
            yield follower
        finally:
            self._followers[run_id].remove(follower)
            if not self._followers[run_id]:
                del self._followers[run_id]

    async def aclose(self) -> None:
        """Send the last notifications, and end the tasks."""
        self._closing.set()
        if self._watching is not None:
            self._watching.cancel()
        tasks = [task for task in (self._telling, self._watching) if task is not None]
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=_CLOSE_SECONDS)
        finally:
            for task in tasks:
                task.cancel()

    def _changed(self, run_id: str | None) -> None:
        """Wake the followers of a run; `None` stands for all runs."""
        every = [*self._followers.values()] if run_id is None else [self._followers.get(run_id, ())]
        for followers in every:
            for follower in followers:
                follower.change()

    async def _tell(self) -> None:
        try:
            while self._untold:
                run_ids, self._untold = self._untold, set()
                try:
                    await self._database.notify(run_ids)
                    self._is_failing = False
                except Exception as error:  # noqa: BLE001 - drivers raise many types; `failure` translates them
                    self._log(error)
                with anyio.move_on_after(_GATHER_SECONDS):
                    await self._closing.wait()
        finally:
            self._telling = None

    async def _watch(self) -> None:
        while True:
            try:
                await self._database.watch(self._heard)
            except Exception as error:  # noqa: BLE001 - as above
                self._log(error)
            await anyio.sleep(LONGEST_WAIT)

    def _heard(self, run_id: str | None) -> None:
        self._is_failing = False
        self._changed(run_id)

    def _log(self, error: Exception) -> None:
        if not self._is_failing:
            told = "changes of runs by other processes are seen up to %g seconds later until this ends: %s"
            _logger.warning(told, PERIOD, self._database.failure(error))
        self._is_failing = True
