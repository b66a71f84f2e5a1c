"""A run that has ended leaves no work to the garbage collector, which blocks the event loop."""

import pytest
from core.cycles import left_by

from podium import Card, Conductor, FunctionWorker, Plan, Step
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.types.steps import Block
from podium.workers import FREE, StepInput

pytestmark = pytest.mark.anyio

LIST = {"type": "array", "items": {"type": "string"}}
FILES = Step(0, "list", returns=LIST)
PLANS = {
    "plain": (Step(0, "list"), Step(1, "read", (0,))),
    "map": (FILES, Step(1, "read {{item}}", each="{{0}}"), Step(1, "sum up", (1,))),
    "block": (FILES, Block(steps=(Step(1, "read {{item}}"), Step(1, "check", (0,))), each="{{0}}")),
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
async def test_a_run_leaves_no_cycles(plan: tuple[Step, ...]) -> None:
    async def answer(asked: StepInput) -> str:
        return '["a", "b"]' if asked.subtask.startswith("list") else asked.subtask

    workers = [FunctionWorker(answer, card=Card(name=name, price=FREE)) for name in ("lister", "reader")]
    conductor = Conductor(FixedPlanner(Plan(plan)), workers, journal=MemoryJournal())

    async def run() -> None:
        events = [event async for event in conductor.stream("What is there?")]
        assert events[-1].result.status == "ok"

    assert await left_by(run) == []
