"""Podium: `Conductor.run` of a fixed plan."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from benchmarks.block import Run
from benchmarks.job import ANSWER, MODELS, SHAPES, ShapeName
from podium.conductor import Conductor
from podium.planners import FixedPlanner
from podium.workers import FREE, Card, ChatWorker, Endpoint, StepInput, Worker
from podium.workers.simple import FunctionWorker


@asynccontextmanager
async def open_podium(shape: ShapeName, base_url: str | None) -> AsyncGenerator[Run, None]:
    """Open a conductor; yield a coroutine function that runs `shape` once and returns its answer.

    Args:
        shape: the plan.
        base_url: the workers' server; `None` for no-op workers in the process.
    """
    plan = SHAPES[shape]
    async with make_conductor(shape, base_url) as conductor:

        async def run() -> str:
            return (await conductor.run(plan)).answer

        yield run


def make_conductor(shape: ShapeName, base_url: str | None) -> Conductor:
    """Return a conductor whose planner always returns `shape`."""
    return Conductor(FixedPlanner(SHAPES[shape]), _workers(base_url))


def _workers(base_url: str | None) -> list[Worker]:
    if base_url is None:
        return [FunctionWorker(_answer, card=Card(name=name, price=FREE)) for name in MODELS]
    endpoint = Endpoint(base_url)
    return [ChatWorker(name, endpoint=endpoint) for name in MODELS]


async def _answer(step_input: StepInput) -> str:  # noqa: ARG001  (the signature of a worker's function)
    return ANSWER
