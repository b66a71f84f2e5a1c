"""AutoGen's and Agent Framework's faces in many event loops and threads, with OpenAI's own clients."""

from collections.abc import Callable

import pytest
from agent_framework import Agent
from autogen.speaking import SpeakingClient, client_of
from autogen_core.models import UserMessage
from contracts.loops_contract import ASYNC_MODES, RUNS, Face, Mode, check_loops
from openai import AsyncOpenAI
from servers.chat_server import MODEL

from autogen_podium import ConductorChatCompletionClient
from autogen_podium.agent_framework import ConductorAgent
from podium.execution import Retry


def client(url: str) -> Face:
    asked = ConductorChatCompletionClient(
        workers=[client_of(url)], planner=client_of(url), retry=Retry(attempts=1), partial="raise"
    )

    async def ask() -> str:
        return str((await asked.create([UserMessage(content="Why?", source="user")])).content)

    return Face(ask)


def framework_agent(url: str) -> Face:
    """Return a conductor as an agent of Agent Framework's, over a chat client that OpenAI's SDK is behind."""
    sdk = AsyncOpenAI(base_url=url, api_key="sk-loopback-key", max_retries=0)

    async def speak(shown: str) -> str:
        answer = await sdk.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": shown}])
        return answer.choices[0].message.content or ""

    chat = SpeakingClient(speak)
    worker = Agent(chat, "You help.", name="worker")
    asked = ConductorAgent(workers=[worker], planner=chat, name="lead", retry=Retry(attempts=1))

    async def ask() -> str:
        return str((await asked.run("Why?")).text)

    return Face(ask)


@pytest.mark.long
@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("mode", ASYNC_MODES.values(), ids=ASYNC_MODES)
@pytest.mark.parametrize("make", [client, framework_agent])
def test_no_call_is_lost_whatever_loop_it_is_made_in(
    make: Callable[[str], Face], mode: Mode, runs: int
) -> None:
    """Every answer is whole, and the server got each call once."""
    check_loops(make, mode, runs)
