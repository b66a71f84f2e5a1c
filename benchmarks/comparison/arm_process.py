"""The process of one host's arms, which prints a cell as a JSON line for each arm and number of units."""

import json
import sys
import time
from dataclasses import asdict, dataclass
from importlib import import_module

import anyio

from benchmarks.comparison.arms.arm import Arm
from benchmarks.comparison.job import job_of
from benchmarks.comparison.model_server import ModelServer


@dataclass(frozen=True)
class Cell:
    """The calls, tokens and time of one arm for one job."""

    host: str
    arm: str
    units: int
    calls: int
    read: int
    written: int
    seconds: float
    missing: tuple[int, ...]
    """The units whose findings are missing in the answer."""

    @property
    def tokens(self) -> int:
        """All tokens."""
        return self.read + self.written


async def measure(host: str, arm: Arm, units: int, latency: float) -> Cell:
    """Run the arm once, and return its measurements."""
    job = job_of(units)
    server = ModelServer(job, arm.script, latency)
    with server.serve() as url:
        began = time.perf_counter()
        answer = await arm.run(job, url)
        seconds = time.perf_counter() - began
    cost, missing = server.cost, tuple(job.missing(answer))
    return Cell(host, arm.name, units, cost.calls, cost.read, cost.written, seconds, missing)


async def _main(host: str, chosen: list[str], sizes: list[int], latency: float) -> None:
    for arm in import_module(f"benchmarks.comparison.arms.{host}").ARMS:
        if chosen and not any(word in f"{host}: {arm.name}" for word in chosen):
            continue
        await measure(host, arm, sizes[0], 0.0)  # imports and first connections are not measured
        for units in sizes:
            print("cell " + json.dumps(asdict(await measure(host, arm, units, latency))), flush=True)


if __name__ == "__main__":
    anyio.run(_main, *json.loads(sys.argv[1]))
