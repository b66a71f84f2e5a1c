"""The process of one arm.

`measure` starts it with the name of the arm. For each line of input, a JSON object, it does the job once and
prints what came of it, its duration, and its CPU time.
"""

import asyncio
import json
import sys
import time
from importlib import import_module
from typing import Any

from benchmarks.resident_memory import peak_kib, resident_kib


async def _main(arm: str) -> None:
    module: Any = import_module(f"benchmarks.workflows.arms.{arm}_arm")
    while line := await asyncio.to_thread(sys.stdin.readline):
        asked = json.loads(line)
        before, cpu, wall = resident_kib(), time.process_time(), time.monotonic()
        if asked.get("in_process"):
            told = await module.run_in_process(asked["files"], asked["slots"])
        else:
            told = await module.run(asked)
        told |= {
            "wall": time.monotonic() - wall,
            "cpu": time.process_time() - cpu,
            "grown_kib": peak_kib() - before,
        }
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
