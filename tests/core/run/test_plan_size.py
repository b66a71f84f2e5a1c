"""How many steps a planner is asked for, and how many a plan may have."""

import re

import pytest
from core.actors import boss, plan_of, problem_of, rows, told

from podium.budget import Limits
from podium.conductor import Conductor
from podium.planners import FixedPlanner
from podium.policy import Policy
from podium.workers import ScriptedWorker

pytestmark = pytest.mark.anyio


def pool(size: int) -> list[ScriptedWorker]:
    """Return so many workers, which answer with their names."""
    return [ScriptedWorker(f"w{number}", f"from {number}") for number in range(size)]


@pytest.mark.parametrize(
    ("workers", "limits", "policy", "asked"),
    [
        (1, Limits(), None, 5),
        (3, Limits(), None, 5),
        (4, Limits(), None, 6),
        (7, Limits(), None, 9),
        (40, Limits(), None, 32),
        (40, Limits(plan_steps=60), None, 42),
        (7, Limits(plan_steps=4), None, 4),
        (7, Limits(), Policy(steps=3), 3),
        (7, Limits(), Policy(denied=["w0", "w1"]), 7),
    ],
)
async def test_a_planner_is_asked_for_a_number_that_suits_the_pool(
    workers: int, limits: Limits, policy: Policy | None, asked: int
) -> None:
    planner = boss(rows((0, "go", ())))
    await Conductor(planner, pool(workers), limits=limits, policy=policy).run("Why?")
    assert re.search(r"at most (\d+)", told(planner))[1] == str(asked)  # type: ignore[index]  # it is there


async def test_a_plan_above_the_bound_is_refused_by_a_code_that_names_the_limit() -> None:
    """What is asked for is no bound; `Limits.plan_steps` is."""
    other = FixedPlanner(plan_of((0, "other", ())))
    for size in (32, 33):
        steps = ((0, f"Do {number}.", ()) for number in range(size - 1))
        plan = plan_of(*steps, (0, "Join.", tuple(range(size - 1))))
        result = await Conductor(FixedPlanner(plan), pool(1), fallback_planner=other).run("Why?")
        assert [len(ran.steps) for ran in result.plans] == [32 if size == 32 else 1]
    assert problem_of(result.proposals[0]).code == "too_many_steps"
    assert "the maximum is 32 (Limits.plan_steps" in problem_of(result.proposals[0]).message
