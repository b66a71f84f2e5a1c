"""A run that was cut off anywhere: what it may have paid is on its bill and counts against its limits."""

from contextlib import suppress
from dataclasses import dataclass

import anyio
import pytest
from core.actors import problem_of
from core.run_state.test_bills import cut, nested, outer, paid, planned, runs_in
from core.run_state.test_resume import prefix, recorded
from core.virtual_clock import OPTIONS
from hypothesis import given, strategies as st

from podium import Conductor, Limits, Plan, ScriptedWorker, Step
from podium.errors import PlannerError, WorkerUnavailable
from podium.execution import Retry
from podium.journal import MemoryJournal
from podium.plan_text import write_plan
from podium.planners import ChatPlanner
from podium.run_state import fold
from podium.types import Completion, Event, PlannerStarted, Result, StepEnded, StepStarted
from podium.usage import Usage

EACH = 0.0002
"""USD that each call costs."""


@dataclass(frozen=True)
class Scene:
    """A plan, the plan that a resumed run has in its place, and how long each worker takes."""

    plan: Plan
    edited: Plan | None
    ticks: tuple[int, ...]
    fails: bool


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    steps = []
    for index in range(draw(st.integers(1, 5))):
        access = draw(st.sets(st.integers(0, index - 1), max_size=index)) if index else set()
        subtask = draw(st.sampled_from([f"part {index}", "the same"]))
        steps.append(Step(draw(st.integers(0, 2)), subtask, tuple(access)))
    return Plan(tuple(steps))


scenes = st.builds(Scene, plans(), st.none() | plans(), st.tuples(*[st.integers(0, 3)] * 3), st.booleans())


def conductor(scene: Scene, journal: MemoryJournal, limits: Limits | None = None) -> Conductor:
    """Return a conductor, the planner and workers of which cost `EACH` a call."""
    text = write_plan(scene.plan, "rows")
    boss = paid("boss", Completion(text, usage=Usage(100, 100)))
    workers = [paid(f"w{number}", latency=tick / 64) for number, tick in enumerate(scene.ticks)]
    if scene.fails:
        down = WorkerUnavailable("down", maybe_paid=True, usage=Usage(100, 100))
        workers[0] = paid("w0", down, latency=scene.ticks[0] / 64)
    retry = Retry(attempts=2, first_wait=0.01)
    return Conductor(ChatPlanner(boss), workers, journal=journal, retry=retry, limits=limits)


def sent(events: list[Event]) -> int:
    return sum(event.reserved.calls for event in events if isinstance(event, StepStarted | PlannerStarted))


def check(result: Result, events: list[Event]) -> None:
    assert result.cost >= EACH * sent(events) - 1e-9
    assert result.usage.total_tokens >= 200 * sent(events)
    if not result.maybe_paid:
        assert result.cost == pytest.approx(EACH * sent(events))


@given(scenes, st.data())
def test_no_call_that_was_sent_is_missing_from_the_bill(scene: Scene, data: st.DataObject) -> None:
    """Cut off twice at any moment, with another plan from then on: the cost is never less than was paid."""

    async def body() -> None:
        journal = MemoryJournal()
        await conductor(scene, journal).run("What?", run_id="R")
        events = await recorded(journal, "R")
        for life in range(2):
            events = events[: data.draw(st.integers(1, len(events)), label=f"length {life}")]
            check(fold(events).result(), events)
            left = await prefix(events, "R")
            result = await conductor(scene, left).resume("R", plan=scene.edited)
            events = await recorded(left, "R")
            assert fold(events).result() == result
            check(result, events)

    anyio.run(body, backend_options=OPTIONS)


@pytest.mark.long
@given(scenes, st.integers(1, 6), st.data())
def test_no_limit_is_overspent_however_often_a_run_is_cut_off(
    scene: Scene, most: int, data: st.DataObject
) -> None:
    """All lives of a run together send no more calls than one life may."""
    limits = Limits(calls=most)

    async def body() -> None:
        journal = MemoryJournal()
        with suppress(PlannerError):  # one call is too few for a plan and a step
            await conductor(scene, journal, limits).run("What?", run_id="R")
        events = await recorded(journal, "R")
        assert sent(events) <= most
        for life in range(3):
            events = events[: data.draw(st.integers(1, len(events)), label=f"length {life}")]
            left = await prefix(events, "R")
            with suppress(PlannerError):  # the calls that were lost can leave none for a plan
                await conductor(scene, left, limits).resume("R", plan=scene.edited)
            events = await recorded(left, "R")
            assert sent(events) <= most

    anyio.run(body, backend_options=OPTIONS)


@pytest.mark.anyio
async def test_a_nested_run_that_was_cut_off_is_billed_by_its_record() -> None:
    journal = MemoryJournal()
    inner = nested([paid("x"), paid("y")])
    await outer(inner, paid("tail"), journal).run("What?", run_id="R")
    child = await runs_in(journal)
    length = next(at for at, e in enumerate(await recorded(journal, "R")) if isinstance(e, StepEnded))
    starts = [at for at, e in enumerate(await recorded(journal, child)) if isinstance(e, StepStarted)]
    left = await cut(journal, {"R": length, child: starts[1] + 1})
    events, lost = await recorded(left, "R"), await recorded(left, child)
    assert fold(events).result().cost is None  # what the nested run spent is not at hand
    told = fold(events, [lost]).result()
    reserved = next(e.reserved for e in reversed(lost) if isinstance(e, StepStarted))
    assert told.cost == pytest.approx(EACH + reserved.cost)
    assert told.maybe_paid
    result = await outer(nested([paid("x"), paid("y")]), paid("tail"), left).resume("R")
    assert result.status == "ok"
    assert result.cost == pytest.approx(3 * EACH + reserved.cost)


@pytest.mark.anyio
async def test_a_lost_call_whose_step_is_planned_no_more_stays_on_the_bill() -> None:
    journal = MemoryJournal()
    plan = Plan((Step(0, "one"), Step(1, "two", (0,))))
    await Conductor(planned(plan), [paid("a"), paid("b")], journal=journal).run("What?", run_id="R")
    events = await recorded(journal, "R")
    at = max(index for index, event in enumerate(events) if isinstance(event, StepStarted))
    left = await prefix(events[: at + 1], "R")
    start = events[at]
    assert isinstance(start, StepStarted)
    workers: list[ScriptedWorker] = [paid("a"), paid("b")]
    result = await Conductor(planned(plan), workers, journal=left).resume("R", plan=Plan((Step(0, "one"),)))
    assert (result.status, result.answer, len(workers[1].requests)) == ("ok", "a said", 0)
    (round_,) = result.rounds
    aside = round_.outcomes[-1]
    assert (aside.step, aside.worker, aside.status, problem_of(aside).code) == (
        1,
        "b",
        "cancelled",
        "unknown",
    )
    assert (aside.cost, aside.maybe_paid, result.maybe_paid) == (start.reserved.cost, True, True)
    assert "part of which may not be billed" in result.explain()
    assert fold(await recorded(left, "R")).result() == result
    again = await Conductor(planned(plan), [paid("a"), paid("b")], journal=left).resume("R")
    assert again.cost == result.cost
