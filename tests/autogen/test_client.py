"""A conductor as a model client of AutoGen's, in agents that know nothing of it."""

import json
from typing import Any

import pytest
from autogen.scripts import is_planning, model, team
from autogen.speaking import ModelServer, Speaker
from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import (
    LLMMessage,
    RequestUsage,
    UserMessage,
)
from autogen_core.tools import FunctionTool
from contracts.adapter_contract import planner_of, saying
from servers.chat_server import USAGE, Call, Reply, says

from autogen_podium import ConductorChatCompletionClient, as_worker
from podium import ScriptedWorker
from podium.errors import ConfigError

pytestmark = pytest.mark.anyio
ASKED: list[LLMMessage] = [UserMessage(content="How large?", source="user")]
READ, WRITTEN = USAGE["prompt_tokens"], USAGE["completion_tokens"]
PLAN = (
    '{"worker": "search", "subtask": "Look it up.", "access": []}\n'
    '{"worker": "model", "subtask": "Say it.", "access": [0]}\n'
)


def alone(call: Call) -> Reply:
    if is_planning(call):
        return says(call, '{"worker": 0, "subtask": "Answer it.", "access": []}\n')
    return says(call, "12 square metres.")


def calling(call: Call, *rounds: str) -> Reply:
    """Plan; answer the last step with a call of each tool in turn, then with what they returned."""
    if is_planning(call):
        return says(call, PLAN)
    returned = [m["content"] for m in call.body["messages"] if m["role"] == "tool"]
    if "tools" in call.body and len(returned) < len(rounds):
        function = {"name": rounds[len(returned)], "arguments": '{"city": "Bern"}'}
        asked = {"id": f"call-{len(returned)}", "type": "function", "function": function}
        return says(call, "", finish_reason="tool_calls", tool_calls=[asked])
    return says(call, f"It is {' and '.join(returned)}.")


def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"warm in {city}"


def time(city: str) -> str:
    """Tell the time in a city."""
    return f"noon in {city}"


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
        planned = [call for call in server.calls if is_planning(call)]
        made = len(server.calls)
    assert result.messages[-1].to_text() == "It is warm in Bern and noon in Bern."
    assert (len(planned), made) == (1, 4)
    spent = [m.models_usage for m in result.messages if m.models_usage is not None]
    # The planner's and three calls of the last step, and what the search estimates of itself, once.
    assert sum(u.completion_tokens for u in spent) == 4 * WRITTEN + 2


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("none", "none"),
        (FunctionTool(weather, description="Tell."), "required"),
    ],
)
async def test_a_choice_of_tools_reaches_the_last_step(choice: Any, sent: str | None) -> None:
    async with ModelServer(lambda call: calling(call, "weather")) as server:
        conductor = ConductorChatCompletionClient(workers=pool(server), planner=server.client())
        tools = [FunctionTool(function, description="Tell.") for function in (weather, time)]
        result = await conductor.create(ASKED, tools=tools, tool_choice=choice)
        body = server.calls[-1].body
    assert result.finish_reason == "function_calls"
    assert isinstance(result.content, list)
    assert (result.content[0].name, json.loads(result.content[0].arguments)) == ("weather", {"city": "Bern"})
    assert body.get("tool_choice") in (sent, sent or "auto")
    names = [tool["function"]["name"] for tool in body["tools"]]
    assert names == (["weather"] if isinstance(choice, FunctionTool) else ["weather", "time"])


async def test_tools_need_somebody_who_takes_them() -> None:
    conductor = ConductorChatCompletionClient(
        workers=[Speaker("one", saying("hi"))], planner=planner_of((0, "x", ()))
    )
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
