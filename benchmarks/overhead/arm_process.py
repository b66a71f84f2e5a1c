"""The process of one arm in one cell.

`measure` starts it with arm, cell and server as its argument. It prints a line when it is ready. For each
input line with a number of seconds, it runs a block and prints the block as JSON. It exits at the end of its
input.
"""

import json
import sys
from dataclasses import asdict
from typing import Any

import anyio

from benchmarks.block import measure_block, run_lanes
from benchmarks.overhead.arms.open_arm import open_arm
from benchmarks.overhead.cells import Arm, Cell


async def _main(arm: Arm, cell: Cell, server_url: str) -> None:
    async with open_arm(arm, cell, server_url) as run:
        _print({"warm_runs": len(await run_lanes(run, 1, 0.0))})
        # the blocking read stops the loop between blocks, so that an idle arm uses no CPU
        for line in sys.stdin:
            _print(asdict(await measure_block(run, cell.in_flight, float(line))))


def _print(data: dict[str, Any]) -> None:
    print(json.dumps(data), flush=True)


if __name__ == "__main__":
    started = json.loads(sys.argv[1])
    anyio.run(_main, started["arm"], Cell(**started["cell"]), started["server_url"])
