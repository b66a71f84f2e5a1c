"""The command, which measures, prints the table, and writes the JSON."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import anyio
from rich.console import Console
from rich.table import Table

from benchmarks.child_process import start_child
from benchmarks.workflows.measure import (
    ARMS,
    Job,
    Kill,
    Models,
    Run,
    measurable,
    measure_kill,
    measure_limit,
    measure_memory,
    measure_run,
)
from podium.errors import PodiumError

_SIZES = (300, 3_000)
"""Files, of which each makes 3.5 items on average."""
_WIDTH = 130


@dataclass
class Report:
    """All measurements."""

    job: Job
    load: tuple[float, float, float]
    """Of the machine, before the measurements."""
    runs: dict[str, Run] = field(default_factory=dict)
    limited: dict[str, Run | None] = field(default_factory=dict)
    kills: dict[str, Kill] = field(default_factory=dict)
    memory: dict[int, tuple[float, float]] = field(default_factory=dict)
    """For each number of files: the KiB and milliseconds of CPU of an item."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0 if everything was measured, whether or not the goals are met."""
    console, errors = Console(), Console(stderr=True)
    if not console.is_terminal:
        console.width = _WIDTH
    asked = _parser().parse_args(arguments)
    try:
        report = anyio.run(_measure, asked, errors)
    except PodiumError as error:
        errors.print(str(error), style="red", markup=False)
        return 1
    console.print(_table(report))
    for arm in asked.arms:
        if not measurable(arm):
            console.print(f"{arm}: not measured, its environment is not there (make benchmark-workflows)")
    if asked.json is not None:
        asked.json.write_text(json.dumps(asdict(report), indent=2) + "\n", encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.workflows", description="Measures a workflow in Podium and in others."
    )
    parser.add_argument("arms", nargs="*", default=ARMS, help=f"default: {', '.join(ARMS)}")
    parser.add_argument("--files", type=int, default=200, help="items of the list; default 200")
    parser.add_argument("--slots", type=int, default=16, help="calls at a time; default 16")
    parser.add_argument("--seed", type=int, default=1, help="of delays, answers and refusals; default 1")
    parser.add_argument("--quick", action="store_true", help="20 files, and few in the process")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to FILE")
    return parser


async def _measure(asked: argparse.Namespace, progress: Console) -> Report:
    job = Job(files=20 if asked.quick else asked.files, slots=asked.slots, seed=asked.seed)
    report = Report(job, os.getloadavg())
    async with start_child("workflows.model_server") as child:
        models = Models(child, (await child.read())["url"])
        for arm in filter(measurable, asked.arms):
            progress.print(f"{arm} ...", style="dim")
            run = report.runs[arm] = await measure_run(arm, job, models)
            report.limited[arm] = await measure_limit(arm, job, models, run)
            report.kills[arm] = await measure_kill(arm, job, models, run)
    for size in _SIZES[:1] if asked.quick else _SIZES:
        progress.print(f"podium, {size:,} files in its process ...", style="dim")
        report.memory[size] = await measure_memory(job, size)
    return report


def _table(report: Report) -> Table:
    job, load = report.job, report.load[0]
    table = Table(title=f"{job.files} files, {job.slots} slots, seed {job.seed}, load {load:.1f}")
    table.add_column("what")
    for name in ("goal", *report.runs):
        table.add_column(name, justify="right")
    first = next(iter(report.runs.values()), None)

    def row(what: str, goal: str, show: Callable[[Run], str]) -> None:
        table.add_row(what, goal, *map(show, report.runs.values()))

    if first is not None:
        row("status", "", lambda run: run.status)
        row("wall, s", "", lambda run: f"{run.wall:.1f}")
        row("wall over the least time", "1.05", lambda run: f"{run.wall / run.least:.3f}")
        row("calls", "", lambda run: f"{len(run.records):,}")
        row("of these refused, cancelled", "", _lost)
        row("tokens read", "", lambda run: f"{run.tokens[0]:,}")
        row("tokens written", "", lambda run: f"{run.tokens[1]:,}")
        row("CPU of a call, ms", "2", lambda run: f"{_cpu(run):.2f} ({_cpu(run) / _cpu(first):.1f} times)")
        table.add_row("over half of the cost", "0 %", *(_over(report, arm) for arm in report.runs))
        table.add_row("in flight at a kill", "", *(str(kill.in_flight) for kill in report.kills.values()))
        table.add_row("answered before, paid again", "in flight", *map(_repeated, report.kills.values()))
    own = {"podium": report.memory} if "podium" in report.runs else {}
    for size in report.memory:
        table.add_row(f"in process, {size:,} files: KiB of an item", "flat", *_own(own, report.runs, size, 0))
        table.add_row(
            f"in process, {size:,} files: CPU of an item, ms", "2", *_own(own, report.runs, size, 1)
        )
    return table


def _cpu(run: Run) -> float:
    return run.cpu / len(run.records) * 1e3


def _lost(run: Run) -> str:
    refused = sum(each.is_refused for each in run.records)
    return f"{refused}, {sum(each.state != 'answered' for each in run.records)}"


def _over(report: Report, arm: str) -> str:
    limited, whole = report.limited[arm], report.runs[arm]
    if limited is None:
        return "no limit"
    spent = (
        limited.cost / (whole.cost / 2) if arm == "podium" else sum(limited.tokens) / (sum(whole.tokens) // 2)
    )
    return f"{spent - 1:+.1%} ({limited.status})"


def _repeated(kill: Kill) -> str:
    return f"{kill.repeated} ({kill.status})"


def _own(
    own: Mapping[str, Mapping[int, tuple[float, float]]], arms: Mapping[str, Run], size: int, which: int
) -> list[str]:
    return [f"{own[arm][size][which]:.2f}" if arm in own else "" for arm in arms]


if __name__ == "__main__":
    sys.exit(main())
