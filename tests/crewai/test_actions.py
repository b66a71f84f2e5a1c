"""Actions in CrewAI: its tools and agents as workers, in its LLM and its manager."""

from typing import Any

import pytest
from contracts.actions_contract import ActionHost, ActionsContract, Refund
from crewai import LLM, Agent, Crew, Process, Task
from crewai.tools import tool
from servers.speaking_llm import SpeakingLLM

from crewai_podium import ConductorLLM, ConductorManager, as_worker
from podium import Conductor
from podium.workers import FREE, Worker


class Model(ActionHost):
    """An LLM."""

    def tool(self, refund: Refund) -> Worker:
        """Return a tool of a function."""
        return as_worker(tool(refund), price=FREE)

    def agent(self, refund: Refund | None, url: str) -> Worker:
        """Return an agent, which would retry."""
        llm = LLM(model="openai/gpt-4o-mini", base_url=url, api_key="k", max_retries=0)
        tools: Any = [] if refund is None else [tool(refund)]
        agent = Agent(role="agent", goal="Refund.", backstory="Of a shop.", llm=llm, tools=tools)
        return as_worker(agent)

    async def ask(self, conductor: Conductor) -> tuple[str, str]:
        """Call it."""
        llm = ConductorLLM(conductor)
        text = await llm.acall("Refund it.")
        return llm.results[-1].status, text


class TestActions(ActionsContract):
    """The contract."""

    @pytest.fixture
    def host(self) -> ActionHost:
        """The LLM."""
        return Model()
