"""The same four agents on the same job: under a conductor, as tools of an orchestrator, and by handoffs.

Counts the calls of the model and its tokens, and takes the time. Run it with any
OpenAI-compatible server:

    python compare.py http://127.0.0.1:8000/v1 my-model
"""

import argparse
import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from agents import Agent, ModelResponse, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from agents.extensions.handoff_prompt import prompt_with_handoff_instructions
from agents.items import TResponseStreamEvent
from openai import AsyncOpenAI

from openai_agents_podium import ConductorModel

JOB = (
    "Compare two heat pumps for a house of 140 square metres: what each costs over ten years, "
    "what speaks against each, and which to buy."
)
AGENTS = {
    "first": "Knows the first heat pump: price, consumption, service.",
    "second": "Knows the second heat pump: price, consumption, service.",
    "critic": "Finds what speaks against things, out of what is known of them.",
    "writer": "Writes the recommendation out of all that was found.",
}


@dataclass
class Took:
    """What a team took for the job."""

    team: str
    calls: int = 0
    read: int = 0
    written: int = 0
    seconds: float = 0.0


class Counted(OpenAIChatCompletionsModel):
    """Counts what its calls take."""

    def __init__(self, model: str, client: AsyncOpenAI, took: Took) -> None:
        super().__init__(model, client)
        self._took = took

    async def get_response(self, *asked: Any, **options: Any) -> ModelResponse:
        """Answer, and count the call."""
        response = await super().get_response(*asked, **options)
        self._count(response.usage)
        return response

    async def stream_response(self, *asked: Any, **options: Any) -> AsyncIterator[TResponseStreamEvent]:
        """Answer as a stream, as planners ask, and count the call."""
        async for event in super().stream_response(*asked, **options):
            if event.type == "response.completed":
                self._count(event.response.usage)
            yield event

    def _count(self, usage: Any) -> None:
        self._took.calls += 1
        self._took.read += usage.input_tokens
        self._took.written += usage.output_tokens


def agents(model: Counted) -> list[Agent[Any]]:
    """Return the agents, which are the same for every team."""
    return [
        Agent(name=name, handoff_description=told, instructions=f"You are the {name}. {told}", model=model)
        for name, told in AGENTS.items()
    ]


def conducted(model: Counted) -> Agent[Any]:
    """Return an agent that plans once."""
    return Agent(name="conducted", model=ConductorModel(workers=agents(model), planner=model))


def orchestrated(model: Counted) -> Agent[Any]:
    """Return an agent whose model calls the others as tools."""
    tools: list[Any] = [each.as_tool(each.name, each.handoff_description) for each in agents(model)]
    told = "You are the orchestrator. Have each specialist do its part, and return the recommendation."
    return Agent(name="orchestrated", instructions=told, model=model, tools=tools)


def handed(model: Counted) -> Agent[Any]:
    """Return the first of agents that hand off to each other, until the writer answers."""
    team = agents(model)
    for agent in team:
        told = f"{agent.instructions} Do your part, then hand off, unless you are the writer."
        agent.instructions = prompt_with_handoff_instructions(told)
        agent.handoffs = [other for other in team if other is not agent and agent.name != "writer"]
    return team[0]


async def take(make: Callable[[Counted], Agent[Any]], client: AsyncOpenAI, model: str) -> Took:
    """Have a team do the job."""
    took = Took(make.__name__)
    agent, began = make(Counted(model, client, took)), perf_counter()
    await Runner.run(agent, JOB, max_turns=20)
    took.seconds = perf_counter() - began
    return took


def table(rows: Sequence[Took]) -> str:
    """Return what the teams took as a table."""
    head = f"{'':13}{'calls':>6}{'read':>9}{'written':>9}{'seconds':>9}"
    return "\n".join(
        [head, *(f"{r.team:13}{r.calls:6}{r.read:9}{r.written:9}{r.seconds:9.2f}" for r in rows)]
    )


async def main() -> None:
    """Have all three do the job, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("model")
    args = parser.parse_args()
    set_tracing_disabled(True)
    key = os.environ.get("LLM_KEY", "none")
    async with AsyncOpenAI(base_url=args.url, api_key=key, max_retries=0) as client:
        print(table([await take(make, client, args.model) for make in (conducted, orchestrated, handed)]))


if __name__ == "__main__":
    asyncio.run(main())
