"""The planner that remembers."""

from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from podium import Card, Message
from podium.planners import CachedPlanner, Planner, PlanRequest, PlanText, Turn
from podium.types.messages import read_query
from podium.usage import Usage
from podium.workers import Kind, MeasuredRate

pytestmark = pytest.mark.anyio

ROW = '{"worker": 0, "subtask": "x", "access": []}\n'
CARDS = (Card(name="a", description="one"), Card(name="b"))
REQUEST = PlanRequest(query=read_query("why?"), cards=CARDS, max_steps=3)

SUMS, DAY = Kind("sums", ("2 + 2?",)), date(2026, 11, 22)
RATE = MeasuredRate(kind=SUMS, rate=0.5, low=0.1, high=0.9, right=1, answers=2, measured_on=DAY)


class Counting(Planner):
    """Writes what it is given, and counts how often it was asked."""

    name = "counting"

    def __init__(self, *texts: PlanText) -> None:
        self._texts = texts or (PlanText(text=ROW, usage=Usage(5, 5), cost=0.25, why="thought"),)
        self.asked = 0

    async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        text = self._texts[min(self.asked, len(self._texts) - 1)]
        self.asked += 1
        yield text.text
        yield text


async def plan(planner: Planner, request: PlanRequest = REQUEST) -> PlanText:
    """Return the whole text `planner` writes; its pieces make it up."""
    *pieces, whole = [piece async for piece in planner.plan(request)]
    assert "".join(str(piece) for piece in pieces) == (whole.text if request.stream else "")
    return whole


async def test_the_same_request_is_planned_once() -> None:
    behind = Counting()
    planner = CachedPlanner(behind)
    assert (planner.name, (await plan(planner)).cost) == ("cached counting", 0.25)
    hit = await plan(planner)
    assert hit == PlanText(text=ROW, why="the plan was cached for the same question and pool", cost=0.0)
    assert behind.asked == 1


async def test_another_request_is_planned_anew() -> None:
    behind = Counting()
    planner = CachedPlanner(behind)
    await plan(planner)
    first, second = REQUEST.cards
    changes: list[dict[str, Any]] = [
        {"query": (Message("user", "before"), Message("assistant", "x"), *read_query("why?"))},
        {"query": (Message("user", ({"type": "text", "text": "why?"},)),)},
        {"cards": (second, first)},
        {"cards": (replace(first, description="two"), second)},
        {"cards": (replace(first, measured=(RATE,)), second)},
        {"max_steps": 4},
        {"turns": (Turn("x", "y"),)},
        {"may_keep": True},
        {"shows_question": False},
    ]
    for change in changes:
        await plan(planner, replace(REQUEST, **change))
    assert behind.asked == 1 + len(changes)


@pytest.mark.parametrize(
    "bad",
    [PlanText(text="Sorry, I cannot."), PlanText(text=ROW * 4), PlanText(text=ROW, finish_reason="length")],
    ids=range(3),
)
async def test_a_text_without_a_plan_is_not_remembered(bad: PlanText) -> None:
    planner = CachedPlanner(Counting(bad, PlanText(text=ROW, why="second")))
    assert (await plan(planner), (await plan(planner)).why) == (bad, "second")


async def test_the_text_unused_for_longest_is_forgotten() -> None:
    behind = Counting()
    planner = CachedPlanner(behind, size=2)
    first, second, third = (replace(REQUEST, query=read_query(question)) for question in "abc")
    for request in (first, second, first, third, first):
        await plan(planner, request)
    assert behind.asked == 3
    await plan(planner, second)
    assert behind.asked == 4
