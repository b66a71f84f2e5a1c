"""Runs of CrewAI's LLM that wait for a decision."""

import pytest
from contracts.waiting_contract import QUESTION, check_waiting
from crewai import Agent, Crew, Task

from crewai_podium import ConductorLLM
from podium import Conductor

pytestmark = pytest.mark.anyio


async def test_a_plan_may_wait_and_go_on_later() -> None:
    """The LLM cannot wait: its error has the run, which the conductor decides and goes on with."""

    async def ask(conductor: Conductor) -> object:
        return await ConductorLLM(conductor).acall(QUESTION)

    await check_waiting(ask)


async def test_an_agent_does_not_ask_again() -> None:
    """CrewAI's agents do a task again after most errors of their LLM: each time, another run would wait."""

    async def ask(conductor: Conductor) -> object:
        guide = Agent(role="guide", goal="Answer.", backstory="Old.", llm=ConductorLLM(conductor))
        task = Task(description=QUESTION, expected_output="an answer", agent=guide)
        return (await Crew(agents=[guide], tasks=[task]).akickoff()).raw

    await check_waiting(ask)
