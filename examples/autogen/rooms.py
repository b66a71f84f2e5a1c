"""A team of AutoGen's under a conductor: two look things up side by side, a third writes.

Run it with any OpenAI-compatible server:

    python rooms.py http://127.0.0.1:8000/v1 my-model "How large is the room, and what does a carpet cost?"
"""

import argparse
import asyncio
import os

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import TimeoutTermination
from autogen_agentchat.ui import Console
from autogen_core.models import ChatCompletionClient
from autogen_ext.models.openai import OpenAIChatCompletionClient

from autogen_podium import ConductorTeam

ROOM = {"width": 3.0, "length": 4.0}
"""In metres."""
PRICES = {"wool": 40.0, "sisal": 25.0}
"""Of carpet, in euros per square metre."""


def measure(side: str) -> str:
    """Measure a side of the room: width or length."""
    return f"The {side} is {ROOM[side]} m."


def price(carpet: str) -> str:
    """Look up what a carpet costs: wool or sisal."""
    return f"{carpet} costs {PRICES[carpet]} euros per square metre."


def team(client: ChatCompletionClient) -> ConductorTeam:
    """Return the team: its agents keep their tools, their instructions and their model."""
    surveyor = AssistantAgent(
        "surveyor", client, tools=[measure], reflect_on_tool_use=True, description="Measures the room."
    )
    buyer = AssistantAgent(
        "buyer", client, tools=[price], reflect_on_tool_use=True, description="Knows what carpets cost."
    )
    writer = AssistantAgent("writer", client, description="Writes answers out of what others found.")
    return ConductorTeam(
        workers=[surveyor, buyer, writer],
        planner=client,
        show_steps=True,
        termination_condition=TimeoutTermination(120),
    )


async def main() -> None:
    """Ask, and show who says what."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("model")
    parser.add_argument("question")
    args = parser.parse_args()
    client = OpenAIChatCompletionClient(
        model=args.model,
        base_url=args.url,
        api_key=os.environ.get("LLM_KEY", "none"),
        model_info={
            "vision": False,
            "function_calling": True,
            "json_output": True,
            "structured_output": True,
            "family": "unknown",
        },
        max_retries=0,  # Podium retries, in one place
    )
    result = await Console(team(client).run_stream(task=args.question))
    print(f"\nstopped: {result.stop_reason}")
    await client.close()


if __name__ == "__main__":
    asyncio.run(main())
