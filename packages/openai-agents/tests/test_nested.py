"""Conductors behind agents of the SDK, as workers of another conductor."""

from typing import Any

import pytest
from agents import Agent
from agents_speaking import READ, WRITTEN, SpeakingModel
from contracts.adapter_contract import planner_of, saying

from openai_agents_podium import ConductorModel
from openai_agents_podium.workers import as_worker
from podium import Conductor, Limits
from podium.execution import Retry

pytestmark = pytest.mark.anyio

TWICE = planner_of((0, "Do it.", ()), (0, "Do it again.", (0,)))
ONE = planner_of((0, "Have it done.", ()))


def manager(model: ConductorModel, **options: Any) -> Agent[Any]:
    return Agent[Any](name="manager", instructions="Manage well.", model=model, **options)


async def test_its_calls_are_booked_in_the_outer_ledger_once() -> None:
    inner = SpeakingModel(saying("done"))
    agent = manager(ConductorModel(workers=[Agent[Any](name="hand", model=inner)], planner=TWICE))
    result = await Conductor(ONE, [as_worker(agent)]).run("?", on_event=lambda event: None)
    assert (result.answer, result.status) == ("done", "ok")
    assert (result.usage.total_tokens, len(inner.asked)) == (2 * (READ + WRITTEN), 2)


async def test_the_limits_of_the_outer_run_hold_inside() -> None:
    inner = SpeakingModel(saying("done"))
    agent = manager(ConductorModel(workers=[Agent[Any](name="hand", model=inner)], planner=TWICE))
    outer = Conductor(ONE, [as_worker(agent)], limits=Limits(calls=1), retry=Retry(attempts=1))
    result = await outer.run("?")
    assert result.status == "failed"
    assert len(inner.asked) <= 1
