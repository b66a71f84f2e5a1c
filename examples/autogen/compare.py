"""The same four agents on the same job: under a conductor, a selector, and Magentic-One.

Counts the calls of the model and its tokens, and takes the time. Run it with any
OpenAI-compatible server:

    python compare.py http://127.0.0.1:8000/v1 my-model
"""

import argparse
import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import Team
from autogen_agentchat.conditions import MaxMessageTermination, TextMentionTermination
from autogen_agentchat.teams import MagenticOneGroupChat, SelectorGroupChat
from autogen_core import EVENT_LOGGER_NAME
from autogen_core.logging import LLMCallEvent, LLMStreamEndEvent
from autogen_core.models import ChatCompletionClient
from autogen_ext.models.openai import OpenAIChatCompletionClient

from autogen_podium import ConductorTeam

JOB = (
    "Compare two heat pumps for a house of 140 square metres: what each costs over ten years, "
    "what speaks against each, and which to buy."
)
AGENTS = {
    "first": "Knows the first heat pump: price, consumption, service.",
    "second": "Knows the second heat pump: price, consumption, service.",
    "critic": "Finds what speaks against things, out of what is known of them.",
    "writer": "Writes the recommendation out of all that was found. Ends it with the word TERMINATE.",
}


@dataclass
class Took:
    """What a team took for the job."""

    team: str
    calls: int
    read: int
    written: int
    seconds: float


def agents(client: ChatCompletionClient) -> list[AssistantAgent]:
    """Return the agents, which are the same for every team."""
    return [
        AssistantAgent(name, client, description=told, system_message=f"You are the {name}. {told}")
        for name, told in AGENTS.items()
    ]


def conducted(client: ChatCompletionClient) -> Team:
    """Return a team that plans once."""
    return ConductorTeam(workers=agents(client), planner=client)


def selected(client: ChatCompletionClient) -> Team:
    """Return a team whose model chooses who speaks next, every time."""
    stop = TextMentionTermination("TERMINATE", sources=["writer"]) | MaxMessageTermination(20)
    return SelectorGroupChat(list(agents(client)), client, termination_condition=stop)


def magentic(client: ChatCompletionClient) -> Team:
    """Return a team whose model keeps a ledger of facts, plan and progress."""
    return MagenticOneGroupChat(list(agents(client)), client, max_turns=20)


class Calls(logging.Handler):
    """Counts what AutoGen logs of its model clients."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Take what was logged."""
        self.number += isinstance(record.msg, LLMCallEvent | LLMStreamEndEvent)


async def take(make: Callable[[ChatCompletionClient], Team], client: ChatCompletionClient) -> Took:
    """Have a team do the job."""
    events, calls = logging.getLogger(EVENT_LOGGER_NAME), Calls()
    events.addHandler(calls)
    events.setLevel(logging.INFO)
    before, began = client.actual_usage(), perf_counter()
    try:
        await make(client).run(task=JOB)
    finally:
        events.removeHandler(calls)
    after = client.actual_usage()
    read = after.prompt_tokens - before.prompt_tokens
    written = after.completion_tokens - before.completion_tokens
    return Took(make.__name__, calls.number, read, written, perf_counter() - began)


def table(rows: Sequence[Took]) -> str:
    """Return what the teams took as a table."""
    head = f"{'':10}{'calls':>6}{'read':>9}{'written':>9}{'seconds':>9}"
    return "\n".join(
        [head, *(f"{r.team:10}{r.calls:6}{r.read:9}{r.written:9}{r.seconds:9.2f}" for r in rows)]
    )


async def main() -> None:
    """Have all three do the job, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("model")
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
        max_retries=0,
    )
    print(table([await take(make, client) for make in (conducted, selected, magentic)]))
    await client.close()


if __name__ == "__main__":
    asyncio.run(main())
