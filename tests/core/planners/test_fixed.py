"""The planner that always writes the same plan."""

import pytest

from podium.plan_text import Spelling, parse_plan
from podium.planners import FixedPlanner, PlanRequest, PlanText
from podium.types import Plan, Step
from podium.types.messages import read_query
from podium.workers import Card

pytestmark = pytest.mark.anyio

PLAN = Plan((Step(0, "first"), Step(1, "second", (0,))))


def asked(question: str, *, stream: bool = True) -> PlanRequest:
    """Return a request to plan `question`."""
    return PlanRequest(
        query=read_query(question), cards=(Card(name="a"), Card(name="b")), max_steps=5, stream=stream
    )


@pytest.mark.parametrize("spelling", ["lists", "json", "rows"])
async def test_a_plan_is_written_in_the_spelling_asked_for(spelling: Spelling) -> None:
    """What is asked does not matter: the text holds the plan."""
    for question in ("x", "y"):
        *_, whole = [piece async for piece in FixedPlanner(PLAN, spelling=spelling).plan(asked(question))]
        assert isinstance(whole, PlanText)
        assert parse_plan(whole.text, workers=2) == PLAN
        assert whole.why == "the plan is fixed"


@pytest.mark.parametrize(
    "text", ["", "no plan at all", '{"worker": 0, "subtask": "x", "access": []}\n\nprose']
)
async def test_a_text_is_handed_on_as_it_is(text: str) -> None:
    """A text is not read, and its pieces make it whole."""
    *pieces, whole = [piece async for piece in FixedPlanner(text).plan(asked("x"))]
    assert isinstance(whole, PlanText)
    assert whole.text == text == "".join(piece for piece in pieces if isinstance(piece, str))


async def test_nothing_is_streamed_to_nobody() -> None:
    """Where nobody reads along, there is only the whole."""
    assert len([piece async for piece in FixedPlanner(PLAN).plan(asked("x", stream=False))]) == 1
