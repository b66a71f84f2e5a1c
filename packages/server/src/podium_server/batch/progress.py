"""Counts the lines of a batch, and shows the counts while it runs."""

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from time import monotonic

import anyio
from rich.progress import BarColumn, MofNCompleteColumn, Progress as Bar, TextColumn

from podium.cli.screen import Screen, counted, duration, money
from podium_server.background_tasks import beside
from podium_server.batch.budget import Budget
from podium_server.batch.record import Record

_BAR_SECONDS = 0.25
LINE_SECONDS = 10.0
"""How often a line tells the progress, outside of a terminal, in seconds."""
_MOST_TOLD = 20
"""Maximum number of failed lines that are named on the screen."""


class Progress:
    """The counts of a batch.

    Args:
        total: the number of lines.
        budget: the money.
        note: writes a line for the user.
    """

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
