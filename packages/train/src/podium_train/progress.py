"""What a training tells people while it runs: lines, and on a terminal a bar."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class Reporter:
    """Prints a line for each step."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False, soft_wrap=True)

    def line(self, text: str) -> None:
        """Print a line."""
        self._console.print(text, markup=False)

    def step(self, done: int, total: int, text: str) -> None:
        """Tell that a step has ended.

        Args:
            done: number of ended steps, also those of an interrupted run.
            total: number of all steps.
            text: what the step showed.
        """
        self.line(f"step {done} of {total}: {text}")


class BarReporter(Reporter):
    """Shows a bar with the remaining time and the text of the last step, and lines above the bar."""

    def __init__(self, progress: Progress) -> None:
        super().__init__(progress.console)
        self._progress = progress
        self._task: Any = None

    def step(self, done: int, total: int, text: str) -> None:
        """Move the bar."""
        if self._task is None:
            self._task = self._progress.add_task("", total=total, completed=done - 1, told="")
        self._progress.update(self._task, completed=done, told=text)


@contextmanager
def reporter() -> Generator[Reporter, None, None]:
    """Yield a reporter with a bar if the standard output is a terminal, or else with lines.

    Of several processes of a training, only the first one tells anything.
    """
    console = Console(highlight=False, soft_wrap=True, quiet=os.environ.get("RANK", "0") != "0")
    if not console.is_terminal:
        yield Reporter(console)
        return
    columns = (
        TextColumn("step"),
        MofNCompleteColumn(),
        BarColumn(bar_width=20),
        TimeRemainingColumn(),
        TextColumn("{task.fields[told]}", markup=False),
    )
    with Progress(*columns, console=console) as progress:
        yield BarReporter(progress)
