"""`Conductor(direct=True)`: what one worker can answer costs no planner call."""

import pytest
from core.actors import boss, rows

from podium.conductor import Conductor
from podium.planners import ChatPlanner
from podium.workers import Card, ScriptedWorker

pytestmark = pytest.mark.anyio


def _conductor(planner: ChatPlanner, *, direct: bool = True) -> Conductor:
    general = Card(name="general", description="A general assistant that answers anything.")
    search = Card(name="search", description="Searches documents about birds.")
    return Conductor(planner, [ScriptedWorker(general, "G"), ScriptedWorker(search, "S")], direct=direct)


def _calls(planner: ChatPlanner) -> int:
    assert isinstance(planner.worker, ScriptedWorker)
    return len(planner.worker.requests)


async def test_a_short_question_asks_no_planner_and_says_why() -> None:
    """One step goes to the worker whose card fits, at no cost, and the proposal tells it."""
    planner = boss(rows((0, "planned", ())))
    result = await _conductor(planner).run("Which birds sing at night?")
    assert _calls(planner) == 0
    assert (result.answer, result.status) == ("S", "ok")
    (proposal,) = result.proposals
    assert (proposal.planner, proposal.cost, proposal.usage.total_tokens) == ("direct boss", 0.0, 0)
    assert (
        proposal.why == "one short question without parts; sent to 'search', whose description fits it best"
    )
    assert proposal.why in result.explain()


async def test_nothing_goes_directly_unless_asked_for() -> None:
    """The default plans every question."""
    planner = boss(rows((0, "planned", ())))
    await _conductor(planner, direct=False).run("Which birds sing at night?")
    assert _calls(planner) == 1
