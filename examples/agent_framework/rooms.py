"""Agents of Agent Framework's under a conductor: two look things up side by side, a third writes.

Needs `agent-framework-openai`. Run it with any OpenAI-compatible server:

    python rooms.py http://127.0.0.1:8000/v1 my-model "How large is the room, and what does a carpet cost?"
"""

import argparse
import asyncio
import os

from agent_framework import Agent, tool
from agent_framework.openai import OpenAIChatCompletionClient
from openai import AsyncOpenAI

from autogen_podium.agent_framework import ConductorAgent
from podium import ChatPlanner, ChatWorker, Endpoint, Limits

ROOM = {"width": 3.0, "length": 4.0}
"""In metres."""
PRICES = {"wool": 40.0, "sisal": 25.0}
"""Of carpet, in euros per square metre."""


@tool
def measure(side: str) -> str:
    """Measure a side of the room: width or length."""
    return f"The {side} is {ROOM[side]} m."


@tool
def price(carpet: str) -> str:
    """Look up what a carpet costs: wool or sisal."""
    return f"{carpet} costs {PRICES[carpet]} euros per square metre."


def team(client: OpenAIChatCompletionClient) -> list[Agent]:
    """Return the agents, which keep their tools, their instructions and their model."""
    return [
        Agent(client, name="surveyor", description="Measures the room.", tools=[measure]),
        Agent(client, name="buyer", description="Knows prices of carpets.", tools=[price]),
        Agent(client, "Answer in one sentence.", name="writer", description="Writes the answer."),
    ]


async def main() -> None:
    """Ask the team."""
    parser = argparse.ArgumentParser(description="Agents of Agent Framework's under a conductor.")
    parser.add_argument("url", help="the base URL of an OpenAI-compatible server, with its /v1")
    parser.add_argument("model", help="the model that the server serves")
    parser.add_argument("question")
    given = parser.parse_args()
    key = os.environ.get("LLM_KEY", "none")
    sdk = AsyncOpenAI(base_url=given.url, api_key=key, max_retries=0)  # Podium retries, in one place
    client = OpenAIChatCompletionClient(model=given.model, async_client=sdk)
    planner = ChatPlanner(ChatWorker(given.model, endpoint=Endpoint(given.url, api_key=key)))
    lead = ConductorAgent(
        workers=team(client), planner=planner, name="lead", show_steps=True, limits=Limits(calls=20)
    )
    async with sdk:
        stream = lead.run(given.question, stream=True)
        async for update in stream:
            for content in update.contents:
                if content.type == "text_reasoning":
                    print(f"[{update.author_name}] {content.text}")
        response = await stream.get_final_response()
    print(response.text)
    facts = response.additional_properties["podium"]
    print(f"{facts['status']}, {len(facts['steps'])} steps, {facts['seconds']:.1f} s")


if __name__ == "__main__":
    asyncio.run(main())
