"""A bad plan is repaired once, a planner that fails is called again, and its calls fit the limits."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any

import anyio
import pytest
from core.actors import Actor, PlanningActor, boss, plan_of, problem_of, rows, told, yielding
from core.virtual_clock import (
    OPTIONS,
    anyio_backend,  # noqa: F401 - a fixture
)
from hypothesis import given, strategies as st

from podium.budget import Limits
from podium.conductor import Conductor
from podium.errors import (
    PlannerError,
    WorkerBroken,
    WorkerFailed,
    WorkerRefused,
    WorkerTimeout,
    WorkerUnavailable,
)
from podium.execution import Retry
from podium.journal import MemoryJournal
from podium.plan_text import Change, edit_plan
from podium.planners import (
    CachedPlanner,
    ChatPlanner,
    DirectPlanner,
    FixedPlanner,
    PlanRequest,
    PlanText,
    RulePlanner,
)
from podium.replay import replay
from podium.types import Completion, Event, Plan, PlannerEnded, PlannerStarted, StepStarted
from podium.types.outcome import for_people
from podium.usage import Usage
from podium.workers import Card, Price, Request, ScriptedWorker
from podium.workers.simple import Reply

pytestmark = pytest.mark.anyio

GOOD = rows((0, "go", ()))


def _pool() -> list[ScriptedWorker]:
    return [ScriptedWorker("a", "A"), ScriptedWorker("b", "B")]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (rows((0, "go", ())).replace("[]", "[3]"), "step 0"),
        ("I would ask the first worker, and then the second.", "has no plan"),
        (rows(*((0, f"step {i}", ()) for i in range(33))), "Limits.plan_steps"),
        ('{"worker": 7, "subtask": "go", "access": []}\n', "7"),
    ],
)
async def test_a_bad_plan_is_quoted_to_its_planner_with_the_reason(bad: str, reason: str) -> None:
    planner = boss(bad, GOOD)
    result = await Conductor(planner, _pool()).run("What?")
    assert result.status == "ok"
    assert bad.strip() in told(planner, 1)
    assert reason in told(planner, 1)
    assert told(planner, 1).startswith(told(planner, 0))
    assert [proposal.problem is None for proposal in result.proposals] == [False, True]


def _failing(bad: str | Exception, **options: object) -> Conductor:
    return Conductor(boss(bad), _pool(), retry=Retry(attempts=2), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("bad", "code", "calls"),
    [
        ("no plan", "planner_unusable", 2),
        (WorkerUnavailable("down"), "planner_unreachable", 2),
        (WorkerRefused("no such key"), "planner_refused", 1),
        (KeyError("oops"), "planner_failed", 1),
    ],
)
async def test_without_a_plan_the_run_raises_or_is_partial_with_that_of_the_fallback(
    bad: str | Exception, code: str, calls: int
) -> None:
    """`run` and `plan` raise, with what was tried and what was spent."""
    conductor = _failing(bad)
    with pytest.raises(PlannerError) as of_run:
        await conductor.run("What?")
    with pytest.raises(PlannerError) as of_plan:
        await conductor.plan("What?")
    for error in (of_run.value, of_plan.value):
        assert error.code == code
        assert [call.planner for call in error.calls] == ["boss"] * calls
        assert all(for_people(problem_of(call)) in str(error) for call in error.calls)
        assert error.run_id
        assert error.run_id in str(error)
        assert "tokens" in str(error)
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
        result = await Conductor(planner, _pool()).run("What is it?")
        assert (result.status, result.problem) == ("ok", None)
        assert (result.planner.name, result.planner.is_fallback) == (planner.name, False)


async def test_a_planner_is_called_again_after_the_wait_it_asks_for() -> None:
    planner = boss(WorkerUnavailable("busy", retry_after=20.0), WorkerUnavailable("busy"), GOOD)
    events = [event async for event in Conductor(planner, _pool()).stream("What?")]
    waits = [event.wait for event in events if isinstance(event, PlannerEnded)]
    starts = [event.at for event in events if isinstance(event, PlannerStarted)]
    assert [wait is None for wait in waits] == [False, False, True]
    assert [b - a for a, b in pairwise(starts)] == pytest.approx(waits[:2])
    assert 20.0 <= starts[1] - starts[0] <= 30.0
    result = events[-1].result  # type: ignore[union-attr]
    assert (result.status, result.answer, len(result.proposals)) == ("ok", "A", 3)


@pytest.mark.parametrize(
    ("error", "limits", "because"),
    [
        (WorkerUnavailable("busy", retry_after=99.0), Limits(), "more than Retry.max_wait"),
        (
            WorkerUnavailable("busy", retry_after=20.0),
            Limits(seconds=10),
            "Limits.seconds or Limits.step_seconds ends before",
        ),
    ],
)
async def test_a_wait_that_is_too_long_is_not_begun(
    error: WorkerUnavailable, limits: Limits, because: str
) -> None:
    with pytest.raises(PlannerError, match=because) as caught:
        await Conductor(boss(error), _pool(), limits=limits).run("What?")
    assert len(caught.value.calls) == 1


def _pooled(replies: list[str | Exception], **retry: Any) -> tuple[Conductor, ScriptedWorker]:
    """Return a conductor whose planner is asked of a worker of its pool, and that worker."""
    model = ScriptedWorker("model", lambda request: replies.pop(0) if len(replies) > 1 else replies[0])
    conductor = Conductor(ChatPlanner(model), [ScriptedWorker("a", "A"), model], retry=Retry(**retry))
    return conductor, model


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

    pool = _pool()
    result = await Conductor(PlanningActor(write), pool).run("What?")
    assert (result.status, result.answer) == ("ok", "B")
    assert [len(worker.requests) for worker in pool] == [1, 1]


@pytest.mark.parametrize(
    ("pieces", "code", "reason"),
    [
        ([KeyError("oops")], "planner_failed", "raised KeyError"),
        ([TimeoutError("theirs")], "planner_failed", "raised TimeoutError: theirs"),
        ([asyncio.CancelledError()], "planner_failed", "raised CancelledError"),
        (["Let me think", ...], "worker_timeout", "did not finish within 120 s"),
        ([GOOD], "planner_failed", "ended without a PlanText"),
        ([b"\xff"], "planner_failed", "a bytes, not text"),
        ([PlanText(text="")], "no_plan", "has no plan"),
        ([GOOD, PlanText(text=GOOD, finish_reason="length")], "truncated", "token limit"),
        ([PlanText(text=GOOD, finish_reason="content_filter")], "answer_refused", "content filter"),
        ([PlanText(text="blah " * 2_000_000)], "too_long", "longer than 262,144 characters"),
    ],
)
async def test_no_planner_that_goes_wrong_passes_for_one_that_does_not(
    pieces: list[Any], code: str, reason: str
) -> None:
    """An error that says why; with a fallback a result that is not `ok`."""
    with pytest.raises(PlannerError, match=reason):
        await Conductor(PlanningActor(yielding(*pieces)), _pool()).run("What is it?")
    result = await Conductor(PlanningActor(yielding(*pieces)), _pool(), fallback_planner=RulePlanner()).run(
        "What is it?"
    )
    assert (result.status, result.proposals[-1].planner) == ("partial", "rule")
    problem = problem_of(result.proposals[0])
    assert problem.code == code
    assert reason in problem.message


async def test_a_planner_that_writes_without_end_is_left_early() -> None:
    written, quoted = [0, 0], list[int]()

    async def write(request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        quoted.append(sum(len(turn.text) for turn in request.turns))
        for _ in range(10_000):
            written[len(quoted) - 1] += 1000
            yield "blah " * 199 + "blah\n"
        yield PlanText(text="")

    conductor = Conductor(PlanningActor(write), _pool(), fallback_planner=RulePlanner())
    result = await conductor.run("What is it?")
    assert max(written) <= 330_000
    assert quoted[0] == 0
    assert 0 < quoted[1] <= 16_000
    assert max(len(proposal.text) for proposal in result.proposals) <= 262_144
    assert result.proposals[-1].planner == "rule"


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


async def test_planner_calls_are_counted_and_paid() -> None:
    card = Card(name="boss", price=Price(input=1.0, output=2.0))
    replies = [Completion("bad", usage=Usage(1000, 10)), Completion(GOOD, usage=Usage(2000, 20))]
    planner = ChatPlanner(ScriptedWorker(card, lambda request: replies.pop(0)))
    result = await Conductor(planner, _pool()).run("What?")
    assert [proposal.usage.input_tokens for proposal in result.proposals] == [1000, 2000]
    assert result.proposals[0].cost == pytest.approx(0.00102)
    assert result.cost == pytest.approx(0.00306)


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
