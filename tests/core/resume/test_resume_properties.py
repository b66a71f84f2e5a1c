"""Whatever was recorded of whatever run, it goes on to its end and pays for nothing twice."""

from collections import Counter
from dataclasses import dataclass, replace

import anyio
from core.resume.test_resume import prefix, recorded
from core.virtual_clock import OPTIONS
from hypothesis import given, strategies as st

from podium import Conductor, Limits, Plan, ScriptedWorker, Step
from podium.execution import OnFailure
from podium.journal import MemoryJournal
from podium.plan_text import write_plan
from podium.planners import FixedPlanner
from podium.resume import result_of
from podium.resume.paid_results import step_key
from podium.types import Result, StepEnded
from podium.workers import Request
from podium.workers.scripted import Reply


@dataclass(frozen=True)
class Scene:
    """A plan, which of its workers fail, and what follows from that."""

    plan: Plan
    failing: frozenset[int]
    on_failure: OnFailure
    ticks: tuple[int, ...]


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    """Draw a run; two of its steps may be the same."""
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
    """Return the scene's workers, of which these fail."""

    def reply(number: int) -> Reply:
        return RuntimeError("down") if number in failing else f"worker {number} said"

    return [ScriptedWorker(f"w{n}", reply(n), latency=scene.ticks[n] / 64) for n in range(3)]


def conductor(scene: Scene, workers: list[ScriptedWorker], journal: MemoryJournal) -> Conductor:
    """Return who carries the scene out."""
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
        assert result_of(events) == whole
        length = data.draw(st.integers(1, len(events)), label="length")
        before = await prefix(events[:length], "again")
        delivered = Counter(
            event.key for event in events[:length] if isinstance(event, StepEnded) and _is_paid(event)
        )
        healed = pool(scene, data.draw(st.sampled_from([scene.failing, frozenset[int]()]), label="failing"))
        result = await conductor(scene, healed, before).resume("again")
        _check(result, asked(healed), delivered, asked(workers), scene)
        assert result_of(await recorded(before, "again")) == result
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


def test_shuffled_completion_order_finds_all() -> None:
    """What was recorded in one order of completion is found in any other."""

    async def body() -> None:
        plan = Plan((*(Step(n % 3, f"part {n}") for n in range(4)), Step(0, "join", (0, 1, 2, 3))))
        scene = Scene(plan, frozenset(), "skip", (1, 2, 3))
        journal = MemoryJournal()
        await conductor(scene, pool(scene, frozenset()), journal).run("What?", run_id="x")
        events = await recorded(journal, "x")
        before = await prefix(events[:-1], "y")
        other = replace(scene, ticks=(3, 1, 2))
        workers = pool(other, frozenset())
        result = await conductor(other, workers, before).resume("y")
        assert result.status == "ok"
        assert not asked(workers)

    anyio.run(body, backend_options=OPTIONS)
