"""A bad plan is repaired once, a planner that fails is called again, and its calls fit the limits."""

import json
from collections.abc import AsyncGenerator
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any

import anyio
import pytest
from core.actors import (
    ONCE,
    Actor,
    PlanningActor,
    boss,
    in_turn,
    pair,
    plan_of,
    problem_of,
    rows,
    told,
    yielding,
)
from core.virtual_clock import OPTIONS, anyio_backend  # noqa: F401 - a fixture
from hypothesis import given, strategies as st

from podium import Card, ChatPlanner, Conductor, Limits, Plan, Price, Retry, RulePlanner, ScriptedWorker
from podium.errors import PlannerError, WorkerBroken, WorkerRefused, WorkerTimeout, WorkerUnavailable
from podium.journal import MemoryJournal
from podium.plan_text import Change, edit_plan
from podium.planners import CachedPlanner, DirectPlanner, FixedPlanner, PlanRequest, PlanText
from podium.replay import replay
from podium.types import Event, PlannerEnded, PlannerStarted
from podium.types.outcome import for_people
from podium.usage import Usage
from podium.workers.simple import Reply

pytestmark = pytest.mark.anyio

GOOD = rows((0, "go", ()))
BOSS = Card(name="boss", price=Price(input=1.0, output=10.0))


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("I would ask the first worker, and then the second.", "has no plan"),
        (rows(*((0, f"step {i}", ()) for i in range(33))), "Limits.plan_steps"),
        ('{"worker": 7, "subtask": "go", "access": []}\n', "7"),
    ],
)
async def test_a_bad_plan_is_quoted_to_its_planner_with_the_reason(bad: str, reason: str) -> None:
    planner = boss(bad, GOOD)
    result = await Conductor(planner, pair()).run("What?")
    assert result.status == "ok"
    assert all(text in told(planner, 1) for text in (bad.strip(), reason))
    assert told(planner, 1).startswith(told(planner, 0))
    assert [proposal.problem is None for proposal in result.proposals] == [False, True]


def _failing(bad: str | Exception, **options: object) -> Conductor:
    return Conductor(boss(bad), pair(), retry=Retry(attempts=2), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("bad", "code", "calls"),
    [
        ("no plan", "planner_unusable", 2),
        (WorkerUnavailable("down"), "planner_unreachable", 2),
        (WorkerRefused("no such key"), "planner_refused", 1),
        (KeyError("oops"), "planner_failed", 1),
    ],
)
async def test_without_a_plan_the_run_raises_or_has_the_fallback_s(bad: Any, code: str, calls: int) -> None:
    conductor = _failing(bad)
    with pytest.raises(PlannerError) as of_run:
        await conductor.run("What?")
    with pytest.raises(PlannerError) as of_plan:
        await conductor.plan("What?")
    for error in (of_run.value, of_plan.value):
        assert (error.code, [call.planner for call in error.calls]) == (code, ["boss"] * calls)
        assert all(for_people(problem_of(call)) in str(error) for call in error.calls)
        assert error.run_id
        assert all(text in str(error) for text in (error.run_id, "tokens"))
        assert error.usage == Usage.total(call.usage for call in error.calls)
    result = await _failing(bad, fallback_planner=RulePlanner()).run("What is it?")
    assert (result.status, result.answer, len(result.proposals)) == ("partial", "A", calls + 1)
    assert problem_of(result).code == "planner_fallback"
    assert "'rule' wrote the plan: planner 'boss'" in problem_of(result).message
    assert (result.planner.name, result.planner.is_fallback) == ("rule", True)
    assert "Planner rule wrote the plan as the fallback" in result.explain()


async def test_a_planner_that_was_configured_is_no_fallback() -> None:
    fixed = FixedPlanner(plan_of((1, "go", ())))
    for planner in (RulePlanner(), fixed, CachedPlanner(fixed), DirectPlanner(boss(GOOD))):
        result = await Conductor(planner, pair()).run("What is it?")
        assert (result.status, result.problem) == ("ok", None)
        assert (result.planner.name, result.planner.is_fallback) == (planner.name, False)


async def test_a_planner_is_called_again_after_the_wait_it_asks_for() -> None:
    planner = boss(WorkerUnavailable("busy", retry_after=20.0), WorkerUnavailable("busy"), GOOD)
    events = [event async for event in Conductor(planner, pair()).stream("What?")]
    waits = [event.wait for event in events if isinstance(event, PlannerEnded)]
    starts = [event.at for event in events if isinstance(event, PlannerStarted)]
    assert [wait is None for wait in waits] == [False, False, True]
    assert [b - a for a, b in pairwise(starts)] == pytest.approx(waits[:2])
    assert 20.0 <= starts[1] - starts[0] <= 30.0
    result = events[-1].result  # type: ignore[union-attr]
    assert (result.status, result.answer, len(result.proposals)) == ("ok", "A", 3)


async def test_a_wait_that_is_too_long_is_not_begun() -> None:
    busy, limits = WorkerUnavailable("busy", retry_after=20.0), Limits(seconds=10)
    with pytest.raises(PlannerError, match=r"Limits\.seconds or Limits\.step_seconds ends") as caught:
        await Conductor(boss(busy), pair(), limits=limits).run("What?")
    assert len(caught.value.calls) == 1


def _pooled(replies: list[str | Exception], **retry: Any) -> tuple[Conductor, ScriptedWorker]:
    """Return a conductor whose planner is asked of a worker of its pool, and that worker."""
    model = in_turn("model", *replies)
    return Conductor(ChatPlanner(model), [ScriptedWorker("a", "A"), model], retry=Retry(**retry)), model


async def test_a_planner_whose_model_is_down_fails_fast() -> None:
    conductor, model = _pooled([WorkerUnavailable("down")], attempts=1, break_after=2, break_seconds=60.0)
    for _ in range(2):
        with pytest.raises(PlannerError, match="down"):
            await conductor.run("What?")
    with pytest.raises(PlannerError, match=r"'model' failed 2 times in a row and gets no calls") as caught:
        await conductor.run("What?")
    assert (caught.value.code, caught.value.cost, len(model.requests)) == ("planner_unreachable", 0.0, 2)
    assert not caught.value.calls[0].asked
    await anyio.sleep(60.0)
    with pytest.raises(PlannerError, match="down"):
        await conductor.run("What?")
    assert len(model.requests) == 3


async def test_a_planner_that_breaks_off_is_called_again_and_its_steps_go_on() -> None:
    texts = [GOOD, rows((0, "go", ()), (1, "join", (0,)))]

    async def write(request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        text = texts.pop(0)
        yield text
        if texts:
            await anyio.sleep(1.0)
            raise WorkerBroken("cut off", maybe_paid=True)
        yield PlanText(text=text)

    pool = pair()
    result = await Conductor(PlanningActor(write), pool).run("What?")
    assert (result.status, result.answer, [len(worker.requests) for worker in pool]) == ("ok", "B", [1, 1])


async def test_a_plan_that_the_fallback_wrote_makes_its_run_partial() -> None:
    journal = MemoryJournal()
    conductor = _failing("no plan", fallback_planner=RulePlanner(), journal=journal)
    plan = await conductor.plan("What is it?")
    assert (plan.planner.name, plan.planner.is_fallback) == ("rule", True)
    assert plan.planner.why.startswith("planner 'boss': ")
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))).planner == plan.planner
    result = await conductor.run(plan, run_id="mine")
    resumed = await conductor.resume("mine", plan=plan)
    again = await replay(conductor, [entry.event for entry in await journal.read("mine")])
    for each in (result, resumed, again, await conductor.run(Plan.from_json(plan.to_json()))):
        assert (each.status, each.answer, each.planner) == ("partial", "A", plan.planner)
        assert problem_of(each).code == "planner_fallback"
        assert problem_of(each).message == f"the fallback planner 'rule' wrote the plan: {plan.planner.why}"
    changed = await conductor.run(edit_plan(plan, Change(step=0, subtask="Say it.")))
    assert (changed.status, changed.planner and changed.planner.name) == ("ok", "user")


def _planner(*replies: Reply) -> ChatPlanner:
    return ChatPlanner(in_turn(BOSS, *replies))


def _conductor(planner: ChatPlanner, limits: Limits | None = None, **options: Any) -> Conductor:
    return Conductor(planner, pair(), limits=limits, retry=ONCE, **options)


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


SEVERAL = ": 3 step(s); 6 call(s) of workers, those that fail included; 90,000 tokens for all"


@pytest.mark.parametrize(
    ("limits", "bound", "steps", "line"),
    [
        (Limits(), None, 5, None),
        (Limits(calls=3), None, 2, ": 2 call(s) of workers, those that fail included. A step"),
        (Limits(cost=0.58, unpriced=0.0, answer_tokens=77), 77, 5, ": $0.5. A step"),
        (Limits(output_tokens=23_456), 3909, 5, ": 20,000 tokens for all that they write. A step"),
        (Limits(calls=7, steps=3, input_tokens=99_999), None, 3, SEVERAL),
    ],
)
async def test_the_planner_is_told_what_is_left_and_is_bounded_where_it_could_exceed_a_limit(
    limits: Limits, bound: int | None, steps: int, line: str | None
) -> None:
    planner = _planner(GOOD)
    await _conductor(planner, limits).plan("What is it?")
    assert planner.worker.requests[0].sampling.max_tokens == bound  # type: ignore[attr-defined]
    asked = told(planner)
    assert ("is left for the whole plan" in asked) == (line is not None)
    assert line is None or line in asked
    assert f" {steps} step" in asked
    assert asked.endswith("then write the plan.")


async def test_a_bad_plan_is_repaired_by_the_run_that_goes_on() -> None:
    conductor = Conductor(boss("no plan", GOOD), pair(), journal=MemoryJournal())
    with anyio.CancelScope() as scope:

        def stop(event: Event) -> None:
            if isinstance(event, PlannerEnded):
                scope.cancel()

        await conductor.run("What?", run_id="r", on_event=stop)
    result = await conductor.resume("r")
    assert [call.role for call in result.proposals if call.problem is None] == ["repair"]
    assert ([call.role for call in result.proposals].count("plan"), result.status) == (1, "ok")


WAYS: dict[str, Reply] = {
    "plan": GOOD,
    "other": rows((0, "go on", ())),
    "prose": "I would ask around.",
    "bad": '{"worker": 9, "subtask": "go", "access": []}\n',
    "keep": '{"steps": []}',
    "down": WorkerUnavailable("down"),
    "late": WorkerTimeout("late", maybe_paid=True),
    "cut": WorkerBroken("cut", maybe_paid=True),
    "refused": WorkerRefused("no"),
    "raises": ValueError("oops"),
}


@given(
    ways=st.lists(st.sampled_from(sorted(WAYS)), min_size=1, max_size=8),
    rounds=st.integers(1, 3),
    attempts=st.integers(1, 3),
    has_fallback=st.booleans(),
)
def test_no_failing_planner_has_a_run_end_ok(
    ways: Any, rounds: int, attempts: int, *, has_fallback: Any
) -> None:
    planner = boss(*[WAYS[way] for way in ways])
    rule, retry = RulePlanner() if has_fallback else None, Retry(attempts=attempts)
    limits = Limits(rounds=rounds)
    conductor = Conductor(planner, pair(), limits=limits, retry=retry, fallback_planner=rule)
    seen: list[Event] = []
    with suppress(PlannerError):
        run = partial(conductor.run, "What? And why?", on_event=seen.append)
        assert anyio.run(run, backend_options=OPTIONS).answer == "A"
    last = seen[-1]
    planners = [current.plan and current.planner and current.planner.name for current in last.result.rounds]
    well = set(planners) <= {"boss"}
    assert (last.result.status == "ok", last.result.answer == "") == (well, last.result.status == "failed")
    used = [call for call in last.result.proposals if call.problem is None]
    assert has_fallback or all(call.planner == "boss" for call in used)
    assert json.dumps(last.to_json())


@pytest.mark.parametrize(("seconds", "planned"), [(1e-6, False), (0.2, True)])
async def test_the_end_of_the_run_is_a_limit_and_no_failure(seconds: float, *, planned: bool) -> None:
    boss = Actor(BOSS, yielding(...))
    conductor = Conductor(ChatPlanner(boss), pair(), limits=Limits(seconds=seconds))
    with pytest.raises(PlannerError, match=r"Limits\.seconds") as caught:
        await (conductor.plan("What?") if planned else conductor.run("What?"))
    assert caught.value.code == "planner_limit"
    assert len(boss.requests) <= 1
