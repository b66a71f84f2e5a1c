"""Actions in the Agents SDK: its tools and agents as workers, below an agent whose model is a conductor."""

from typing import Any

import pytest
from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool
from contracts.actions_contract import ActionHost, ActionsContract, Refund
from openai import AsyncOpenAI
from servers.chat_server import MODEL

from openai_agents_podium import ConductorModel, podium_metadata
from openai_agents_podium.workers import as_worker
from podium import Conductor
from podium.workers import FREE, Worker


class Lead(ActionHost):
    """An agent whose model is the conductor."""

    def tool(self, refund: Refund) -> Worker:
        """Return a function tool."""
        return as_worker(function_tool(refund), price=FREE)

    def agent(self, refund: Refund | None, url: str) -> Worker:
        """Return an agent."""
        model = OpenAIChatCompletionsModel(MODEL, AsyncOpenAI(base_url=url, api_key="k", max_retries=0))
        tools: Any = [] if refund is None else [function_tool(refund)]
        return as_worker(Agent[Any](name="agent", model=model, tools=tools))

    async def ask(self, conductor: Conductor) -> tuple[str, str]:
        """Run it."""
        result = await Runner.run(Agent[Any](name="lead", model=ConductorModel(conductor)), "Refund it.")
        return podium_metadata(result)["status"], result.final_output


class TestActions(ActionsContract):
    """The contract."""

    @pytest.fixture
    def host(self) -> ActionHost:
        """The face."""
        return Lead()
