"""Runs of CrewAI's LLM that wait for a decision."""

import pytest
from contracts.waiting_contract import QUESTION, check_waiting

from crewai_podium import ConductorLLM
from podium import Conductor

pytestmark = pytest.mark.anyio


async def test_a_plan_may_wait_and_go_on_later() -> None:
    """The LLM cannot wait: its error has the run, which the conductor decides and goes on with."""

    async def ask(conductor: Conductor) -> object:
        return await ConductorLLM(conductor).acall(QUESTION)

    await check_waiting(ask)
