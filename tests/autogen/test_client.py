"""A conductor as a model client of AutoGen's, in agents that know nothing of it."""

import json
from typing import Any

import pytest
from autogen.scripts import alone, calling, is_planning, model, team, time, weather
from autogen.speaking import ModelServer, Speaker
from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import LLMMessage, RequestUsage, UserMessage
from autogen_core.tools import FunctionTool
from contracts.adapter_contract import planner_of, saying
from servers.chat_server import USAGE

from autogen_podium import ConductorChatCompletionClient, as_worker
from podium import ScriptedWorker
from podium.errors import ConfigError

pytestmark = pytest.mark.anyio
ASKED: list[LLMMessage] = [UserMessage(content="How large?", source="user")]
READ, WRITTEN = USAGE["prompt_tokens"], USAGE["completion_tokens"]


def pool(server: ModelServer) -> list[Any]:
    return [ScriptedWorker("search", "found"), as_worker(server.client(), name="model")]


async def test_it_answers_as_a_model() -> None:
    async with ModelServer(model) as server:
        conductor = ConductorChatCompletionClient(workers=team(server), planner=server.client())
        result = await conductor.create(ASKED)
        assert (result.finish_reason, result.content, result.cached) == ("stop", "12 square metres.", False)
        assert result.usage == RequestUsage(4 * READ, 4 * WRITTEN)
        await conductor.create(ASKED)
        assert conductor.actual_usage() == conductor.total_usage() == RequestUsage(8 * READ, 8 * WRITTEN)


async def test_an_agents_tools_are_called_by_the_agent() -> None:
    async with ModelServer(lambda call: calling(call, "weather", "time")) as server:
        conductor = ConductorChatCompletionClient(workers=pool(server), planner=server.client())
        agent = AssistantAgent("solo", conductor, tools=[weather, time], max_tool_iterations=5)
        result = await agent.run(task="Is it warm in Bern?")
    planned = [is_planning(call) for call in server.calls]
    assert result.messages[-1].to_text() == "It is warm in Bern and noon in Bern."
    assert (planned.count(True), len(planned)) == (1, 4)
    spent = [m.models_usage.completion_tokens for m in result.messages if m.models_usage is not None]
    # The planner's and three calls of the last step, and what the search estimates of itself, once.
    assert sum(spent) == 4 * WRITTEN + 2


@pytest.mark.parametrize(
    ("choice", "sent"), [("none", "none"), (FunctionTool(weather, description="Tell."), "required")]
)
async def test_a_choice_of_tools_reaches_the_last_step(choice: Any, sent: str) -> None:
    async with ModelServer(lambda call: calling(call, "weather")) as server:
        conductor = ConductorChatCompletionClient(workers=pool(server), planner=server.client())
        tools = [FunctionTool(function, description="Tell.") for function in (weather, time)]
        result = await conductor.create(ASKED, tools=tools, tool_choice=choice)
        body = server.calls[-1].body
    (called,) = result.content
    assert (result.finish_reason, called.name) == ("function_calls", "weather")
    assert (json.loads(called.arguments), body.get("tool_choice")) == ({"city": "Bern"}, sent)
    names = [tool["function"]["name"] for tool in body["tools"]]
    assert names == (["weather", "time"] if choice == "none" else ["weather"])


async def test_tools_need_somebody_who_takes_them() -> None:
    workers = [Speaker("one", saying("hi"))]
    conductor = ConductorChatCompletionClient(workers=workers, planner=planner_of((0, "x", ())))
    assert conductor.model_info["function_calling"] is False
    with pytest.raises(ValueError, match="not support function calling"):
        await conductor.create(ASKED, tools=[FunctionTool(weather, description="Tell.")])
    with pytest.raises(ValueError, match="function calling"):
        AssistantAgent("solo", conductor, tools=[weather])


async def test_extra_arguments_reach_the_last_step() -> None:
    async with ModelServer(alone) as server:
        conductor = ConductorChatCompletionClient(workers=[server.client()], planner=server.client())
        await conductor.create(ASKED, extra_create_args={"temperature": 0.5, "stop": "END"})
        bodies = [call.body for call in server.calls]
        with pytest.raises(ConfigError, match="n must be 1"):
            await conductor.create(ASKED, extra_create_args={"n": 2})
    assert [(body.get("temperature"), body.get("stop")) for body in bodies][-1] == (0.5, ["END"])
    assert "temperature" not in bodies[0]
