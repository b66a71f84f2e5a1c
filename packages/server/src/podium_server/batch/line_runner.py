"""Runs lines of a batch in this process."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Protocol

from podium.errors import JournalError, PodiumError, RunDead, RunExists, RunHeld, RunLost
from podium.journal import SqlJournal
from podium.run import RunOptions
from podium.run_state import fold
from podium.types import Result
from podium_server.batch.input import Line
from podium_server.batch.record import Record, answered, failed
from podium_server.keys import Admission, Ask, Caller, NoKeys
from podium_server.keys.access import FreeAdmission
from podium_server.keys.recorded import excess_of, recorded_run
from podium_server.models import Catalogue
from podium_server.turn import Recorded, Turns

_OF_ONE_RUN = (RunDead, RunExists, RunHeld, RunLost)
"""Errors of the journal that concern one run; all others end the batch."""


class RunsLines(Protocol):
    """Runs lines: in this process, or on a Ray cluster."""

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Return a block in which `run` can be called."""

    async def run(self, line: Line, *, is_recorded: bool) -> Record:
        """Run a line, and return how it ended. A run that was begun before is continued.

        Args:
            line: the line.
            is_recorded: whether to return the recorded result of the run, without another call.

        Raises:
            JournalError: the journal cannot be used.
        """


class LineRunner:
    """Runs lines in this process.

    Args:
        catalogue: the models.
        journal: records the runs.
        run_cost: replaces the cost limit of each run, in USD; `None` keeps the limits of the models.
    """

    def __init__(self, catalogue: Catalogue, journal: SqlJournal, run_cost: float | None) -> None:
        self._catalogue = catalogue
        self._journal = journal
        self._turns = Turns(catalogue, _RunCost(run_cost), journal)

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None, None]:
        """Keep the connections of the models and of the journal open in the block."""
        async with self._journal, self._catalogue.opened():
            yield

    async def run(self, line: Line, *, is_recorded: bool) -> Record:
        """Run a line; see `RunsLines.run`."""
        earlier = await self._earlier(line.run_id) if is_recorded else None
        try:
            answer = await line.request.answer(self._turns, line.model, line.run_id, earlier)
        except PodiumError as error:
            if isinstance(error, JournalError) and not isinstance(error, _OF_ONE_RUN):
                raise
            result = await self._so_far(line.run_id) or getattr(error, "result", None)
            record = failed(line, error, result)
        else:
            result, record = answer.result, answered(line, answer)
        if result is None or record.cost is None:
            return record
        return replace(record, cost=record.cost - await excess_of(self._journal, result))

    async def _earlier(self, run_id: str) -> Recorded:
        events = [entry.event for entry in await self._journal.read(run_id)]
        return Recorded(fold(events).result(), events)

    async def _so_far(self, run_id: str) -> Result | None:
        """Return what is recorded of a failed run; `None` if nothing is, or a process executes it."""
        try:
            recorded = await recorded_run(self._journal, run_id)
        except RunHeld:
            return None
        return None if recorded is None else recorded.result


class _RunCost(NoKeys):
    """Admits each run, with another cost limit."""

    def __init__(self, run_cost: float | None) -> None:
        self._run_cost = run_cost

    @asynccontextmanager
    async def admit(self, caller: Caller, ask: Ask) -> AsyncGenerator[Admission, None]:
        """Admit the run."""
        del caller
        options, conductor = RunOptions(), ask.conductor
        if self._run_cost is not None:
            options["limits"] = replace(conductor.limits, cost=self._run_cost)
        yield FreeAdmission(options)
