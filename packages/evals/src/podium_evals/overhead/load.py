"""Puts load on one arm and takes its measures: the process of one arm in one cell.

Started by `measuring` with arm, cell and server as arguments. It prints a line when it is
ready, then for each line it reads (seconds) runs a block and prints it as JSON. It ends
with its input.
"""

import gc
import json
import sys
from dataclasses import asdict
from statistics import median
from time import perf_counter, process_time
from typing import Any

import anyio

from podium_evals.overhead.arms.asking import Run
from podium_evals.overhead.arms.opening import open_arm
from podium_evals.overhead.cells import Arm, Block, Cell
from podium_evals.overhead.job import ANSWER
from podium_evals.overhead.resident import peak_kib

WARM_SHARE = 0.3
"""How long a block's warm-up lasts, as a share of the block."""


async def measure_block(run: Run, in_flight: int, seconds: float) -> Block:
    """Run for about `seconds`, every lane at least once, after a shorter time that is not counted."""
    # right before each block: idle connections are closed while other arms have their turn
    warmed = await _run_lanes(run, in_flight, seconds * WARM_SHARE)
    gc.collect()
    cpu, wall = process_time(), perf_counter()
    durations = await _run_lanes(run, in_flight, seconds)
    return Block(
        runs=len(durations),
        warm_runs=len(warmed),
        wall_s=perf_counter() - wall,
        cpu_s=process_time() - cpu,
        run_s=median(durations),
        peak_kib=peak_kib(),
    )


async def _run_lanes(run: Run, in_flight: int, seconds: float) -> list[float]:
    """Keep `in_flight` runs under way; return how long each run took, in seconds."""
    durations: list[float] = []
    until = perf_counter() + seconds

    async def lane() -> None:
        end = 0.0
        while end < until:
            began = perf_counter()
            answer = await run()
            end = perf_counter()
            durations.append(end - began)
            assert answer == ANSWER, f"a run came to another answer: {answer!r:.200}"

    if in_flight == 1:
        await lane()
        return durations
    async with anyio.create_task_group() as lanes:
        for _ in range(in_flight):
            lanes.start_soon(lane)
    return durations


async def _main(arm: Arm, cell: Cell, server_url: str) -> None:
    async with open_arm(arm, cell, server_url) as run:
        _say({"warm_runs": len(await _run_lanes(run, 1, 0.0))})
        # the loop rests between blocks, so that an arm costs the others nothing
        for line in sys.stdin:
            _say(asdict(await measure_block(run, cell.in_flight, float(line))))


def _say(data: dict[str, Any]) -> None:
    print(json.dumps(data), flush=True)


if __name__ == "__main__":
    started = json.loads(sys.argv[1])
    anyio.run(_main, started["arm"], Cell(**started["cell"]), started["server_url"])
