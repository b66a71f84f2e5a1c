"""Steps start when their inputs exist, and each of them ends in one way only."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import anyio
import pytest
from core.actors import Actor, answering, boss, codes, plan_of, problem_of, rows, tags, writing, yielding
from core.virtual_clock import anyio_backend  # noqa: F401 - a fixture

from podium import Card, ChatPlanner, Conductor, Limits, ScriptedWorker
from podium.errors import WorkerUnavailable
from podium.types import Completion
from podium.workers import FREE, Request

pytestmark = pytest.mark.anyio


async def test_a_row_starts_while_the_planner_writes_the_next() -> None:
    first, second = rows((0, "first", ()), (0, "second", (0,))).splitlines(keepends=True)
    planner = ChatPlanner(Actor("boss", writing(first, second, pause=4.0)))
    conductor = Conductor(planner, [ScriptedWorker("a", "A", latency=1.0)])
    events = [event async for event in conductor.stream("What?")]
    first_step = ["step_started 0", "step_delta 0", "step_ended 0"]
    expected = ["run_started", "round_started", "planner_started", "plan_delta", *first_step, "plan_delta"]
    expected += ["planner_ended", "plan_ready", "step_started 1", "step_delta 1", "answer_delta"]
    assert tags(events, without="_delta_") == [*expected, "step_ended 1", "run_ended"]


async def test_a_worker_is_called_no_more_often_at_once_than_its_card_says() -> None:
    worker = Actor(Card(name="a", price=FREE, concurrency=2), answering("A", latency=1.0))
    conductor = Conductor(boss(""), [worker])
    plan = plan_of((0, "x", ()), (0, "y", ()), (0, "z", ()), (0, "all", (0, 1, 2)))
    async with anyio.create_task_group() as runs:
        runs.start_soon(conductor.run, plan)
        runs.start_soon(conductor.run, plan)
    assert (worker.peak, len(worker.requests)) == (2, 8)


@pytest.mark.parametrize(
    ("limits", "ends", "started"),
    [
        (Limits(step_seconds=5.5), ["ok", "ok", "ok", "ok"], [0.0, 5.0, 10.0, 15.0]),
        (Limits(seconds=8.0), ["ok", "failed worker_timeout", "failed worker_timeout"], [0.0, 5.0, None]),
    ],
    ids=["of the step", "of the run"],
)
async def test_waiting_for_a_slot_counts_as_time_of_the_run_only(
    limits: Limits, ends: Any, started: Any
) -> None:
    worker = Actor(Card(name="a", concurrency=1), answering("A", latency=5.0))
    plan = plan_of((0, "x", ()), (0, "y", ()), (0, "z", ()), (0, "all", (0, 1, 2)))
    result = await Conductor(boss(""), [worker], limits=limits, on_failure="skip").run(plan)
    assert codes(result.outcomes)[: len(ends)] == ends
    assert [outcome.started for outcome in result.outcomes][: len(started)] == started
    assert ("no free slot" in result.explain()) is (started[-1] is None)


async def test_a_run_out_of_time_keeps_what_was_paid() -> None:
    plan = plan_of((0, "quick", ()), (1, "slow", ()), (0, "all", (0, 1)))
    workers = [ScriptedWorker("a", "A", latency=1.0), Actor("slow", yielding(...))]
    result = await Conductor(boss(""), workers, limits=Limits(seconds=10)).run(plan)
    assert (result.status, result.answer, result.seconds) == ("failed", "", 10.0)
    assert (result.outcomes[0].text, problem_of(result).code) == ("A", "limit")
    assert (codes(result.outcomes)[:2], len(result.outcomes)) == (["ok", "failed worker_timeout"], 3)
    assert result.usage_by_worker["a"].total_tokens > 0
    assert result.usage_by_worker["slow"].estimated


@pytest.mark.parametrize(
    ("pieces", "code", "text"),
    [
        ([WorkerUnavailable("connection refused")], "worker_unavailable", "connection refused"),
        (["half", ZeroDivisionError("oops")], "worker_failed", "ZeroDivisionError: oops"),
        ([asyncio.CancelledError()], "worker_failed", "CancelledError"),
        ([TimeoutError("theirs")], "worker_failed", "TimeoutError: theirs"),
        ([Completion(None)], "worker_failed", "NoneType"),  # type: ignore[arg-type]
        (["half an ans"], "worker_broken", "ended without a completion"),
        ([Completion("  \n")], "answer_empty", "empty answer"),
        ([b"\xff"], "worker_broken", "yielded a bytes"),
        (["x" * 100_000] * 5, "answer_too_long", "400,000 characters"),
        ([...], "worker_timeout", "did not answer"),
    ],
)
async def test_a_worker_that_goes_wrong_fails_its_step_alone(pieces: list[Any], code: str, text: str) -> None:
    bad, good = Actor("bad", yielding(*pieces)), Actor("good", answering("A", latency=1.0))
    plan = plan_of((0, "go wrong", ()), (1, "go well", ()), (1, "join", (0, 1)))
    result = await Conductor(boss(""), [bad, good]).run(plan)
    assert codes(result.outcomes) == [f"failed {code}", "ok", "ok"]
    assert text in problem_of(result).message
    assert (result.status, result.answer) == ("partial", "A")


async def _hangs_in_clearing_up(request: Request) -> AsyncGenerator[str | Completion, None]:
    try:
        yield Completion("A")
    finally:
        await anyio.sleep_forever()


@pytest.mark.parametrize(
    "act",
    [yielding(Completion("A"), "more"), yielding(Completion("A"), ValueError("late")), _hangs_in_clearing_up],
)
async def test_a_whole_answer_stands_whatever_its_worker_does_next(act: Any) -> None:
    result = await Conductor(boss(""), [Actor("a", act)]).run(plan_of((0, "go", ())))
    assert (result.status, result.answer) == ("ok", "A")
