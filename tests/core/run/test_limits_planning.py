"""A planner's calls are reserved before they are made and settled after; what does not fit is not made."""

from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import anyio
import pytest
from core.actors import Actor, problem_of, rows, told, yielding
from core.virtual_clock import OPTIONS, anyio_backend  # noqa: F401 - a fixture
from hypothesis import given, strategies as st

from podium.budget import Limits
from podium.conductor import Conductor
from podium.errors import PlannerError, WorkerFailed, WorkerRefused, WorkerTimeout
from podium.execution import Retry
from podium.planners import ChatPlanner, RulePlanner
from podium.types import Completion, Event, PlannerStarted, StepStarted
from podium.usage import Usage
from podium.workers import Card, Price, Request, ScriptedWorker
from podium.workers.simple import Reply

pytestmark = pytest.mark.anyio

GOOD = rows((0, "go", ()))
BOSS = Card(name="boss", price=Price(input=1.0, output=10.0))


def _planner(*replies: Reply) -> ChatPlanner:
    left = list(replies)
    return ChatPlanner(ScriptedWorker(BOSS, lambda _: left.pop(0) if len(left) > 1 else left[0]))


def _conductor(planner: ChatPlanner, limits: Limits | None = None, **options: Any) -> Conductor:
    workers = [ScriptedWorker("a", "A"), ScriptedWorker("b", "B")]
    return Conductor(planner, workers, limits=limits, retry=Retry(attempts=1), **options)


async def test_a_call_that_does_not_fit_is_not_made() -> None:
    """The fallback plans, and the account says what to raise."""
    planner, limits = _planner(GOOD), Limits(cost=0.001, unpriced=0.0)
    result = await _conductor(planner, limits, fallback_planner=RulePlanner()).run("What is it?")
    assert planner.worker.requests == []  # type: ignore[attr-defined]
    refused, wrote = result.proposals
    assert (problem_of(refused).code, wrote.planner) == ("limit", "rule")
    assert "raise Limits.cost" in problem_of(refused).message
    assert (refused.usage, refused.cost, refused.maybe_paid, refused.asked) == (Usage(), 0.0, False, False)


async def test_a_repair_that_does_not_fit_is_not_made() -> None:
    planner = _planner("no plan", GOOD)
    with pytest.raises(PlannerError, match="no_plan") as caught:
        await _conductor(planner, Limits(calls=2)).run("What is it?")
    assert caught.value.code == "planner_limit"
    assert [call.problem and call.problem.code for call in caught.value.calls] == ["no_plan", "limit"]
    assert len(planner.worker.requests) == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("end", [WorkerTimeout("broke off", maybe_paid=True), ...])
async def test_a_call_whose_end_was_not_seen_costs_the_most_that_it_may_have_come_to(end: Any) -> None:
    events = list[Event]()
    planner = ChatPlanner(Actor(BOSS, yielding("Let me think", end)))
    limits = Limits(cost=1.0, unpriced=0.0)
    with pytest.raises(PlannerError) as caught:
        await _conductor(planner, limits).run("What is it?", on_event=events.append)
    (worst,) = [event.reserved for event in events if isinstance(event, PlannerStarted)]
    (lost,) = caught.value.calls
    assert (lost.maybe_paid, lost.cost, lost.usage.estimated) == (True, worst.cost, True)
    assert caught.value.cost == worst.cost


@pytest.mark.parametrize(
    ("limits", "bound", "line"),
    [
        (Limits(), None, None),
        (Limits(cost=0.58, unpriced=0.0, answer_tokens=77), 77, ": $0.5. A step"),
        (Limits(output_tokens=23_456), 3909, ": 20,000 tokens for all that they write. A step"),
        (
            Limits(calls=7, steps=3, input_tokens=99_999),
            None,
            ": 3 step(s); 6 call(s) of workers, those that fail included; 90,000 tokens for all",
        ),
    ],
)
async def test_the_planner_is_told_what_is_left_and_is_bounded_where_it_could_exceed_a_limit(
    limits: Limits, bound: int | None, line: str | None
) -> None:
    """In round figures; nothing, where there is nothing that a plan could use up."""
    planner = _planner(GOOD)
    await _conductor(planner, limits).plan("What is it?")
    assert planner.worker.requests[0].sampling.max_tokens == bound  # type: ignore[attr-defined]
    asked = told(planner)
    assert ("is left for the whole plan" in asked) == (line is not None)
    assert line is None or line in asked
    assert asked.endswith("then write the plan.")


async def test_a_planner_that_is_a_worker_of_the_pool_takes_its_slot() -> None:
    async def act(request: Request) -> AsyncGenerator[str | Completion, None]:
        await anyio.sleep(1.0)
        yield Completion(GOOD)

    worker = Actor(replace(BOSS, concurrency=1), act)
    conductor = Conductor(ChatPlanner(worker), [worker])
    async with conductor, anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(conductor.run, "What?")
    assert (worker.peak, len(worker.requests), worker.running) == (1, 6, 0)


REPLIES = st.sampled_from(("good", "bad", "refuse", "break", "hang", "bill"))


@given(
    ways=st.lists(REPLIES, min_size=1, max_size=6),
    limits=st.builds(
        Limits,
        rounds=st.integers(1, 3),
        calls=st.integers(1, 8),
        output_tokens=st.one_of(st.none(), st.integers(1, 400)),
        cost=st.one_of(st.none(), st.integers(1, 40).map(lambda cents: cents / 1000)),
        answer_tokens=st.integers(1, 100),
    ),
)
def test_planning_never_spends_more_than_it_may(ways: list[str], limits: Limits) -> None:
    """Whatever the planner does: each call is made only if its worst case fits."""
    left = list(ways)

    async def act(request: Request) -> AsyncGenerator[str | Completion, None]:
        way = left.pop(0) if len(left) > 1 else left[0]
        await anyio.sleep(0.01)
        if way == "refuse":
            raise WorkerRefused("no")
        if way == "break":
            raise WorkerTimeout("gone", maybe_paid=True)
        if way == "bill":
            raise WorkerFailed("no", usage=Usage(50, min(5, request.sampling.max_tokens or 5)))
        if way == "hang":
            await anyio.sleep_forever()
        most = request.sampling.max_tokens
        usage = Usage(200, 30 if most is None else min(30, most))
        yield Completion(rows((0, f"go {len(left)}", ())) if way == "good" else "no plan", usage=usage)

    async def run() -> None:
        planner = Actor(BOSS, act)
        worker = ScriptedWorker("a", "A")
        events: list[Event] = []
        with suppress(PlannerError):
            async for event in Conductor(ChatPlanner(planner), [worker], limits=limits).stream("What is it?"):
                events.append(event)  # noqa: PERF401 - what is read before the error counts
        asked = sum(isinstance(event, PlannerStarted) and event.planner == "boss" for event in events)
        calls = asked + sum(isinstance(event, StepStarted) for event in events)
        result = events[-1].result  # type: ignore[union-attr] # a stream ends with its result
        assert (len(planner.requests), planner.running) == (asked, 0)
        assert calls <= limits.calls
        assert result.cost is None or limits.cost is None or result.cost <= limits.cost
        written = result.usage.output_tokens
        assert limits.output_tokens is None or result.usage.estimated or written <= limits.output_tokens

    anyio.run(run, backend_options=OPTIONS)
