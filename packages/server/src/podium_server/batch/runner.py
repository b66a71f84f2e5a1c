"""Runs the lines of a batch, several at the same time."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from podium.journal import SqlJournal
from podium_server.batch.budget import Budget
from podium_server.batch.earlier import charge_earlier
from podium_server.batch.input import BadLine, Line
from podium_server.batch.kept import Kept
from podium_server.batch.line_runner import RunsLines
from podium_server.batch.output import Files
from podium_server.batch.progress import Progress
from podium_server.batch.record import Record, invalid, not_started
from podium_server.keys import BudgetSpent


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """Runs the lines of a batch.

    Args:
        lines: runs a line.
        journal: has the runs of earlier commands.
        budget: reserves the costs of the runs.
        run_cost: replaces the cost limit of each run, in USD; `None` keeps the limits of the models.
        kept: the lines that earlier commands have finished.
        files: receives how each line ended.
        progress: counts the lines.
    """

    lines: RunsLines
    journal: SqlJournal
    budget: Budget
    run_cost: float | None
    kept: Kept
    files: Files
    progress: Progress

    async def run(self, lines: Iterable[Line | BadLine], concurrency: int) -> None:
        """Run the lines.

        Args:
            lines: the lines.
            concurrency: maximum number of lines that run at the same time.

        Raises:
            RunHeld: another process still executes runs of the batch.
            JournalError: the journal cannot be used.
        """
        recorded = await charge_earlier(self.journal, self.kept, self.budget, self.progress.note)
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
                    status = self.kept.status_of(line)
                    if status is None:
                        await send.send(self.kept.checked(line))
                    else:
                        self.progress.keep(status)
                        await anyio.lowlevel.checkpoint()
                self.progress.others = len(self.kept.runs) - self.progress.earlier
        if errors:
            raise errors[0]

    async def _finish(self, line: Line | BadLine, recorded: Collection[str]) -> None:
        """Run a line, and write how it ended."""
        record = invalid(line) if isinstance(line, BadLine) else await self._run(line, recorded)
        self.files.write(line, record)
        self.progress.end(record)

    async def _run(self, line: Line, recorded: Collection[str]) -> Record:
        if line.run_id in recorded:
            with self.progress.running_line():
                return await self.lines.run(line, is_recorded=True)
        limit = self._limit(line)
        try:
            await self.budget.reserve(line.run_id, limit)
        except BudgetSpent as error:
            return not_started(line, str(error))
        with self.progress.running_line():
            record = await self.lines.run(line, is_recorded=False)
        self.budget.settle(limit, record.cost)
        return record

    def _limit(self, line: Line) -> float:
        """Return the cost limit of a run; 0 if it has none, which `--budget` does not allow."""
        conductor = line.model.conductor
        limit = conductor.limits.cost if self.run_cost is None else self.run_cost
        return limit or 0.0
