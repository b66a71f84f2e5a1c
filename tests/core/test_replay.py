"""Runs that are done over from their record, and in what two runs differ."""

from collections.abc import Sequence

import pytest
from core.actors import plan_of

from podium import ChatPlanner, Conductor, Limits, Plan, Result, ScriptedWorker, Step
from podium.errors import ConfigError, PlanInvalid
from podium.journal import MemoryCache, MemoryJournal
from podium.plan_text import write_plan
from podium.replay import diff, replay
from podium.types import Event, StepEnded, StepStarted

pytestmark = pytest.mark.anyio

PLAN = plan_of((0, "find out", ()), (1, "check it", (0,)), (0, "look elsewhere", ()), (0, "write it", (1, 2)))


class Stage:
    """A conductor over two scripted workers, whose runs are recorded in memory."""

    def __init__(self, *, limits: Limits | None = None, plan: Plan = PLAN) -> None:
        self.journal = MemoryJournal()
        self.boss = ScriptedWorker("boss", write_plan(plan, "rows"))
        self.alpha = ScriptedWorker("alpha", {"write": "an answer", "find": "a fact", "look": "more"})
        self.bravo = ScriptedWorker("bravo", "it is so")
        self.conductor = self.with_pool(self.alpha, self.bravo, limits=limits)

    def with_pool(self, *workers: ScriptedWorker, limits: Limits | None = None) -> Conductor:
        """Return a conductor over other workers, with the same journal and planner."""
        return Conductor(ChatPlanner(self.boss), workers, limits=limits, journal=self.journal)

    async def recorded(self, result: Result) -> Sequence[Event]:
        return [entry.event for entry in await self.journal.read(result.run_id)]

    @property
    def calls(self) -> list[int]:
        return [len(worker.requests) for worker in (self.boss, self.alpha, self.bravo)]


async def test_replay_calls_nobody() -> None:
    stage = Stage()
    first = await stage.conductor.run("What is it?")
    before = stage.calls
    seen: list[Event] = []
    again = await replay(stage.conductor, await stage.recorded(first), on_event=seen.append)
    assert (stage.calls, again.answer, again.status, again.plans) == (before, first.answer, "ok", first.plans)
    assert (again.cost, again.usage.total_tokens) == (0.0, 0)
    assert again.run_id != first.run_id
    assert all(outcome.reused for outcome in again.outcomes)
    assert not [event for event in seen if isinstance(event, StepStarted)]
    assert len([event for event in seen if isinstance(event, StepEnded)]) == 4
    third = await replay(stage.conductor, await stage.recorded(again))
    assert stage.calls == before
    assert diff(again, third) == ()


@pytest.mark.parametrize(
    ("step", "called"), [(0, {"find", "check it"}), (1, {"check", "write it"}), (3, {"write"})]
)
async def test_one_changed_step_calls_what_is_given_something_else(step: int, called: set[str]) -> None:
    stage = Stage()
    first = await stage.conductor.run("What is it?")
    steps = list(PLAN.steps)
    steps[step] = Step(steps[step].worker, steps[step].subtask.split()[0], steps[step].access)
    seen: list[Event] = []
    changed = Plan(tuple(steps))
    again = await replay(stage.conductor, await stage.recorded(first), plan=changed, on_event=seen.append)
    assert {event.subtask for event in seen if isinstance(event, StepStarted)} == called
    assert (again.plans, again.status) == ((changed,), "ok")


async def test_a_run_is_repeated_from_a_step() -> None:
    """The step and all that depends on it is called again, though nothing changed and a cache knows it."""
    stage = Stage()
    workers = [stage.alpha, stage.bravo]
    stage.conductor = Conductor(ChatPlanner(stage.boss), workers, journal=stage.journal, cache=MemoryCache())
    first = await stage.conductor.run("What is it?")
    seen: list[Event] = []
    again = await replay(stage.conductor, await stage.recorded(first), again=(1, 1), on_event=seen.append)
    assert {event.subtask for event in seen if isinstance(event, StepStarted)} == {"check it", "write it"}
    assert (again.status, again.plans) == ("ok", first.plans)
    with pytest.raises(ConfigError, match="the plan of round 1 has no step 4"):
        await replay(stage.conductor, await stage.recorded(first), again=(1, 4))


async def test_all_rounds_are_replayed() -> None:
    plans = [write_plan(plan_of((0, "find out", ())), "rows"), write_plan(plan_of((1, "better", ())), "rows")]
    stage = Stage()
    stage.boss = ScriptedWorker("boss", lambda _: plans.pop(0))
    stage.conductor = stage.with_pool(stage.alpha, stage.bravo, limits=Limits(rounds=2))
    first = await stage.conductor.run("What is it?")
    assert len(first.rounds) == 2
    before = stage.calls
    again = await replay(stage.conductor, await stage.recorded(first))
    assert (stage.calls, again.answer, again.plans) == (before, first.answer, first.plans)
    plans.append(write_plan(plan_of((1, "best", ())), "rows"))
    other = await replay(stage.conductor, await stage.recorded(first), again=(1, 0))
    assert [called - known for called, known in zip(stage.calls, before, strict=True)] == [1, 1, 1]
    assert [plan.calls[0].subtask for plan in other.plans] == ["find out", "best"]


async def test_what_cannot_be_replayed() -> None:
    stage = Stage()
    events = await stage.recorded(await stage.conductor.run("What is it?"))
    with pytest.raises(PlanInvalid):
        await replay(stage.conductor, events, plan=plan_of((7, "find out", ())))
    with pytest.raises(PlanInvalid, match="no plan"):
        await replay(stage.conductor, events[:1], plan=PLAN)
