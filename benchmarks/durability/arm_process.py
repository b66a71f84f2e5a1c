"""The process of one arm.

`measure` starts it with arm, database, latency, runs in flight and spread as its argument. It prints a line
when it is ready. For each input line with a number of seconds, it runs a block and prints the block as JSON.
For an empty line, it prints the number of complete runs in its database. It exits at the end of its input.
"""

import json
import sys
from dataclasses import asdict
from typing import Any

import anyio

from benchmarks.block import measure_block
from benchmarks.durability.arms import Arm, open_arm, recorded


async def _main(arm: Arm, place: str, latency: float, in_flight: int, spread: float) -> None:
    async with open_arm(arm, place, latency) as run:
        await run()
        _print({})
        # the blocking read stops the loop between blocks, so that an idle arm uses no CPU
        for line in sys.stdin:
            if line.strip():
                _print(asdict(await measure_block(run, in_flight, float(line), spread)))
            else:
                _print({"recorded": await recorded(arm, place)})


def _print(data: dict[str, Any]) -> None:
    print(json.dumps(data), flush=True)


if __name__ == "__main__":
    anyio.run(_main, *json.loads(sys.argv[1]))
