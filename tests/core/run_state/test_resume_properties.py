"""Whatever was recorded of whatever run, it goes on to its end and pays for nothing twice."""

from collections import Counter
from dataclasses import dataclass

import anyio
from core.run_state.test_resume import prefix, recorded
from core.virtual_clock import OPTIONS
from hypothesis import given, strategies as st

from podium import Conductor, Limits, Plan, ScriptedWorker, Step
from podium.execution import OnFailure
from podium.journal import MemoryJournal, export
from podium.plan_text import write_plan
from podium.planners import FixedPlanner
from podium.run_state import fold
from podium.run_state.paid import step_key
from podium.types import Result, StepEnded
from podium.workers import Request
from podium.workers.simple import Reply


@dataclass(frozen=True)
class Scene:
    """A plan, which of its workers fail, and what follows from that."""

    plan: Plan
    failing: frozenset[int]
    on_failure: OnFailure
    ticks: tuple[int, ...]


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    size = draw(st.integers(1, 5))
    steps = []
    for index in range(size):
        access = draw(st.sets(st.integers(0, index - 1), max_size=index)) if index else set()
        subtask = draw(st.sampled_from([f"part {index}", "the same"]))
        steps.append(Step(draw(st.integers(0, 2)), subtask, tuple(access)))
    return Scene(
        Plan(tuple(steps)),
        draw(st.frozensets(st.integers(0, 2), max_size=2)),
        draw(st.sampled_from(["skip", "note", "replan", "fail"])),
        draw(st.tuples(*[st.integers(0, 3)] * 3)),
    )


def pool(scene: Scene, failing: frozenset[int]) -> list[ScriptedWorker]:
    def reply(number: int) -> Reply:
        return RuntimeError("down") if number in failing else f"worker {number} said"

    return [ScriptedWorker(f"w{n}", reply(n), latency=scene.ticks[n] / 64) for n in range(3)]


def conductor(scene: Scene, workers: list[ScriptedWorker], journal: MemoryJournal) -> Conductor:
    return Conductor(
        FixedPlanner(write_plan(scene.plan, "rows")),
        workers,
        limits=Limits(rounds=2),
        on_failure=scene.on_failure,
        journal=journal,
    )


def asked(workers: list[ScriptedWorker]) -> Counter[str]:
    """Return what was asked for, by content, and how often."""
    requests = [(worker.card.name, request) for worker in workers for request in worker.requests]
    return Counter(_key(name, request) for name, request in requests)


def _key(name: str, request: Request) -> str:
    assert request.step_input is not None
    return step_key(name, request.step_input)


@given(scenes(), st.data())
def test_a_run_goes_on_from_any_point_of_its_record(scene: Scene, data: st.DataObject) -> None:
    """What was recorded as delivered is asked for no more; the record says what was returned."""

    async def body() -> None:
        journal, workers = MemoryJournal(), pool(scene, scene.failing)
        whole = await conductor(scene, workers, journal).run("What?", run_id="whole")
        events = await recorded(journal, "whole")
        assert fold(events).result() == whole
        length = data.draw(st.integers(1, len(events)), label="length")
        before = await prefix(events[:length], "again")
        delivered = Counter(
            event.key for event in events[:length] if isinstance(event, StepEnded) and _is_paid(event)
        )
        healed = pool(scene, data.draw(st.sampled_from([scene.failing, frozenset[int]()]), label="failing"))
        result = await conductor(scene, healed, before).resume("again")
        _check(result, asked(healed), delivered, asked(workers), scene)
        assert fold(await recorded(before, "again")).result() == result
        twice = pool(scene, frozenset())
        ended = await conductor(scene, twice, before).run("What?", run_id="again")
        assert ended == result
        assert not asked(twice)

    anyio.run(body, backend_options=OPTIONS)


def _is_paid(event: StepEnded) -> bool:
    return event.outcome.status == "ok" and not event.outcome.reused


def _check(
    result: Result, again: Counter[str], delivered: Counter[str], needed: Counter[str], scene: Scene
) -> None:
    """What is asked for as often as it was delivered is not asked for again."""
    for key, count in delivered.items():
        if needed[key] == count:  # none of the same content was under way or failed
            assert again[key] == 0
    if not scene.failing:
        assert result.status == "ok"
    bills = [outcome.usage for outcome in result.outcomes]
    assert sum(usage.total_tokens for usage in bills) == result.usage.total_tokens


@st.composite
def flaky_plans(draw: st.DrawFn) -> Plan:
    """Draw a plan of different steps, some of which need only a part of their inputs."""
    steps = []
    for index in range(draw(st.integers(2, 6))):
        access = tuple(draw(st.sets(st.integers(0, index - 1), max_size=index))) if index else ()
        enough = draw(st.none() | st.integers(1, len(access))) if access else None
        steps.append(Step(draw(st.integers(0, 2)), f"part {index}", access, enough=enough))
    return Plan(tuple(steps))


def _saying(request: Request) -> str:
    """Return what a worker makes of its inputs; a missing input is a question mark."""
    return f"({' '.join(seen.output or '?' for seen in request.step_input.visible)})"


def _flaky(failing: frozenset[int]) -> list[ScriptedWorker]:
    def reply(request: Request) -> Reply:
        return RuntimeError("down") if request.caller.step in failing else _saying(request)

    return [ScriptedWorker(f"w{n}", reply, latency=n / 64) for n in range(3)]


@given(flaky_plans(), st.sampled_from(["skip", "note", "replan", "fail"]), st.data())
def test_no_resume_repeats_a_step_that_was_done(
    plan: Plan, on_failure: OnFailure, data: st.DataObject
) -> None:
    """Whatever failed and was repaired meanwhile; and no answer that was made from a gap is `ok`."""
    steps = st.frozensets(st.integers(0, len(plan.steps) - 1), max_size=3)

    async def body() -> None:
        journal, result = MemoryJournal(), None
        for turn in range(4):
            failing = data.draw(steps, label="failing") if turn < 3 else frozenset[int]()
            workers, before = _flaky(failing), await recorded(journal, "x") if turn else []
            if turn and data.draw(st.booleans(), label="killed"):
                lines = [line async for line in export(journal)]
                lines = lines[: data.draw(st.integers(1, len(lines)), label="length")]
                journal = MemoryJournal.of(lines)
                before = await recorded(journal, "x")
            team = Conductor(FixedPlanner(plan), workers, on_failure=on_failure, journal=journal)
            result = await (team.resume("x", refresh=turn == 3) if turn else team.run("What?", run_id="x"))
            done = {
                (event.round, event.step)
                for event in before
                if isinstance(event, StepEnded) and event.outcome.status == "ok"
            }
            requests = [request for worker in workers for request in worker.requests]
            called = {(r.caller.round, r.caller.step) for r in requests if r.caller is not None}
            assert turn == 3 or not called & done
            assert result.status != "ok" or "?" not in result.answer
            assert "?" not in result.answer or result.status == "partial"
        assert result is not None
        if on_failure == "note":
            assert result.status == "ok"

    anyio.run(body, backend_options=OPTIONS)
