"""Measures the time from a cancel to the closed socket."""

import time
from dataclasses import dataclass
from random import Random
from statistics import quantiles

import anyio

from benchmarks.child_process import start_child
from podium.conductor import Conductor
from podium.planners import FixedPlanner
from podium.types import Plan, Step, StepDelta
from podium.workers import ChatWorker, Endpoint

AT_ONCE = 16
"""Number of concurrent runs, of which one at a time is cancelled."""


@dataclass(frozen=True, slots=True)
class Cancels:
    """Times from cancel to closed socket, in seconds."""

    seconds: tuple[float, ...]

    def percentile(self, percent: int) -> float:
        """Return a percentile, in milliseconds."""
        return 1e3 * quantiles(self.seconds, n=100, method="inclusive")[percent - 1]


async def measure_cancels(count: int) -> Cancels:
    """Cancel `count` runs in the middle of their worker's answer, while other runs continue."""
    took, moments = list[float](), Random(7)
    plan = Plan((Step(0, "Write."),))
    async with start_child("durability.hanging_server") as server:
        endpoint = Endpoint(f"http://127.0.0.1:{(await server.read())['port']}/v1")
        conductor = Conductor(FixedPlanner(plan), [ChatWorker("m", endpoint=endpoint)])

        async def write(begun: anyio.Event, scope: anyio.CancelScope) -> None:
            with scope:
                async for event in conductor.stream("Why?"):
                    if isinstance(event, StepDelta):
                        begun.set()

        async with conductor, anyio.create_task_group() as runs:
            scopes: list[anyio.CancelScope] = []
            while len(took) < count:
                while len(scopes) < AT_ONCE:
                    begun, scope = anyio.Event(), anyio.CancelScope()
                    runs.start_soon(write, begun, scope)
                    await begun.wait()
                    scopes.append(scope)
                cancelled = time.monotonic()
                scopes.pop(moments.randrange(AT_ONCE)).cancel()
                took.append((await server.read())["closed"] - cancelled)
            runs.cancel_scope.cancel()
    return Cancels(tuple(took))
