"""Puts load on one arm and takes its measures: the process of one arm.

Started by `measuring` with what is measured as argument. It prints a line when it is ready,
then for each line it reads (seconds) runs a block and prints it as JSON; for an empty line
it prints how many runs its database holds. It ends with its input.
"""

import json
import sys
from dataclasses import asdict
from typing import Any

import anyio

from podium_evals.durability.arms import Arm, open_arm, recorded
from podium_evals.overhead.load import measure_block


async def _main(arm: Arm, place: str, latency: float, in_flight: int) -> None:
    async with open_arm(arm, place, latency) as run:
        await run()
        _say({})
        # the loop rests between blocks, so that an arm costs the others nothing
        for line in sys.stdin:
            if line.strip():
                _say(asdict(await measure_block(run, in_flight, float(line))))
            else:
                _say({"recorded": await recorded(arm, place)})


def _say(data: dict[str, Any]) -> None:
    print(json.dumps(data), flush=True)


if __name__ == "__main__":
    anyio.run(_main, *json.loads(sys.argv[1]))
