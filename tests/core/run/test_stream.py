"""A stream of events: whole, in order, and gone without a trace when it is left."""

import asyncio
import gc
from collections.abc import AsyncGenerator

import anyio
import pytest
from core.actors import Actor, boss, never, plan_of, rows, tags
from core.virtual_clock import anyio_backend  # noqa: F401 - a fixture

from podium.cli.live import LiveState
from podium.conductor import Conductor
from podium.errors import PlannerError, QueryError, WorkerBroken
from podium.planners import FixedPlanner
from podium.types import AnswerDelta, Completion, RunEnded, StepStarted
from podium.workers import Request, ScriptedWorker

pytestmark = pytest.mark.anyio

DIAMOND = plan_of((0, "find", ()), (1, "left", (0,)), (1, "right", (0,)), (0, "join", (1, 2)))


async def test_events_come_in_the_order_of_what_happens() -> None:
    workers = [ScriptedWorker("a", "A", latency=1.0), ScriptedWorker("b", "B", latency=2.0)]
    events = [event async for event in Conductor(boss(""), workers).stream(DIAMOND)]
    assert tags(events) == [
        "run_started",
        "round_started",
        "plan_ready",
        "step_started 0",
        "step_ended 0",
        *sorted(["step_started 1", "step_started 2"], key=tags(events).index),
        *sorted(["step_ended 1", "step_ended 2"], key=tags(events).index),
        "step_started 3",
        "step_ended 3",
        "run_ended",
    ]
    assert [event.at for event in events] == sorted(event.at for event in events)


DIAMOND_OF_ONE = plan_of((0, "find", ()), (0, "left", (0,)), (0, "right", (0,)), (0, "join", (1, 2)))


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


async def test_cancelling_a_task_of_asyncio_stops_the_run() -> None:
    before = asyncio.all_tasks()
    for streamed in (False, True):
        worker = Actor("a", never)
        conductor = Conductor(boss(""), [worker])

        async def consume(conductor: Conductor = conductor) -> None:
            [event async for event in conductor.stream(DIAMOND_OF_ONE)]

        asked = consume() if streamed else conductor.run(DIAMOND_OF_ONE)
        task: asyncio.Task[object] = asyncio.create_task(asked)
        await anyio.sleep(1.0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert (worker.stopped, worker.running) == (1, 0)
        assert asyncio.all_tasks() <= before


async def test_errors_come_out_of_the_iteration() -> None:
    with pytest.raises(QueryError):
        await anext(Conductor(boss(""), [ScriptedWorker("a", "A")]).stream("  "))
    stream = Conductor(FixedPlanner("no"), [ScriptedWorker("a", "A")]).stream("What?")
    asked = ["planner_started", "planner_ended"]
    expected = ["run_started", "round_started", *asked, *asked, "run_ended"]
    before = [await anext(stream) for _ in range(len(expected) + 2)]
    assert tags(before) == expected
    with pytest.raises(PlannerError):
        await anext(stream)


class Breaks(ScriptedWorker):
    """Writes the half of its first text, fails, and then writes its second text."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__("writer", "")
        self._texts = iter([first, second])

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        self.requests.append(request)
        text = next(self._texts)
        yield text[:10]
        if len(self.requests) == 1:
            raise WorkerBroken("cut", maybe_paid=True)
        yield text[10:]
        yield Completion(text)


SECOND = pytest.mark.parametrize("second", ["The tower, by 280 m.", "Nobody knows."])


@SECOND
async def test_pieces_of_an_attempt_that_failed_have_a_number_of_their_own(second: str) -> None:
    conductor = Conductor(boss(""), [Breaks("The tower, I believe.", second)])
    pieces, state = dict[int | None, str](), LiveState()
    async for event in conductor.stream(plan_of((0, "say", ()))):
        state.take(event, 0.0)
        if isinstance(event, AnswerDelta):
            pieces[event.attempt] = pieces.get(event.attempt, "") + event.text
    assert pieces == {1: "The tower,", 2: second}
    assert state.root.answer == second


@SECOND
async def test_a_nested_run_passes_no_piece_on_twice(second: str) -> None:
    inner = Conductor(boss(rows((0, "say", ()))), [Breaks("The tower, I believe.", second)])
    events = [event async for event in Conductor(boss(""), [inner]).stream(plan_of((0, "say", ())))]
    own = [event for event in events if event.run_id == events[0].run_id]
    told = "".join(event.text for event in own if isinstance(event, AnswerDelta))
    assert told == (second if second.startswith("The tower,") else "The tower,")
    assert isinstance(own[-1], RunEnded)
    assert own[-1].result.answer == second
