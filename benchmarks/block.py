"""Measures a block: the runs of one arm during a few tenths of a second."""

import gc
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter, process_time

import anyio

from benchmarks.job import ANSWER
from benchmarks.resident_memory import peak_kib

Run = Callable[[], Awaitable[str]]
"""Does the job once and returns its answer. Each arm is such a function."""

WARM_SHARE = 0.3
"""Length of a block's warm-up, as a share of the block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Measurements of one block."""

    runs: int
    warm_runs: int
    """Runs of the warm-up, which are not counted."""
    wall_s: float
    """From the first run's start to the last run's end, in seconds."""
    cpu_s: float
    """User and system CPU time of this process during the block, in seconds."""
    run_s: float
    """Median duration of one run, in seconds."""
    peak_kib: int
    """Peak resident memory of this process so far, in KiB."""


def cpu_of(block: Block) -> float:
    """Return the CPU time of one run, in seconds."""
    return block.cpu_s / block.runs


def rate_of(block: Block) -> float:
    """Return the runs per second."""
    return block.runs / block.wall_s


async def measure_block(run: Run, in_flight: int, seconds: float, spread: float = 0.0) -> Block:
    """Keep `in_flight` runs running for about `seconds`, after a warm-up that is not counted.

    Args:
        run: makes one run.
        in_flight: number of concurrent runs.
        seconds: how long new runs are started.
        spread: the first runs start evenly over this time, in seconds; at 0 all start at once.
    """
    # each block needs a warm-up, because idle connections are closed during the blocks of other arms
    warmed = await run_lanes(run, in_flight, seconds * WARM_SHARE, spread)
    gc.collect()
    cpu, wall = process_time(), perf_counter()
    durations = await run_lanes(run, in_flight, seconds, spread)
    return Block(
        runs=len(durations),
        warm_runs=len(warmed),
        wall_s=perf_counter() - wall,
        cpu_s=process_time() - cpu,
        run_s=median(durations),
        peak_kib=peak_kib(),
    )


async def run_lanes(run: Run, in_flight: int, seconds: float, spread: float = 0.0) -> list[float]:
    """Keep `in_flight` runs running, at least one in each lane; return their durations in seconds."""
    durations: list[float] = []
    until = perf_counter() + seconds

    async def lane(wait: float = 0.0) -> None:
        await anyio.sleep(wait)
        end = 0.0
        while end < until:
            began = perf_counter()
            answer = await run()
            end = perf_counter()
            durations.append(end - began)
            assert answer == ANSWER, f"a run returned another answer: {answer!r:.200}"

    if in_flight == 1:
        await lane()
        return durations
    async with anyio.create_task_group() as lanes:
        for number in range(in_flight):
            lanes.start_soon(lane, number * spread / in_flight)
    return durations
