"""Every planner keeps the contract of planners."""

import re

import pytest
from contracts.planner_contract import PlannerContract
from core.actors import plan_of

from podium.plan_text import Spelling, parse_plan, write_plan
from podium.planners import (
    CachedPlanner,
    ChatPlanner,
    DirectPlanner,
    FixedPlanner,
    Planner,
    PlanText,
    RulePlanner,
    TurnPlanner,
)
from podium.types import Plan, Step
from podium.workers import Card, Request, ScriptedWorker


def _two_steps(request: Request) -> str:
    """Plan the question that stands last in the prompt."""
    asked = re.findall(r"Why is it colour[0-9]+\?", request.messages[-1].text)[-1]
    return write_plan(Plan((Step(1, asked), Step(0, "Tell.", (0,)))), "rows")


def _chat() -> ChatPlanner:
    return ChatPlanner(ScriptedWorker("boss", _two_steps, latency=0.001, piece=7))


class TestChatPlanner(PlannerContract):
    @pytest.fixture
    def planner(self) -> Planner:
        return _chat()


def _call(request: Request) -> str:
    """Call a worker for the question, as a server without a parser of tool calls."""
    asked = re.findall(r"Why is it colour[0-9]+\?", request.messages[-1].text)[-1]
    return f'<tool_call>{{"name": "a", "arguments": {{"request": "{asked}"}}}}</tool_call>'


class TestTurnPlanner(PlannerContract):
    streams = False

    @pytest.fixture
    def planner(self) -> Planner:
        return TurnPlanner(ScriptedWorker("boss", _call, latency=0.001, piece=7))


class TestRulePlanner(PlannerContract):
    @pytest.fixture
    def planner(self) -> Planner:
        return RulePlanner()


class TestFixedPlanner(PlannerContract):
    heeds_question = False

    @pytest.fixture
    def planner(self) -> Planner:
        return FixedPlanner(plan_of((0, "find", ()), (1, "tell", (0,))))


class TestCachedPlanner(PlannerContract):
    @pytest.fixture
    def planner(self) -> Planner:
        return CachedPlanner(_chat())


class TestDirectPlanner(PlannerContract):
    cards = (Card(name="a", description="Answers."),)

    @pytest.fixture
    def planner(self) -> Planner:
        return DirectPlanner(FixedPlanner("not asked"))


@pytest.mark.anyio
@pytest.mark.parametrize("spelling", ["lists", "json", "rows"])
async def test_a_fixed_plan_is_written_in_the_spelling_asked_for(spelling: Spelling) -> None:
    plan = plan_of((0, "find", ()), (1, "tell", (0,)))
    planner = FixedPlanner(plan, spelling=spelling)
    *_, whole = [piece async for piece in planner.plan(PlannerContract().asking("x"))]
    assert isinstance(whole, PlanText)
    assert (parse_plan(whole.text, workers=2), whole.why) == (plan, "the plan is fixed")
