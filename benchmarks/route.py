"""Counts the files that one run uses, to measure how much code a reader must know.

    python -m benchmarks.route [--jumps 20]

A conductor with a `FixedPlanner` and `ScriptedWorker`s, without a journal, runs a plan of two steps, of which
the second sees the first. All Python calls are profiled, from opening to closing the conductor. `files` are
the files of `podium` with a call. `switches` are the calls of functions of `podium` that follow a call in
another file, of `podium` or of a library. The profiler reports a resumed coroutine as another call.
"""

import argparse
import asyncio
import sys
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.table import Table

import podium
from podium import Conductor, Plan, ScriptedWorker, Step
from podium.planners import FixedPlanner

_PODIUM = Path(podium.__file__).parent
_PLAN = Plan((Step(0, "Look it up."), Step(0, "Write it down.", (0,))))


@dataclass(frozen=True, slots=True)
class Route:
    """The Python calls of one run."""

    calls: tuple[str, ...]
    """File of each called function, in order, including libraries."""

    @property
    def files(self) -> frozenset[str]:
        """Files of `podium` with a call."""
        return frozenset(file for file in self.calls if _is_ours(file))

    @property
    def switches(self) -> int:
        """Number of calls of functions of `podium` that follow a call in another file."""
        return sum(entered != before and _is_ours(entered) for before, entered in pairwise(self.calls))

    @property
    def jumps(self) -> Counter[tuple[str, str]]:
        """Number of changes from one file of `podium` to another, without the libraries between them."""
        ours = [file for file in self.calls if _is_ours(file)]
        return Counter(jump for jump in pairwise(ours) if jump[0] != jump[1])


def trace_run() -> Route:
    """Trace one run."""
    calls: list[str] = []

    def record(frame: FrameType, event: str, argument: object) -> None:  # noqa: ARG001 (a profile function)
        if event == "call":
            calls.append(frame.f_code.co_filename)

    async def run() -> None:
        sys.setprofile(record)
        try:
            async with Conductor(FixedPlanner(_PLAN), [ScriptedWorker("writer", "Done.")]) as conductor:
                result = await conductor.run("What is it?")
        finally:
            sys.setprofile(None)
        assert result.answer == "Done."

    asyncio.run(run())
    return Route(tuple(calls))


def main() -> None:
    """Trace one run, and print the counts and the most frequent jumps."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.route", description="Counts the files that one run uses."
    )
    parser.add_argument(
        "--jumps", type=int, default=20, metavar="N", help="number of jumps to show; default 20"
    )
    shown = parser.parse_args().jumps
    route = trace_run()
    console = Console()
    console.print(f"{len(route.files)} files of podium, {route.switches} switches between files")
    table = Table(title=f"Most frequent jumps between files, of {route.jumps.total()}")
    for name in ("from", "to"):
        table.add_column(name)
    table.add_column("calls", justify="right")
    for (before, entered), calls in route.jumps.most_common(shown):
        table.add_row(_short(before), _short(entered), str(calls))
    console.print(table)


def _is_ours(file: str) -> bool:
    return file.startswith(str(_PODIUM))


def _short(file: str) -> str:
    return str(Path(file).relative_to(_PODIUM))


if __name__ == "__main__":
    main()
