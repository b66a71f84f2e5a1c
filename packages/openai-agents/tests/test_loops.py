"""Each face in many event loops and threads, with OpenAI's own clients."""

from typing import Any

import pytest
from agents import Agent, OpenAIChatCompletionsModel, Runner
from contracts.loops_contract import ASYNC_MODES, Face, Mode, check_loops
from openai import AsyncOpenAI
from servers.chat_server import MODEL

from openai_agents_podium import ConductorModel
from openai_agents_podium.workers import as_worker
from podium.execution import Retry


def face(model: ConductorModel) -> Face:
    """Return an agent over the model."""
    agent = Agent[Any](name="lead", model=model)

    async def ask() -> str:
        return str((await Runner.run(agent, "Why?")).final_output)

    async def stream() -> str:
        streamed = Runner.run_streamed(agent, "Why?")
        async for _ in streamed.stream_events():
            pass
        return str(streamed.final_output)

    asked = [ask, stream]

    async def in_turn() -> str:
        asked.append(asked.pop(0))
        return await asked[0]()

    return Face(in_turn)


def over_models(url: str) -> Face:
    model = OpenAIChatCompletionsModel(MODEL, AsyncOpenAI(base_url=url, api_key="k", max_retries=0))
    return face(
        ConductorModel(workers=[as_worker(model, name="one")], planner=model, retry=Retry(attempts=1))
    )


@pytest.mark.parametrize("mode", ASYNC_MODES.values(), ids=ASYNC_MODES)
def test_no_call_is_lost_whatever_loop_it_is_made_in(mode: Mode) -> None:
    check_loops(over_models, mode, 8)
