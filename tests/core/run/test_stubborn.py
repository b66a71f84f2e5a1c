"""Workers and planners that ignore their cancellation, never wait, block the event loop, or are late."""

import logging
import threading
import time
from collections.abc import AsyncGenerator
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from core.actors import ONCE, Actor, PlanningActor, boss, plan_of, problem_of

from podium import Card, Conductor, Limits, Price, Result, ScriptedWorker
from podium.errors import PlannerError
from podium.types import Completion
from podium.usage import Usage
from podium.workers import Request, Worker

pytestmark = pytest.mark.anyio
ONE = plan_of((0, "go", ()))
PRICED = Card(name="deaf", price=Price(input=1.0, output=1.0))


class Deaf:
    """Code that ignores cancellations until the test ends."""

    def __init__(self) -> None:
        self.released = anyio.Event()
        self.cancels = 0
        self.begun = 0
        self.ended = anyio.Event()

    async def wait(self) -> None:
        self.begun += 1
        while not self.released.is_set():
            try:
                await self.released.wait()
            except BaseException:  # noqa: BLE001 - what a user's worker does, by mistake
                self.cancels += 1
        self.ended.set()

    async def act(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        yield "begun "
        await self.wait()
        yield "late"
        yield Completion("begun late", usage=Usage(10, 5))


@pytest.fixture
async def deaf() -> AsyncGenerator[Deaf, None]:
    made = Deaf()
    yield made
    made.released.set()
    if made.begun:
        with anyio.fail_after(5):
            await made.ended.wait()


def _conductor(worker: Worker, limits: Limits | None = None, **more: object) -> Conductor:
    return Conductor(boss(""), [worker], limits=limits, retry=ONCE, **more)  # type: ignore[arg-type]


def _is_timeout(result: Result) -> bool:
    return result.outcomes[0].problem is not None and result.outcomes[0].problem.code == "worker_timeout"


async def test_a_worker_that_ignores_its_cancellation_is_left(deaf: Deaf, caplog: Any) -> None:
    worker = Actor(PRICED, deaf.act)
    limits = Limits(step_seconds=0.3)  # in which a busy machine begins the call
    with anyio.fail_after(20):
        result = await _conductor(worker, limits).run(ONE)
    assert (result.status, result.answer) == ("failed", "")
    assert _is_timeout(result)
    (outcome,) = result.outcomes
    assert (outcome.maybe_paid, outcome.charged, outcome.text) == (True, "reservation", "begun ")
    assert result.cost > 1e-3  # an answer of the longest length
    assert not deaf.ended.is_set()
    assert deaf.cancels >= 1
    assert "worker 'deaf' ignores that it was cancelled" in caplog.text


@pytest.mark.long
async def test_a_stream_that_is_left_does_not_wait_for_such_a_worker(deaf: Deaf) -> None:
    with anyio.fail_after(20):
        stream = _conductor(Actor("deaf", deaf.act)).stream(ONE)
        async for event in stream:
            if event.type == "step_delta":
                break
        await stream.aclose()
    assert deaf.begun == 1


async def _empty(request: object) -> AsyncGenerator[str, None]:
    while True:
        yield ""


async def _endless(request: object) -> AsyncGenerator[str, None]:
    while True:
        yield "x"


async def test_text_without_end_and_wait_can_be_cancelled() -> None:
    result = await _conductor(Actor("a", _endless), Limits(output_chars=2000)).run(ONE)  # type: ignore[arg-type]
    assert problem_of(result).code == "answer_too_long"
    limits = Limits(planner_seconds=0.05)
    for act in (_empty, _endless):
        planner = PlanningActor(act)  # type: ignore[arg-type]
        with anyio.fail_after(20), pytest.raises(PlannerError):
            await Conductor(planner, [ScriptedWorker("a", "A")], limits=limits, retry=ONCE).run("What?")


async def _blocking(request: Request) -> AsyncGenerator[str | Completion, None]:
    time.sleep(0.6)  # noqa: ASYNC251 - what a user's worker does, by mistake
    yield "too late"
    yield Completion("too late", usage=Usage(10, 5))


async def test_an_answer_after_its_limit_is_not_ok() -> None:
    result = await _conductor(Actor("a", _blocking), Limits(seconds=0.5)).run(ONE)
    assert (result.status, result.answer) == ("failed", "")
    assert _is_timeout(result)
    assert "worker 'a' answered too late, not within " in str(result.outcomes[0].problem)
    assert result.usage == Usage(10, 5)


def _until_told(caplog: pytest.LogCaptureFixture) -> None:
    end = time.monotonic() + 20
    while "has blocked" not in caplog.text and time.monotonic() < end:
        time.sleep(0.01)


async def test_a_worker_that_blocks_the_event_loop_is_named_while_it_does(caplog: Any) -> None:
    caplog.set_level(logging.WARNING, logger="podium")

    async def block(request: Request) -> AsyncGenerator[str | Completion, None]:
        await anyio.lowlevel.checkpoint()
        _until_told(caplog)
        yield Completion("late")

    result = await _conductor(Actor("blocker", block), Limits(attempt_seconds=0.5)).run(ONE)
    told = [record for record in caplog.records if "has blocked" in record.message]
    assert [record.threadName != threading.current_thread().name for record in told] == [True]
    assert "worker 'blocker' has blocked the event loop" in told[0].message
    assert _is_timeout(result)
