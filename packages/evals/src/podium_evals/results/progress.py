"""Shows the progress of a comparison."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from podium.cli.screen import Screen
from podium_evals.arms import Arm
from podium_evals.results.report import OnShare


@contextmanager
def answer_bar(screen: Screen, arms: int) -> Iterator[OnShare]:
    """Yield a callback for new answers. It draws a progress bar on stderr if stderr is a terminal.

    Args:
        screen: the console of the progress bar.
        arms: the number of arms.
    """
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    console = screen.console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("answers", total=None)

        def told(arm: Arm, number: int, of: int) -> None:
            bar.update(task, advance=number, total=arms * of, description=screen.shown(arm.name))

        yield told


def cores(wanted: int | None) -> int:
    """Return the number of processes: `wanted`, or one for each core, at most four."""
    return wanted or min(4, os.cpu_count() or 1)
