"""Every planner keeps the contract of planners."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from contracts.planner_contract import PlannerContract
from core.actors import plan_of

from podium import Card, ChatPlanner, Plan, RulePlanner, ScriptedWorker, Step, parse_plan
from podium.plan_text import Spelling, write_plan
from podium.planners import CachedPlanner, DirectPlanner, FixedPlanner, Planner, TurnPlanner
from podium.workers import Request


def _two_steps(request: Request) -> str:
    """Plan the question that stands last in the prompt."""
    asked = re.findall(r"Why is it colour[0-9]+\?", request.messages[-1].text)[-1]
    return write_plan(Plan((Step(1, asked), Step(0, "Tell.", (0,)))), "rows")


def _chat() -> ChatPlanner:
    return ChatPlanner(ScriptedWorker("boss", _two_steps, latency=0.001, piece=7))


def _call(request: Request) -> str:
    """Call a worker for the question, as a server without a parser of tool calls."""
    asked = re.findall(r"Why is it colour[0-9]+\?", request.messages[-1].text)[-1]
    return f'<tool_call>{{"name": "a", "arguments": {{"request": "{asked}"}}}}</tool_call>'


TOLD = plan_of((0, "find", ()), (1, "tell", (0,)))
ALONE = Card(name="a", description="Answers.")
PLANNERS: dict[str, tuple[Callable[[], Planner], dict[str, Any]]] = {
    "chat": (_chat, {}),
    "turns": (lambda: TurnPlanner(ScriptedWorker("boss", _call, latency=0.001, piece=7)), {"streams": False}),
    "rule": (RulePlanner, {}),
    "fixed": (lambda: FixedPlanner(TOLD), {"heeds_question": False}),
    "cached": (lambda: CachedPlanner(_chat()), {}),
    "direct": (lambda: DirectPlanner(FixedPlanner("x")), {"cards": (ALONE,)}),
}
"""How each planner is made, and what differs in its contract."""


class TestPlanner(PlannerContract):
    @pytest.fixture(params=PLANNERS)
    def planner(self, request: pytest.FixtureRequest) -> Planner:
        make, facts = PLANNERS[request.param]
        vars(self).update(facts)
        return make()


@pytest.mark.anyio
@pytest.mark.parametrize("spelling", ["lists", "json", "rows"])
async def test_a_fixed_plan_is_written_in_the_spelling_asked_for(spelling: Spelling) -> None:
    planner = FixedPlanner(TOLD, spelling=spelling)
    *_, whole = [piece async for piece in planner.plan(PlannerContract().asking("x"))]
    assert (parse_plan(whole.text, workers=2), whole.why) == (TOLD, "the plan is fixed")
