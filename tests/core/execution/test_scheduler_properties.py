"""When steps start, whatever the plan, and what a repair of the plan leaves of steps that had started."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass

import anyio
from core.actors import ONCE, Actor, boss
from core.plans import plans
from core.virtual_clock import on_virtual_clock
from hypothesis import given, strategies as st

from podium import Card, ChatPlanner, Conductor, Limits, Plan, Step
from podium.errors import WorkerRefused
from podium.plan_text import write_plan
from podium.types import Completion
from podium.workers import FREE, Request

TICK = 1 / 64
"""Latencies are whole multiples of it, so that their sums are exact, in seconds."""


@dataclass(frozen=True)
class Scene:
    """A plan, and what its steps will do."""

    plan: Plan
    ticks: tuple[int, ...]
    """Each step's latency."""
    failing: frozenset[int]

    def workers(self, asked: list[str]) -> list[Actor]:
        """Return three workers that note the subtasks that they are asked."""

        async def act(request: Request) -> AsyncGenerator[str | Completion, None]:
            subtask = request.step_input.subtask
            asked.append(subtask)
            step = int(subtask.split()[1])
            await anyio.sleep(self.ticks[step] * TICK)
            if step in self.failing and subtask.startswith("part"):
                raise WorkerRefused("no")
            yield Completion(f"did {subtask}")

        return [Actor(Card(name=f"w{number}", price=FREE), act) for number in range(3)]

    @property
    def ends(self) -> list[str]:
        """The status of each step, worked out from the plan alone."""
        status: list[str] = []
        for index, step in enumerate(self.plan.steps):
            is_blind = bool(step.access) and all(status[seen] != "ok" for seen in step.access)
            was_run = index in self.plan.needed and not is_blind
            status.append("skipped" if not was_run else "failed" if index in self.failing else "ok")
        return status


TICKS = st.lists(st.integers(0, 64), min_size=10, max_size=10).map(tuple)
scenes = st.builds(Scene, plans(3, 10), TICKS, st.frozensets(st.integers(0, 9), max_size=3))


@given(scenes)
def test_a_step_starts_exactly_when_its_last_input_ends(scene: Scene) -> None:
    asked = list[str]()
    conductor = Conductor(boss(""), scene.workers(asked), limits=Limits(plan_steps=10), retry=ONCE)
    result = on_virtual_clock(lambda: conductor.run(scene.plan))
    assert [outcome.status for outcome in result.outcomes] == scene.ends
    ran = [step.subtask for step, end in zip(scene.plan.steps, scene.ends, strict=True) if end != "skipped"]
    assert sorted(asked) == sorted(ran)
    for outcome, step in zip(result.outcomes, scene.plan.steps, strict=True):
        was_skipped = any(result.outcomes[seen].ended is None for seen in step.access)
        if outcome.started is not None and outcome.ended is not None and not was_skipped:
            inputs = [result.outcomes[seen].ended or 0.0 for seen in step.access]
            assert outcome.started == max(inputs, default=0.0)
            assert outcome.seconds == scene.ticks[outcome.step] * TICK


@given(
    scene=scenes,
    kept=st.integers(0, 10),
    others=st.integers(0, 5),
    pauses=st.lists(st.integers(0, 64), min_size=30, max_size=30),
)
def test_a_repaired_plan_keeps_what_it_shares(
    scene: Scene, kept: int, others: int, pauses: list[int]
) -> None:
    first = [*scene.plan.steps[:kept]]
    first += [Step(0, f"other {number}", tuple(range(len(first)))[-1:]) for number in range(others)]
    bad = write_plan(Plan(tuple(first)), "rows") if first else ""
    texts = [bad + '{"worker": 0, "subtask": "x", "access": [99]}\n', write_plan(scene.plan, "rows")]
    waits, asked = iter(pauses), list[str]()

    async def write(request: Request) -> AsyncGenerator[str | Completion, None]:
        text = texts.pop(0)
        for row in text.splitlines(keepends=True):
            await anyio.sleep(next(waits) * TICK)
            yield row
        yield Completion(text)

    planner, limits = ChatPlanner(Actor("boss", write)), Limits(plan_steps=16)
    conductor = Conductor(planner, scene.workers(asked), limits=limits, retry=ONCE)
    result = on_virtual_clock(lambda: conductor.run("What?"))
    count = len(scene.plan.steps)
    own, superseded = result.outcomes[:count], result.outcomes[count:]
    assert (len(asked), result.plans, len(superseded)) == (len(set(asked)), (scene.plan,), others)
    for outcome, status in zip(own, scene.ends, strict=True):
        # A step that was started early may turn out to be one that nobody sees.
        assert outcome.status == status or (outcome.step < kept and outcome.step not in scene.plan.needed)
    assert result.answer == (own[-1].text if own[-1].status == "ok" else "")
    started = {f"part {outcome.step}" for outcome in own if outcome.attempts}
    assert started == {subtask for subtask in asked if subtask.startswith("part")}
