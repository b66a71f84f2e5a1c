"""Runs the lines of a batch, several at the same time."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from podium.errors import JournalError, PodiumError, RunDead, RunExists, RunHeld, RunLost
from podium.journal import Journal
from podium.resume import result_of
from podium.types import Result
from podium_server.batch.budget import Budget
from podium_server.batch.input import BadLine, Line
from podium_server.batch.output import Files, Kept
from podium_server.batch.progress import Progress
from podium_server.batch.record import Record, answered, failed, invalid, not_started
from podium_server.http import BadRequest
from podium_server.keys import BudgetSpent
from podium_server.turn import Recorded, Turns

_OF_ONE_RUN = (RunDead, RunExists, RunHeld, RunLost)
"""Errors of the journal that concern one run; all others end the batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """Runs the lines of a batch.

    Args:
        turns: makes the turns of the runs.
        journal: records the runs.
        budget: admits the runs.
        kept: the lines that earlier commands have finished.
        files: receives how each line ended.
        progress: counts the lines.
    """

    turns: Turns
    journal: Journal
    budget: Budget
    kept: Kept
    files: Files
    progress: Progress

    async def run(self, lines: Iterable[Line | BadLine], concurrency: int) -> None:
        """Run the lines.

        Args:
            lines: the lines.
            concurrency: maximum number of lines that run at the same time.

        Raises:
            JournalError: the journal cannot be used.
        """
        recorded = await self._recorded()
        errors: list[Exception] = []
        send, receive = anyio.create_memory_object_stream[Line | BadLine]()
        async with receive, anyio.create_task_group() as tasks:

            async def work(lines: MemoryObjectReceiveStream[Line | BadLine]) -> None:
                try:
                    async with lines:
                        async for line in lines:
                            await self._finish(line, recorded)
                except Exception as error:  # noqa: BLE001 - raised below, outside of the group
                    errors.append(error)
                    tasks.cancel_scope.cancel()

            for _ in range(concurrency):
                tasks.start_soon(work, receive.clone())
            async with send:
                for line in lines:
                    if self._is_kept(line):
                        await anyio.lowlevel.checkpoint()
                    else:
                        await send.send(line)
        if errors:
            raise errors[0]

    def _is_kept(self, line: Line | BadLine) -> bool:
        return isinstance(line, Line) and self.kept.runs.get(line.id) == line.run_id

    async def _finish(self, line: Line | BadLine, recorded: set[str]) -> None:
        """Run a line, and write how it ended."""
        self.progress.begin()
        if isinstance(line, Line) and line.id in self.kept.runs:
            told = (
                f"the results have the id {line.id!r:.80} with another question: choose another id or --out"
            )
            line = BadLine(number=line.number, id=None, given=line.given, error=BadRequest(told))
        record = invalid(line) if isinstance(line, BadLine) else await self._run(line, recorded)
        self.files.write(line, record)
        self.progress.end(record)

    async def _run(self, line: Line, recorded: set[str]) -> Record:
        earlier = await self._earlier(line.run_id) if line.run_id in recorded else None
        try:
            answer = await line.request.answer(self.turns, line.model, line.run_id, earlier)
        except BudgetSpent as error:
            return not_started(line, str(error))
        except PodiumError as error:
            if isinstance(error, JournalError) and not isinstance(error, _OF_ONE_RUN):
                raise
            return failed(line, error, self.budget.result(line.run_id) or getattr(error, "result", None))
        self.budget.result(line.run_id)
        return answered(line, answer)

    async def _earlier(self, run_id: str) -> Recorded:
        events = [entry.event for entry in await self.journal.read(run_id)]
        return Recorded(result_of(events), events)

    async def _recorded(self) -> set[str]:
        """Charge the runs that earlier commands recorded; return those whose results are used as they are."""
        name = re.compile(rf"{re.escape(self.kept.name)}-[0-9a-f]+")
        done, found = set(self.kept.runs.values()), set[str]()
        for row in await self.journal.runs(prefix=f"{self.kept.name}-", limit=None):
            if row.run_id in done or not name.fullmatch(row.run_id):
                continue
            is_final = row.state == "ok" or (row.state in ("partial", "failed") and not self.kept.retries)
            cost = row.cost
            if cost is None and not is_final:
                cost = (await self._so_far(row.run_id)).cost
            self.budget.charge_recorded(row.run_id, cost, is_continued=not is_final)
            if is_final:
                found.add(row.run_id)
        return found

    async def _so_far(self, run_id: str) -> Result:
        """Return an interrupted run; a call without a recorded end has the cost of its reservation."""
        events = [entry.event for entry in await self.journal.read(run_id)]
        return result_of(events, await self.journal.nested(run_id))
