"""The command, which measures fleets of replicas in turn, and prints a table."""

import argparse
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio
from rich.console import Console
from rich.table import Table

from benchmarks.replicas.counters import Counters, read_counters, statements
from benchmarks.replicas.fleet import Fleet, fleet
from benchmarks.replicas.load import in_background, in_foreground
from podium.errors import PodiumError

_WARM_RUNS = 50
_VCPU_HOUR = 0.04048
_LOADS: dict[str, Callable[[Fleet, int], Awaitable[list[float]]]] = {
    "background": in_background,
    "foreground": in_foreground,
}


@dataclass(frozen=True, slots=True)
class Reading:
    """What one load of one fleet used."""

    load: str
    replicas: int
    keys: int
    runs: int
    used: Counters
    took: list[float]
    """The seconds of each request, in order."""
    resident_mb: float
    """The most memory of a replica after the load."""


def main() -> int:
    """Run the command; return 0 if everything was measured."""
    asked = _read_options()
    console = Console() if sys.stdout.isatty() else Console(width=150)
    table = _table(asked)
    try:
        for replicas in asked.replicas:
            for keys in asked.keys:
                with fleet(replicas=replicas, keys=keys, slots=asked.slots, latency=asked.latency) as running:
                    for load in asked.loads:
                        _add_row(table, _measure(running, load, asked.runs), asked.price)
        console.print(table)
        if asked.statements:
            console.print(_statements(asked))
    except PodiumError as error:
        console.print(str(error), style="red", markup=False)
        return 1
    return 0


def _measure(running: Fleet, load: str, runs: int) -> Reading:
    anyio.run(_LOADS[load], running, _WARM_RUNS * len(running.replicas))
    before = read_counters(running)
    took = anyio.run(_LOADS[load], running, runs)
    used = read_counters(running) - before
    resident = max(each.resident_mb for each in running.replicas)
    return Reading(load, len(running.replicas), len(running.keys), runs, used, sorted(took), resident)


def _table(asked: argparse.Namespace) -> Table:
    title = f"A run: one plan, three steps, {asked.latency:g} s a call; load {os.getloadavg()[0]:.1f}"
    table = Table(title=title)
    table.add_column("load")
    heads = ("replicas", "keys", "runs/s", "CPU ms: replicas", "PostgreSQL", "client", "commits", "WAL KB",
             "request p50, s", "p99", "connections", "MB", "runs per $")  # fmt: skip
    for head in heads:
        table.add_column(head, justify="right")
    return table


def _add_row(table: Table, each: Reading, price: float) -> None:
    used, runs = each.used, each.runs
    cpu = [1e3 * seconds / runs for seconds in (used.replicas, used.postgres, used.client)]
    hours = (used.replicas + used.postgres) / runs / 3600
    half, most = each.took[runs // 2], each.took[int(0.99 * runs)]
    table.add_row(
        each.load, str(each.replicas), str(each.keys), f"{runs / used.wall:.1f}",
        *(f"{milliseconds:.1f}" for milliseconds in cpu),
        f"{used.commits / runs:.2f}", f"{used.wal / runs / 1e3:.1f}", f"{half:.2f}", f"{most:.2f}",
        str(used.connections), f"{each.resident_mb:.0f}", f"{1 / (hours * price):,.0f}",
    )  # fmt: skip


def _statements(asked: argparse.Namespace) -> Table:
    """Return how often each statement is executed for a run in the background, in a fleet of its own."""
    replicas, keys = asked.replicas[0], asked.keys[-1]
    with fleet(replicas=replicas, keys=keys, slots=asked.slots, latency=asked.latency, logs=True) as running:
        before = statements(running)
        anyio.run(in_background, running, asked.runs)
        found = statements(running) - before
    table = Table(title=f"Statements per run: {replicas} replicas, {keys} keys")
    table.add_column("per run", justify="right")
    table.add_column("statement")
    table.add_row(f"{sum(found.values()) / asked.runs:.2f}", "all")
    for text, number in found.most_common(30):
        table.add_row(f"{number / asked.runs:.2f}", text)
    return table


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.replicas",
        description="Measures replicas of podium serve on one PostgreSQL: CPU time, commits and runs/s.",
    )
    parser.add_argument("--replicas", type=int, nargs="+", default=[1, 2, 4], help="default 1 2 4")
    parser.add_argument("--keys", type=int, nargs="+", default=[0, 4], help="API keys; default 0 4")
    parser.add_argument("--runs", type=int, default=1000, help="runs of each load; default 1000")
    parser.add_argument("--latency", type=float, default=0.5, help="seconds of a model's call; default 0.5")
    parser.add_argument("--slots", type=int, default=256, help="background runs of a replica; default 256")
    parser.add_argument("--loads", nargs="+", choices=list(_LOADS), default=list(_LOADS), help="default both")
    parser.add_argument("--statements", action="store_true", help="also count the statements of a run")
    told = "dollars of a vCPU hour; default 0.04048, AWS Fargate's price in us-east-1"
    parser.add_argument("--price", type=float, default=_VCPU_HOUR, help=told)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
