"""Continues runs whose time to answer a question is over, and which no process executes."""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from math import inf
from time import time

from podium.errors import PodiumError, RunUnknown
from podium.journal import SqlJournal
from podium.run_state import fold
from podium.secrets import scrub
from podium_server.api.runs.actions import RunActions
from podium_server.background_tasks import beside, repeat
from podium_server.jobs.jobs import RETRY_SECONDS, is_temporary
from podium_server.jobs.table import JobTable

LOGGER = logging.getLogger("podium")
_PERIOD = 2.0
"""Seconds between two looks at the runs that wait."""
_MOST_READ = 100
"""Maximum number of records that one look reads."""


class Deadlines:
    """Continues runs at the deadlines of their questions.

    Args:
        journal: records the runs.
        table: lists the runs that wait.
        actions: continues runs.
    """

    def __init__(self, journal: SqlJournal, table: JobTable, actions: RunActions) -> None:
        self._journal = journal
        self._table = table
        self._actions = actions
        self._due: dict[tuple[str, float], float] = {}
        """By run and its last end: when it is to be continued, in seconds of Unix time."""

    @asynccontextmanager
    async def running(self, period: float = _PERIOD) -> AsyncGenerator[None, None]:
        """Look every `period` seconds, until the block ends; log failures of the database."""

        async def run() -> None:
            await repeat(self._look, period=period, told="the deadlines of questions cannot be looked for")

        async with beside(run):
            yield

    async def _look(self) -> None:
        waiting = await self._table.waiting()
        self._due = {each: self._due[each] for each in waiting if each in self._due}
        for each in [each for each in waiting if each not in self._due][:_MOST_READ]:
            self._due[each] = await deadline_of(self._journal, each[0])
        for each, due in list(self._due.items()):
            if due <= time():
                self._due[each] = await self._continue(each[0])

    async def _continue(self, run_id: str) -> float:
        """Continue a run, and return when to try it again if it still waits then."""
        try:
            await self._actions.continue_late(run_id)
        except PodiumError as error:
            if not is_temporary(error, is_admitted=False):
                LOGGER.warning("run %s is not continued at its deadline: %s", run_id, scrub(str(error)))
                return inf
        return time() + RETRY_SECONDS


async def deadline_of(journal: SqlJournal, run_id: str) -> float:
    """Return when the first question of a run is late, in seconds of Unix time; infinity for never."""
    try:
        asked = fold(entry.event for entry in await journal.read(run_id)).waiting
    except RunUnknown:  # it was deleted
        return inf
    untils = [each.question.until for each in asked if each.question is not None]
    return min([until for until in untils if until is not None], default=inf)
