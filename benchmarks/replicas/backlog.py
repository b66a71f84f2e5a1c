"""Queues many runs at once, and measures each tenth of them: `python -m benchmarks.replicas.backlog`.

If a look into the queue became slower with its length, the first tenths would need more CPU time for a run
than the last.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import anyio
import psycopg
from rich.console import Console
from rich.table import Table

from benchmarks.replicas.counters import cpu_of_tree
from benchmarks.replicas.fleet import Fleet, fleet
from benchmarks.replicas.load import start_runs
from podium.errors import PodiumError

_PERIOD = 1.0
_COUNT = """
SELECT (SELECT count(*) FROM podium_runs WHERE ended IS NOT NULL),
    (SELECT count(*) FROM podium_jobs WHERE holder = '')
"""
_BEGAN = "SELECT run_id, state FROM podium_runs ORDER BY began"


@dataclass(frozen=True, slots=True)
class Sample:
    """The state of a fleet."""

    at: float
    ended: int
    queued: int
    replicas: float
    """CPU seconds of the replicas so far."""
    postgres: float
    resident_mb: float


@dataclass(slots=True)
class Backlog:
    """What happened to the runs."""

    samples: list[Sample] = field(default_factory=list)
    displaced: list[int] = field(default_factory=list)
    """By how many places each run began earlier or later than it was sent, sorted."""


async def measure(running: Fleet, runs: int) -> Backlog:
    """Queue runs, and sample the fleet until all have ended."""
    found, ids = Backlog(), dict[int, str]()
    async with (
        await psycopg.AsyncConnection.connect(running.database, autocommit=True) as connection,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(start_runs, running, runs, ids)
        while not found.samples or found.samples[-1].ended < runs:
            (row,) = await (await connection.execute(_COUNT)).fetchall()
            found.samples.append(_sample(running, *row))
            await anyio.sleep(_PERIOD)
        rows = await (await connection.execute(_BEGAN)).fetchall()
    if {state for _, state in rows} != {"ok"}:
        raise PodiumError("not all runs ended well")
    places = {run_id: place for place, (run_id, _) in enumerate(rows)}
    found.displaced = sorted(abs(places[run_id] - place) for place, run_id in ids.items())
    return found


def _sample(running: Fleet, ended: int, queued: int) -> Sample:
    return Sample(
        at=perf_counter(),
        ended=ended,
        queued=queued,
        replicas=sum(each.cpu_s for each in running.replicas),
        postgres=cpu_of_tree(running.postgres.pid),
        resident_mb=max(each.resident_mb for each in running.replicas),
    )


def _table(samples: Sequence[Sample], runs: int) -> Table:
    table = Table(title=f"{runs:,} runs that were queued at once")
    for head in ("ended", "queued", "runs/s", "CPU ms: replicas", "PostgreSQL", "MB"):
        table.add_column(head, justify="right")
    before = samples[0]
    for tenth in range(1, 11):
        last = next(each for each in samples if each.ended >= runs * tenth / 10)
        if (number := last.ended - before.ended) > 0:
            table.add_row(
                f"{last.ended:,}",
                f"{last.queued:,}",
                f"{number / (last.at - before.at):.1f}",
                f"{1e3 * (last.replicas - before.replicas) / number:.1f}",
                f"{1e3 * (last.postgres - before.postgres) / number:.1f}",
                f"{last.resident_mb:.0f}",
            )
            before = last
    return table


def main() -> int:
    """Run the command; return 0 if everything was measured."""
    asked = _read_options()
    console = Console() if sys.stdout.isatty() else Console(width=110)
    options: dict[str, Any] = {"slots": asked.slots, "latency": asked.latency}
    try:
        with fleet(replicas=asked.replicas, keys=asked.keys, **options) as running:
            found = anyio.run(measure, running, asked.runs)
    except PodiumError as error:
        console.print(str(error), style="red", markup=False)
        return 1
    console.print(_table(found.samples, asked.runs))
    half, most = (found.displaced[int(part * (asked.runs - 1))] for part in (0.5, 1.0))
    console.print(f"a run began {half} places from its turn (median), and at most {most}")
    return 0


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.replicas.backlog", description="Measures many queued runs."
    )
    parser.add_argument("--replicas", type=int, default=2, help="default 2")
    parser.add_argument("--keys", type=int, default=0, help="API keys; default 0")
    parser.add_argument("--runs", type=int, default=10_000, help="default 10000")
    parser.add_argument("--latency", type=float, default=0.5, help="seconds of a model's call; default 0.5")
    parser.add_argument("--slots", type=int, default=64, help="background runs of a replica; default 64")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
