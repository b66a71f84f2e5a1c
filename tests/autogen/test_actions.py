"""Actions in AutoGen and Agent Framework: their tools and agents as workers, in each of their faces."""

import json
from typing import Any

import pytest
from agent_framework import Agent, FunctionTool as FrameworkTool, Message
from agent_framework.openai import OpenAIChatCompletionClient as FrameworkClient
from autogen.speaking import client_of
from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import UserMessage
from autogen_core.tools import FunctionTool
from contracts.actions_contract import ActionHost, ActionsContract, Refund
from openai import AsyncOpenAI
from servers.chat_server import MODEL

from autogen_podium import ConductorAgent, ConductorChatCompletionClient, ConductorTeam
from autogen_podium.agent_framework import (
    ConductorAgent as FrameworkConductor,
    ConductorChatClient,
    as_worker as framework_worker,
)
from autogen_podium.workers import as_worker
from podium import Conductor
from podium.workers import FREE, Worker


class Lead(ActionHost):
    """An agent."""

    def tool(self, refund: Refund) -> Worker:
        """Return a function tool."""
        return as_worker(FunctionTool(refund, description="Refunds an order."), price=FREE)

    def agent(self, refund: Refund | None, url: str) -> Worker:
        """Return an assistant."""
        tools: Any = [] if refund is None else [refund]
        return as_worker(AssistantAgent("agent", client_of(url), tools=tools, reflect_on_tool_use=True))

    async def ask(self, conductor: Conductor) -> tuple[str, str]:
        """Run it."""
        last: Any = (await ConductorAgent("lead", conductor).run(task="Refund it.")).messages[-1]
        return last.metadata["podium_status"], last.to_text()


class Team(Lead):
    """A team."""

    async def ask(self, conductor: Conductor) -> tuple[str, str]:
        """Run it."""
        last: Any = (await ConductorTeam(conductor).run(task="Refund it.")).messages[-1]
        return last.metadata["podium_status"], last.to_text()


class Client(Lead):
    """A model client."""

    async def ask(self, conductor: Conductor) -> tuple[str, str]:
        """Send it a message."""
        client = ConductorChatCompletionClient(conductor)
        said = await client.create([UserMessage(content="Refund it.", source="user")])
        return client.results[-1].status, str(said.content)


class FrameworkLead(ActionHost):
    """An agent of Agent Framework, whose tools are no workers of their own."""

    tool = Lead.tool

    def agent(self, refund: Refund | None, url: str) -> Worker:
        """Return an agent."""
        client = FrameworkClient(
            model=MODEL, async_client=AsyncOpenAI(base_url=url, api_key="k", max_retries=0)
        )
        tools = [] if refund is None else [FrameworkTool(name="refund", description="Refunds.", func=refund)]
        return framework_worker(Agent(client, name="agent", tools=tools))

    async def ask(self, conductor: Conductor) -> tuple[str, str]:
        """Run it."""
        response = await FrameworkConductor(conductor).run("Refund it.")
        return response.additional_properties["podium"]["status"], response.text


class FrameworkChat(FrameworkLead):
    """A chat client of Agent Framework."""

    async def ask(self, conductor: Conductor) -> tuple[str, str]:
        """Send it a message."""
        response = await ConductorChatClient(conductor).get_response([Message("user", ["Refund it."])])
        return response.additional_properties["podium"]["status"], response.text


class TestActions(ActionsContract):
    """The contract."""

    @pytest.fixture(params=[Lead, Team, Client, FrameworkLead, FrameworkChat])
    def host(self, request: pytest.FixtureRequest) -> ActionHost:
        """Each face."""
        host: ActionHost = request.param()
        return host
