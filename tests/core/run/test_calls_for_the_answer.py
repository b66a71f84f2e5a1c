"""A limit of calls buys a whole answer, or the plan is refused before its first call."""

from collections.abc import AsyncGenerator
from typing import Literal

import anyio
import pytest
from core.actors import PlanningActor, Row, plan_of, rows
from core.virtual_clock import OPTIONS, anyio_backend  # noqa: F401 - a fixture
from hypothesis import given, strategies as st

from podium.budget import Limits
from podium.conductor import Conductor
from podium.journal import MemoryCache
from podium.planners import PlanRequest, PlanText
from podium.types import Plan, Result, Step
from podium.workers import ScriptedWorker

pytestmark = pytest.mark.anyio

THREE: tuple[Row, ...] = ((0, "one", ()), (0, "two", ()), (0, "answer", (0, 1)))


class Known(ScriptedWorker):
    """A worker whose answers may be cached."""

    identity = "known"


def writing_rows(text: str) -> PlanningActor:
    """Return a planner that writes one row in each second."""

    async def write(request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        for line in text.splitlines(keepends=True):
            await anyio.sleep(1.0)
            yield line
        yield PlanText(text=text)

    return PlanningActor(write)


async def test_cached_answers_need_no_calls() -> None:
    worker, cache = Known("a", "A"), MemoryCache()
    for limits in (Limits(), Limits(calls=1)):
        conductor = Conductor(writing_rows(""), [worker], limits=limits, cache=cache)
        result = await conductor.run(plan_of(*THREE))
        assert (result.status, result.answer) == ("ok", "A")
    assert len(worker.requests) == 3


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    steps = []
    for index in range(draw(st.integers(1, 7))):
        access = draw(st.sets(st.integers(0, index - 1), max_size=3)) if index else set[int]()
        steps.append(Step(0, f"part {index}", tuple(sorted(access))))
    return Plan(tuple(steps))


@given(
    plan=plans(),
    calls=st.integers(1, 9),
    policy=st.sampled_from(["note", "skip"]),
    early=st.booleans(),
    latency=st.sampled_from([0.0, 0.5, 1.5]),
)
def test_a_limit_of_calls_buys_an_answer_or_nothing(
    plan: Plan, calls: int, policy: Literal["note", "skip"], *, early: bool, latency: float
) -> None:
    """The run ends `ok` if the calls allow all steps, and otherwise makes no call of a worker."""
    worker = ScriptedWorker("a", "A", latency=latency)

    async def run() -> Result:
        text = rows(*[(0, step.subtask, step.access) for step in plan.steps])
        limits = Limits(calls=calls)
        conductor = Conductor(writing_rows(text), [worker], limits=limits, on_failure=policy)
        return await conductor.run("Why?") if early else await conductor.run(plan)

    result = anyio.run(run, backend_options=OPTIONS)
    if calls >= len(plan.needed):
        assert (result.status, result.answer) == ("ok", "A")
    else:
        assert (result.status, len(worker.requests)) == ("failed", 0)
    assert len(worker.requests) <= calls
