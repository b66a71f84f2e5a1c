"""A limit of calls or steps is spent on steps that lead to an answer."""

from collections.abc import AsyncGenerator
from typing import Literal

import anyio
import pytest
from core.actors import PlanningActor, Row, plan_of, rows
from core.virtual_clock import OPTIONS
from hypothesis import given, strategies as st

from podium.budget import Limits
from podium.conductor import Conductor
from podium.errors import WorkerRefused
from podium.execution import Retry
from podium.journal import MemoryCache, MemoryJournal
from podium.planners import PlanRequest, PlanText
from podium.types import Completion, Plan, Result, Step
from podium.usage import Usage
from podium.workers import Card, Price, ScriptedWorker

pytestmark = pytest.mark.anyio

CHAIN: tuple[Row, ...] = ((0, "one", ()), (0, "two", (0,)), (0, "three", (1,)))
LONG_WAY: tuple[Row, ...] = (*CHAIN, (0, "short", ()), (0, "answer", (2, 3)))
THREE: tuple[Row, ...] = ((0, "one", ()), (0, "two", ()), (0, "answer", (0, 1)))


@pytest.fixture
def anyio_backend() -> object:
    """Run on the virtual clock, so that the order of events is known."""
    return ("asyncio", OPTIONS)


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


@pytest.mark.parametrize("calls", [1, 2, 3])
async def test_steps_that_start_early_leave_the_call_of_the_last_step(calls: int) -> None:
    """An answer of this plan needs two calls; the planner needs none."""
    worker = ScriptedWorker("a", "A", latency=0.1)
    result = await Conductor(writing_rows(rows(*THREE)), [worker], limits=Limits(calls=calls)).run("Why?")
    expected = {1: ("failed", "", 0), 2: ("partial", "A", 2), 3: ("ok", "A", 3)}
    assert (result.status, result.answer, len(worker.requests)) == expected[calls]


async def test_steps_start_early_while_the_limits_have_room_for_the_plan() -> None:
    """A planner with one worker is asked for 5 steps; a repaired plan would need 5 calls after the first."""
    starts = []
    for calls in (5, 6):
        worker = ScriptedWorker("a", "A", latency=0.1)
        conductor = Conductor(writing_rows(rows(*THREE)), [worker], limits=Limits(calls=calls))
        starts.append((await conductor.run("Why?")).outcomes[0].started)
    assert starts == [3.0, 1.0]


async def test_a_cost_limit_without_room_for_the_plan_holds_early_steps_back() -> None:
    """Five calls of the worst case cost 5 USD."""
    card = Card(name="a", price=Price(input=0.0, output=1.0))
    starts = []
    for cost in (4.0, 6.0):
        worker = ScriptedWorker(card, Completion("A", usage=Usage(9, 1)), latency=0.1)
        limits = Limits(cost=cost, answer_tokens=1_000_000)
        conductor = Conductor(writing_rows(rows(*THREE)), [worker], limits=limits)
        starts.append((await conductor.run("Why?")).outcomes[0].started)
    assert starts == [3.0, 1.0]


@pytest.mark.parametrize("limits", [Limits(calls=2), Limits(steps=2)])
async def test_the_shortest_way_to_an_answer_is_kept(limits: Limits) -> None:
    """Of five steps two can run: the last, and the input that needs no other step."""
    worker = ScriptedWorker("a", lambda request: "A")
    result = await Conductor(writing_rows(""), [worker], limits=limits).run(plan_of(*LONG_WAY))
    assert (result.status, result.answer) == ("partial", "A")
    assert [o.step for o in result.outcomes if o.status == "ok"] == [3, 4]
    assert result.problem is not None
    assert result.problem.code == "limit"


async def test_another_way_is_taken_if_the_shortest_fails() -> None:
    """With four calls left after the failure, the chain can still lead to an answer."""
    bad, good = ScriptedWorker("bad", WorkerRefused("no")), ScriptedWorker("good", "A")
    plan = plan_of((1, "one", ()), (1, "two", (0,)), (0, "short", ()), (1, "answer", (1, 2)))
    conductor = Conductor(writing_rows(""), [bad, good], limits=Limits(calls=4), retry=Retry(attempts=1))
    result = await conductor.run(plan)
    assert (result.status, result.answer) == ("partial", "A")
    assert [outcome.status for outcome in result.outcomes] == ["ok", "ok", "failed", "ok"]


async def test_a_plan_ends_when_a_failure_leaves_too_few_calls() -> None:
    """The short way fails, and the chain needs more calls than the run has left: it makes no call."""
    bad, good = ScriptedWorker("bad", WorkerRefused("no")), ScriptedWorker("good", "A", latency=1.0)
    plan = plan_of(
        (1, "one", ()), (1, "two", (0,)), (1, "three", (1,)), (0, "short", ()), (1, "answer", (2, 3))
    )
    conductor = Conductor(writing_rows(""), [bad, good], limits=Limits(calls=2), retry=Retry(attempts=1))
    result = await conductor.run(plan)
    assert (result.status, result.answer, len(good.requests)) == ("failed", "", 0)
    assert result.problem is not None
    assert result.problem.code == "limit"


async def test_cached_answers_need_no_calls() -> None:
    """A run with an answer cache begins a plan that needs more calls than the run may make."""
    worker, cache = Known("a", "A"), MemoryCache()
    for limits in (Limits(), Limits(calls=1)):
        conductor = Conductor(writing_rows(""), [worker], limits=limits, cache=cache)
        result = await conductor.run(plan_of(*THREE))
        assert (result.status, result.answer) == ("ok", "A")
    assert len(worker.requests) == 3


async def test_a_resumed_run_needs_no_calls_for_paid_results() -> None:
    """The run made three calls, and may make one more."""
    replies: list[str | Exception] = [WorkerRefused("no"), "B"]
    worker, flaky = ScriptedWorker("a", "A"), ScriptedWorker("b", lambda request: replies.pop(0))
    plan = plan_of((0, "one", ()), (0, "two", (0,)), (1, "three", (1,)))
    retry = Retry(attempts=1)
    conductor = Conductor(writing_rows(""), [worker, flaky], journal=MemoryJournal(), retry=retry)
    first = await conductor.run(plan)
    assert first.status == "failed"
    second = await conductor.resume(first.run_id, limits=Limits(calls=4))
    assert (second.status, second.answer, len(worker.requests)) == ("ok", "B", 2)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Draw a plan of one worker."""
    steps = []
    for index in range(draw(st.integers(1, 7))):
        access = draw(st.sets(st.integers(0, index - 1), max_size=3)) if index else set[int]()
        steps.append(Step(0, f"part {index}", tuple(sorted(access))))
    return Plan(tuple(steps))


def fewest_calls(plan: Plan, policy: str) -> int:
    """Return how many calls an answer needs, by trying all sets of steps."""
    if policy == "skip":
        return len(plan.needed)
    last, best = len(plan.steps) - 1, len(plan.steps)
    for chosen in range(1 << len(plan.steps)):
        runs = [index for index in range(len(plan.steps)) if chosen >> index & 1]
        if last in runs and all(_can_run(plan, index, runs) for index in runs):
            best = min(best, len(runs))
    return best


def _can_run(plan: Plan, index: int, runs: list[int]) -> bool:
    inputs = [seen in runs for seen in plan.steps[index].access]
    return any(inputs) or not inputs


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
    """The run ends with an answer if the calls allow one, and otherwise makes no call of a worker."""
    worker = ScriptedWorker("a", "A", latency=latency)

    async def run() -> Result:
        text = rows(*[(0, step.subtask, step.access) for step in plan.steps])
        limits = Limits(calls=calls)
        conductor = Conductor(writing_rows(text), [worker], limits=limits, on_failure=policy)
        return await conductor.run("Why?") if early else await conductor.run(plan)

    result = anyio.run(run, backend_options=OPTIONS)
    if calls >= fewest_calls(plan, policy):
        assert result.answer == "A"
        assert result.status == ("ok" if calls >= len(plan.needed) else "partial")
    else:
        assert (result.status, len(worker.requests)) == ("failed", 0)
    assert len(worker.requests) <= calls
