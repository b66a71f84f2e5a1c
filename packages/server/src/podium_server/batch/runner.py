"""Runs the lines of a batch, several at the same time, within its budget, and shows its progress."""

import re
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from time import monotonic
from typing import Protocol

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream
from rich.progress import BarColumn, MofNCompleteColumn, Progress as Bar, TextColumn

from podium.cli.screen import Screen, counted, duration, money
from podium.errors import JournalError, PodiumError, RunDead, RunExists, RunHeld, RunLost
from podium.journal import RunRow, SqlJournal
from podium.run import RunOptions
from podium.run_state import fold
from podium.types import Result
from podium_server.background_tasks import beside
from podium_server.batch.input import BadLine, Line
from podium_server.batch.results import Files, Kept, Record, answered, failed, invalid, not_started
from podium_server.keys import Admission, Ask, BudgetSpent, Caller, NoKeys
from podium_server.keys.access import FreeAdmission
from podium_server.keys.recorded import excess_of, recorded_run
from podium_server.models import Catalogue
from podium_server.turn import Recorded, Turns

_ROUNDING = 1e-9


class Budget:
    """Reserves the cost limit of each run before it begins, and waits while running runs reserve too much."""

    def __init__(self, most: float | None) -> None:
        self.most = most
        self.spent = 0.0
        """The cost of all runs of the batch so far, in USD."""
        self.unknown = 0
        """The number of runs of unknown cost."""
        self._reserved = 0.0
        self._earlier: dict[str, float] = {}
        """What runs that are continued had cost before, by their ids."""
        self._changed = anyio.Event()

    @property
    def left(self) -> float | None:
        """What is left, in USD; `None` without a budget."""
        return None if self.most is None else max(self.most - self.spent, 0.0)

    def charge(self, cost: float | None) -> None:
        """Count the cost of a run that has ended; `None` if it is unknown."""
        if cost is None:
            self.unknown += 1
        else:
            self.spent += cost

    def charge_so_far(self, run_id: str, cost: float) -> None:
        """Count what a run has cost that an earlier command began, and that this command may continue."""
        self._earlier[run_id] = cost
        self.spent += cost

    async def reserve(self, run_id: str, limit: float) -> None:
        """Reserve the cost limit of a run, which includes what the run has cost before."""
        before = self._earlier.get(run_id, 0.0)
        if self.most is not None:
            while self.spent - before + self._reserved + limit > self.most + _ROUNDING:
                if not self._reserved:
                    left = f"${self.left:.6g} of the budget is left"
                    told = f"the run may cost ${limit:g}, and {left}: raise --budget, and repeat the command"
                    raise BudgetSpent(told, 0.0)
                await self._changed.wait()
        self._earlier.pop(run_id, None)
        self.spent -= before
        self._reserved += limit

    def settle(self, limit: float, cost: float | None) -> None:
        """Replace the reservation of a run by its cost."""
        self._reserved -= limit
        if self._reserved < _ROUNDING:
            self._reserved = 0.0
        self.charge(limit or None if cost is None else cost)
        self._changed.set()
        self._changed = anyio.Event()


_LOOK_SECONDS = 0.5


async def charge_earlier(
    journal: SqlJournal, kept: Kept, budget: Budget, note: Callable[[str], None]
) -> Collection[str]:
    """Charge the recorded runs whose lines have no result; return those whose results are used."""
    done, found = set(kept.runs.values()), set[str]()
    for row in await _stopped(journal, kept.name, note):
        if row.run_id in done:
            continue
        if _is_done(row, kept):
            found.add(row.run_id)
            budget.charge(await _so_far(journal, row.run_id))
        elif (cost := await _so_far(journal, row.run_id)) is not None:
            budget.charge_so_far(row.run_id, cost)
    return found


async def done_runs(journal: SqlJournal, kept: Kept) -> Collection[str]:
    """Return the recorded runs of the batch that are not run again."""
    return {row.run_id for row in await _recorded(journal, kept.name) if _is_done(row, kept)}


def _is_done(row: RunRow, kept: Kept) -> bool:
    return row.state == "ok" or (row.state in ("partial", "failed") and not kept.retries)


async def _recorded(journal: SqlJournal, name: str, ids: Collection[str] | None = None) -> Sequence[RunRow]:
    """Return the recorded runs of the batch; with `ids`, only these."""
    is_ours = re.compile(rf"{re.escape(name)}-[0-9a-f]+")
    rows = await journal.runs(prefix=f"{name}-", limit=None, ids=ids)
    return [row for row in rows if is_ours.fullmatch(row.run_id)]


async def _stopped(journal: SqlJournal, name: str, note: Callable[[str], None]) -> Sequence[RunRow]:
    """Return the runs of the batch, when no process executes them: only then their costs are known.

    A process that was killed on another machine holds its runs until its lease ends.
    """
    rows, end = await _recorded(journal, name), anyio.current_time() + 2 * journal.lease
    held = [row.run_id for row in rows if row.state == "running"]
    if not held:
        return rows
    note(f"podium: waiting for {counted(len(held), 'run')} that another process holds")
    while held:
        if anyio.current_time() >= end:
            told = "another process executes runs of this batch"
            raise RunHeld(f"{told}: wait for the end of its command, or choose another --name")
        await anyio.sleep(_LOOK_SECONDS)
        held = [row.run_id for row in await _recorded(journal, name, held) if row.state == "running"]
    return await _recorded(journal, name)


async def _so_far(journal: SqlJournal, run_id: str) -> float | None:
    """Return what a run has cost so far; a call without a recorded end costs what such calls usually do."""
    events = [entry.event for entry in await journal.read(run_id)]
    result = fold(events, await journal.nested(run_id)).result()
    return None if result.cost is None else result.cost - await excess_of(journal, result)


_BAR_SECONDS = 0.25
LINE_SECONDS = 10.0
"""How often a line tells the progress, outside of a terminal, in seconds."""
_MOST_TOLD = 20
"""Maximum number of failed lines that are named on the screen."""


class Progress:
    """The counts of a batch."""

    def __init__(self, total: int, budget: Budget, note: Callable[[str], None]) -> None:
        self.counts = Counter[str]()
        """The finished lines, by status."""
        self.earlier = 0
        """The lines that earlier commands have finished."""
        self.others = 0
        """The results of lines that are not in the input."""
        self.budget = budget
        self.total = total
        self.running = 0
        """The lines whose runs have begun; lines that wait for the budget do not count."""
        self.note = note
        """Writes a line for the user."""
        self._told = 0
        self._began = monotonic()

    @property
    def done(self) -> int:
        """The number of finished lines."""
        return self.counts.total()

    @property
    def unfinished(self) -> int:
        """The number of lines without a complete answer."""
        return self.done - self.counts["ok"]

    @contextmanager
    def running_line(self) -> Generator[None, None, None]:
        """Count a line that runs in the block."""
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1

    def keep(self, status: str) -> None:
        """Count a line that an earlier command has finished."""
        self.counts[status] += 1
        self.earlier += 1

    def end(self, record: Record) -> None:
        """Count a line that has ended, and name it if it has no complete answer."""
        self.counts[record.status] += 1
        if record.status in ("ok", "not_started"):
            return
        self._told += 1
        if self._told <= _MOST_TOLD:
            who = f"line {record.line}" + ("" if record.id is None else f" ({record.id})")
            told = (
                "" if record.problem is None else record.problem.message.removeprefix(f"line {record.line}: ")
            )
            self.note(f"podium: {who}: {record.status}: {told}")
        elif self._told == _MOST_TOLD + 1:
            self.note("podium: further failures are in the results only")

    def line(self) -> str:
        """Return the counts as one line."""
        counts = [f"{self.counts['ok']:,} ok", f"{self.unfinished:,} not ok", f"{self.running:,} running"]
        return f"{self.done:,} of {self.total:,}: {', '.join(counts)}; {self.spent()}; {self.pace()}"

    def summary(self) -> str:
        """Return the counts at the end as one line."""
        known = [f"{count:,} {status.replace('_', ' ')}" for status, count in sorted(self.counts.items())]
        seconds = duration(monotonic() - self._began)
        told = f"{counted(self.total, 'line')}: {', '.join(known) or 'none'}; {self.spent()}; {seconds}"
        if self.others:
            told += f"; and {counted(self.others, 'result')} of lines that are not in the input"
        return told

    def spent(self) -> str:
        """Return the money that is spent and left."""
        told = money(self.budget.spent)
        if self.budget.unknown:
            told += f" and {self.budget.unknown} of unknown cost"
        return told if self.budget.most is None else f"{told} of {money(self.budget.most)}"

    def pace(self) -> str:
        """Return the runs per second of this command, and the expected time until the end."""
        rate = (self.done - self.earlier) / max(monotonic() - self._began, 1e-9)
        left = f"{duration((self.total - self.done) / rate)} left" if rate else "time left unknown"
        return f"{rate:.1f}/s, {left}"


@asynccontextmanager
async def shown(progress: Progress, screen: Screen) -> AsyncGenerator[None, None]:
    """Show the progress in the block: a bar on a terminal, otherwise a line every few seconds."""
    console = screen.console(stderr=True)

    async def lines() -> None:
        while True:
            await anyio.sleep(LINE_SECONDS)
            screen.note(f"podium: {progress.line()}")

    async def bar() -> None:
        columns = BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}")
        with Bar(*columns, console=console, transient=True) as drawn:
            task = drawn.add_task("", total=progress.total)
            while True:
                counts = f"{progress.unfinished:,} not ok, {progress.running:,} running"
                told = f"{counts}; {progress.spent()}; {progress.pace()}"
                drawn.update(task, completed=progress.done, description=told)
                await anyio.sleep(_BAR_SECONDS)

    async with beside(bar if console.is_terminal else lines):
        yield


_OF_ONE_RUN = (RunDead, RunExists, RunHeld, RunLost)
"""Errors of the journal that concern one run; all others end the batch."""


class RunsLines(Protocol):
    """Runs lines: in this process, or on a Ray cluster."""

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Return a block in which `run` can be called."""

    async def run(self, line: Line, *, is_recorded: bool) -> Record:
        """Run a line, and return how it ended. A run that was begun before is continued."""


class LineRunner:
    """Runs lines in this process."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """Runs the lines of a batch."""

    lines: RunsLines
    journal: SqlJournal
    budget: Budget
    run_cost: float | None
    kept: Kept
    files: Files
    progress: Progress

    async def run(self, lines: Iterable[Line | BadLine], concurrency: int) -> None:
        """Run the lines."""
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
