"""A stream of events, and what a run leaves behind: no task, no piece twice, no reference cycle."""

import asyncio
import gc

import anyio
import pytest
from core.actors import Actor, boss, breaking_off, never, plan_of, rows, tags
from core.cycles import left_by
from core.virtual_clock import anyio_backend  # noqa: F401 - a fixture

from podium import Card, Conductor, FunctionWorker, Plan, ScriptedWorker, Step
from podium.errors import PlannerError, QueryError
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.types import AnswerDelta, StepStarted
from podium.types.steps import Block
from podium.workers import FREE, StepInput

pytestmark = pytest.mark.anyio


DIAMOND_OF_ONE = plan_of((0, "find", ()), (0, "left", (0,)), (0, "right", (0,)), (0, "join", (1, 2)))
LIST = {"type": "array", "items": {"type": "string"}}
FILES = Step(0, "list", returns=LIST)
BLOCK = Block(steps=(Step(1, "read {{item}}"), Step(1, "check", (0,))), each="{{0}}")
WORKFLOW = (FILES, Step(1, "read {{item}}", each="{{0}}"), BLOCK, Step(1, "sum up", (1, 2)))


async def test_a_stream_left_to_the_garbage_collector_stops_its_run() -> None:
    before = asyncio.all_tasks()
    worker = Actor("a", never)

    async def drop() -> None:
        async for event in Conductor(boss(""), [worker]).stream(DIAMOND_OF_ONE):
            if isinstance(event, StepStarted):
                return

    await drop()
    gc.collect()
    await anyio.sleep(1.0)
    assert (worker.stopped, worker.running) == (1, 0)
    assert asyncio.all_tasks() <= before


async def test_errors_come_out_of_the_iteration() -> None:
    with pytest.raises(QueryError):
        await anext(Conductor(boss(""), [ScriptedWorker("a", "A")]).stream("  "))
    stream = Conductor(FixedPlanner("no"), [ScriptedWorker("a", "A")]).stream("What?")
    asked = ["planner_started", "planner_ended"]
    expected = ["run_started", "round_started", *asked, *asked, "run_ended"]
    assert tags([await anext(stream) for _ in range(len(expected) + 2)]) == expected
    with pytest.raises(PlannerError):
        await anext(stream)


@pytest.mark.parametrize("second", ["The tower, by 280 m.", "Nobody knows."])
async def test_a_nested_run_passes_no_piece_on_twice(second: str) -> None:
    inner = Conductor(boss(rows((0, "say", ()))), [breaking_off("The tower, I believe.", second)])
    events = [event async for event in Conductor(boss(""), [inner]).stream(plan_of((0, "say", ())))]
    own = [event for event in events if event.run_id == events[0].run_id]
    told = "".join(event.text for event in own if isinstance(event, AnswerDelta))
    assert (told, own[-1].result.answer) == ((second if second.startswith("The") else "The"), second)


async def test_a_run_leaves_no_cycles() -> None:
    async def answer(asked: StepInput) -> str:
        return '["a", "b"]' if asked.subtask.startswith("list") else asked.subtask

    workers = [FunctionWorker(answer, card=Card(name=name, price=FREE)) for name in ("lister", "reader")]
    conductor = Conductor(FixedPlanner(Plan(WORKFLOW)), workers, journal=MemoryJournal())

    async def run() -> None:
        assert [event async for event in conductor.stream("What is there?")][-1].result.status == "ok"

    assert await left_by(run) == []
