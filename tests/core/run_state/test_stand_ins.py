"""Resumed runs whose plan the fallback planner wrote: the planner is asked again."""

import pytest
from core.actors import problem_of

from podium import ChatPlanner, Conductor, ScriptedWorker
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.policy import Policy
from podium.types import Result
from podium.workers.simple import Reply

FALLBACK = '{"worker": 0, "subtask": "do it", "access": []}'
BETTER = '{"worker": 1, "subtask": "do it better", "access": [0]}'
pytestmark = pytest.mark.anyio


class Team:
    """A conductor in a journal, with its models."""

    def __init__(
        self, journal: MemoryJournal, plan: Reply, *, has_fallback: bool = True, latency: float = 0.0
    ) -> None:
        self.planner = ScriptedWorker("planner", plan, latency=latency)
        self.workers = [ScriptedWorker("a", "a said"), ScriptedWorker("b", "b said")]
        fallback = FixedPlanner(FALLBACK) if has_fallback else None
        planner = ChatPlanner(self.planner)
        self.conductor = Conductor(planner, self.workers, fallback_planner=fallback, journal=journal)

    @property
    def calls(self) -> list[int]:
        """How often the planner and the workers were called."""
        return [len(each.requests) for each in (self.planner, *self.workers)]


async def resumed(plan: Reply) -> tuple[Result, Result, Team, MemoryJournal]:
    """Return the result of a run with a plan of the fallback planner, its result after a resume, and both."""
    journal = MemoryJournal()
    first = await Team(journal, "none").conductor.run("What?", run_id="x")
    assert (first.status, first.answer) == ("partial", "a said")
    team = Team(journal, plan)
    return first, await team.conductor.resume("x"), team, journal


async def test_a_planner_that_works_again_writes_the_plan() -> None:
    first, result, team, journal = await resumed(f"{FALLBACK}\n{BETTER}")
    assert (result.status, result.answer, result.problem) == ("ok", "b said", None)
    assert team.calls == [1, 0, 1]
    assert result.planner is not None
    assert not result.planner.is_fallback
    assert result.usage.total_tokens > first.usage.total_tokens
    assert await team.conductor.resume("x") == result
    assert team.calls == [1, 0, 1]
    assert (await journal.runs())[0].state == "ok"


async def test_a_planner_that_fails_again() -> None:
    first, result, team, journal = await resumed("none")
    assert team.calls == [2, 0, 0]
    for again in (result, await team.conductor.resume("x")):
        assert (again.status, again.answer) == ("partial", first.answer)
        assert problem_of(again).code == "planner_fallback"
    repaired = Team(journal, BETTER.replace("[0]", "[]"))
    assert (await repaired.conductor.resume("x")).answer == "b said"


async def test_another_plan_needs_another_approval() -> None:
    journal, policy = MemoryJournal(), Policy(approve="later")
    down = Team(journal, "none").conductor
    assert (await down.run("What?", run_id="x", policy=policy)).status == "waiting"
    await down.decide("x", approved=True)
    assert (await down.resume("x", policy=policy)).status == "partial"
    assert (await down.resume("x", policy=policy)).status == "partial"
    team = Team(journal, f"{FALLBACK}\n{BETTER}")
    assert (await team.conductor.resume("x", policy=policy)).status == "waiting"
    await team.conductor.decide("x", approved=True)
    assert (await team.conductor.resume("x", policy=policy)).status == "ok"
    assert team.calls == [1, 0, 1]
