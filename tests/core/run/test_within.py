"""Runs that the code of a worker begins: they belong to the run that called the worker."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future

import anyio
import pytest
from core.actors import Actor, boss, plan_of, problem_of, rows

from podium import Card, Conductor, FunctionWorker, Limits, Message, Price, Result, Retry, ScriptedWorker
from podium.errors import WorkerRefused
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.policy import Policy, Rule
from podium.types import Completion, Event, StepEnded, WorkerRunEnded
from podium.usage import Usage
from podium.workers import FREE, Request, StepInput, complete

pytestmark = pytest.mark.anyio

TWO = rows((0, "one", ()), (0, "two", (0,)))
Way = Callable[[Conductor], FunctionWorker]


def _inner(**options: object) -> tuple[Conductor, ScriptedWorker]:
    worker = ScriptedWorker(Card(name="in", price=Price(input=1.0, output=1.0)), "inner answer")
    return Conductor(boss(TWO), [worker], **options), worker  # type: ignore[arg-type]  # tests name them right


def _asks(inner: Conductor) -> FunctionWorker:
    async def agent(step: StepInput) -> str:
        return (await inner.run(step.subtask)).answer

    return FunctionWorker(agent, price=FREE)


def _asks_in_a_thread(inner: Conductor) -> FunctionWorker:
    def agent(step: StepInput) -> str:
        return inner.run_sync(step.subtask).answer

    return FunctionWorker(agent, price=FREE)


def _asks_as_a_worker(inner: Conductor) -> FunctionWorker:
    async def agent(step: StepInput) -> str:
        return (await complete(inner, Request(messages=(Message("user", step.subtask),)))).text

    return FunctionWorker(agent, price=FREE)


WAYS = pytest.mark.parametrize("way", [_asks, _asks_in_a_thread, _asks_as_a_worker])


async def _run(worker: FunctionWorker | Actor, steps: int = 1, **options: object) -> Result:
    asks = ((0, f"ask {number}", ()) for number in range(steps - 1))
    plan = plan_of(*asks, (0, "ask", tuple(range(steps - 1))))
    return await Conductor(FixedPlanner(plan), [worker], **options).run("Q?")  # type: ignore[arg-type]


@WAYS
async def test_their_calls_count_for_limits_and_bill_of_the_run_around_them(way: Way) -> None:
    inner, worker = _inner()
    agent, alone = way(inner), await inner.run("ask")
    free = await _run(agent)
    assert free.usage.total_tokens == alone.usage.total_tokens > 0
    assert free.cost == alone.cost is not None
    worker.requests.clear()
    once = await _run(agent, limits=Limits(calls=3))
    assert (once.answer, once.status, len(worker.requests)) == ("inner answer", "ok", 2)
    assert (await _run(agent, steps=2, limits=Limits(calls=4))).status != "ok"
    assert len(worker.requests) < 6


@WAYS
async def test_a_partial_run_makes_its_step_partial(way: Way) -> None:
    down = ScriptedWorker("down", WorkerRefused("it is closed"))
    plan = plan_of((0, "look", ()), (1, "write", ()), (1, "sum up", (0, 1)))
    result = await _run(way(Conductor(FixedPlanner(plan), [down, ScriptedWorker("w", "what there is")])))
    assert (result.answer, result.status) == ("what there is", "partial")
    assert "a nested run ended partial: " in problem_of(result).message


async def test_a_failed_run_makes_its_step_partial_and_is_billed_besides() -> None:
    price, own = Price(input=1.0, output=1.0), Usage(100_000, 10)
    broken = ScriptedWorker(Card(name="in", price=price), WorkerRefused("no", usage=Usage(300, 5)))
    inner = Conductor(FixedPlanner(plan_of((0, "look", ()))), [broken])

    async def agent(request: Request) -> AsyncGenerator[Completion, None]:
        found = await inner.run("ask")
        yield Completion(f"Summary: {found.answer or 'no data'}", usage=own)

    result = await _run(Actor(Card(name="agent", price=price), agent))
    assert (result.answer, result.status) == ("Summary: no data", "partial"), result.explain()
    assert "a nested run ended failed: " in problem_of(result).message
    assert result.usage.total_tokens == own.total_tokens + 305


async def test_they_have_the_labels_and_the_rules_of_the_run_around_them() -> None:
    mailer = ScriptedWorker(Card(name="mailer", labels=frozenset({"write-tools"})), "sent")
    writer = ScriptedWorker("writer", "written")
    agent = _asks(Conductor(boss(rows((0, "mail", ())), rows((1, "write", ()))), [mailer, writer]))
    found = ScriptedWorker(Card(name="finder", labels=frozenset({"untrusted"})), "found")
    planner = FixedPlanner(plan_of((1, "find", ()), (0, "use it", (0,))))
    policy = Policy(labels="write-tools", rules=[Rule("untrusted", never="write-tools")])
    result = await Conductor(planner, [agent, found], policy=policy).run("Why?")
    assert (result.answer, mailer.requests) == ("written", [])


@WAYS
async def test_they_are_named_in_the_journal_around_them_and_count_after_a_resume(way: Way) -> None:
    inner, worker = _inner()
    last = ScriptedWorker("last", lambda _: WorkerRefused("not now"))
    agent = way(inner)
    journal, plan = MemoryJournal(), plan_of((0, "ask", ()), (1, "end", (0,)))
    limits = Limits(calls=5, steps=4)  # with the inner planner's call
    once = Retry(attempts=1)
    outer = Conductor(FixedPlanner(plan), [agent, last], journal=journal, limits=limits, retry=once)
    assert (await outer.run("Q?", run_id="r")).status == "failed"
    events = [entry.event for entry in await journal.read("r")]
    (ended,) = [event for event in events if isinstance(event, WorkerRunEnded)]
    assert (ended.step, ended.attempt, ended.status, ended.calls, ended.steps) == (0, 1, "ok", 3, 2)
    assert ended.nested != "r"
    result = await outer.resume("r")
    assert (problem_of(result).code, len(worker.requests), len(last.requests)) == ("limit", 2, 1)
    assert (await outer.resume("r", limits=Limits(calls=6, steps=8))).problem != result.problem
    assert (len(worker.requests), len(last.requests)) == (2, 2)


@pytest.mark.parametrize("stopped_by", ["attempt_seconds", "cancel"])
async def test_a_run_in_a_thread_ends_with_its_call(stopped_by: str) -> None:
    price, second, loop = Price(input=1.0, output=1.0), asyncio.Event(), asyncio.get_running_loop()

    async def act(request: Request) -> AsyncGenerator[Completion, None]:
        if len(asked.requests) == 2:
            loop.call_soon_threadsafe(second.set)
            await anyio.sleep_forever()
        yield Completion("one", usage=Usage(100_000, 10))

    asked = Actor(Card(name="in", price=price), act)
    plan = plan_of((0, "one", ()), (0, "two", (0,)), (0, "three", (1,)))
    inner, left = Conductor(FixedPlanner(plan), [asked]), Future[list[str]]()

    def agent(step: StepInput) -> str:
        raised = []
        for _ in range(2):
            try:
                inner.run_sync(step.subtask)
            except asyncio.CancelledError as error:
                raised.append(type(error).__name__)
        left.set_result(raised)
        return "done"

    limits = Limits(attempt_seconds=0.5) if stopped_by == "attempt_seconds" else Limits()
    planner = FixedPlanner(plan_of((0, "ask", ())))
    outer = Conductor(planner, [FunctionWorker(agent, price=FREE)], limits=limits, retry=Retry(attempts=1))
    events = list[Event]()
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            if stopped_by == "cancel":

                async def cancel() -> None:
                    await second.wait()
                    scope.cancel()

                group.start_soon(cancel)
            await outer.run("Q?", on_event=events.append)
    assert (len(asked.requests), asked.running, asked.stopped) == (2, 0, 1)
    raised = await asyncio.wrap_future(left)
    assert (len(asked.requests), raised[-1:]) == (2, ["CancelledError"])
    ended = [each.outcome for each in events if isinstance(each, StepEnded)]
    (outcome,) = [each for each in ended if each.worker == "agent" and each.attempts]
    assert outcome.status in ("failed", "cancelled")
    assert outcome.usage.input_tokens > 100_000, "of the second call, too, which may be paid"
    assert outcome.cost > 0.1
