"""A conductor as a model client of AutoGen's, in agents that know nothing of it."""

import json
from typing import Any

import pytest
from autogen.scripts import is_planning, model, shown, team
from autogen.speaking import ModelServer, Speaker
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import ModelClientStreamingChunkEvent, StructuredMessage
from autogen_core import FunctionCall
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    RequestUsage,
    SystemMessage,
    UserMessage,
)
from autogen_core.tools import FunctionTool
from contracts.adapter_contract import planner_of, saying
from pydantic import BaseModel
from servers.chat_server import USAGE, Call, Reply, says

from autogen_podium import ConductorChatCompletionClient, as_worker
from podium import Card, ScriptedWorker
from podium.errors import ConfigError
from podium.planners import FixedPlanner

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


@pytest.mark.parametrize(
    "asked",
    [
        [SystemMessage(content="Say how large the room is.")],
        [*ASKED, SystemMessage(content="The room is square.")],
        [*ASKED, AssistantMessage(content="Large.", source="solo")],
    ],
)
async def test_a_conversation_may_end_in_any_message(asked: list[LLMMessage]) -> None:
    """As it does with the memory of an agent, a society of minds, and an agent that goes on."""
    worker = ScriptedWorker("a", "12 m")
    client = ConductorChatCompletionClient(workers=[worker], planner=planner_of((0, "Answer it.", ())))
    assert (await client.create(asked)).content == "12 m"
    told = "\n".join(message.text for message in worker.requests[0].messages)
    assert all(str(message.content) in told for message in asked)


async def test_an_agents_tools_are_called_by_the_agent() -> None:
    """Twice in turn; nothing that was paid for is asked for again."""
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


async def test_a_call_of_a_tool_may_have_a_text() -> None:
    """The text is the thought of the result."""

    def adding(call: Call) -> Reply:
        if is_planning(call) or call.body["messages"][-1]["role"] == "tool":
            return alone(call)
        asked = {"id": "1", "type": "function"}
        function = {"name": "weather", "arguments": '{"city": "Bern"}'}
        return says(
            call, "Let me look.", finish_reason="tool_calls", tool_calls=[asked | {"function": function}]
        )

    async with ModelServer(adding) as server:
        conductor = ConductorChatCompletionClient(workers=[server.client()], planner=server.client())
        agent = AssistantAgent(
            "solo", conductor, tools=[weather], model_client_stream=True, reflect_on_tool_use=True
        )
        result = await agent.run(task="Is it warm in Bern?")
    told = [message for message in result.messages if not isinstance(message, ModelClientStreamingChunkEvent)]
    assert [type(message).__name__ for message in told[1:4]] == [
        "ThoughtEvent",
        "ToolCallRequestEvent",
        "ToolCallExecutionEvent",
    ]
    assert [told[1].to_text(), told[-1].to_text()] == ["Let me look.", "12 square metres."]


async def test_another_client_plans_anew() -> None:
    """What tools returned reaches the last step only."""
    turns: list[LLMMessage] = [
        *ASKED,
        AssistantMessage(content=[FunctionCall(id="call-0", name="weather", arguments="{}")], source="solo"),
        FunctionExecutionResultMessage(
            content=[FunctionExecutionResult(content="warm", name="weather", call_id="call-0")]
        ),
    ]
    async with ModelServer(lambda call: calling(call, "weather")) as server:
        conductor = ConductorChatCompletionClient(workers=pool(server), planner=server.client())
        tool = FunctionTool(weather, description="Tell the weather.")
        result = await conductor.create(turns, tools=[tool])
        assert "warm" not in shown(server.calls[0])
    assert result.content == "It is warm."


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", None),
        ("required", "required"),
        ("none", "none"),
        (FunctionTool(weather, description="Tell."), "required"),
    ],
)
async def test_a_choice_of_tools_reaches_the_last_step(choice: Any, sent: str | None) -> None:
    """In the client's own words; one tool alone is offered alone."""
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
    """Else it says so, before anything is paid for."""
    conductor = ConductorChatCompletionClient(
        workers=[Speaker("one", saying("hi"))], planner=planner_of((0, "x", ()))
    )
    assert conductor.model_info["function_calling"] is False
    with pytest.raises(ValueError, match="not support function calling"):
        await conductor.create(ASKED, tools=[FunctionTool(weather, description="Tell.")])
    with pytest.raises(ValueError, match="function calling"):
        AssistantAgent("solo", conductor, tools=[weather])


class Size(BaseModel):
    """What is asked for."""

    metres: int


async def test_a_form_reaches_the_last_step() -> None:
    """As the server takes it; an agent reads the answer."""

    def formed(call: Call) -> Reply:
        if is_planning(call):
            return says(call, '{"worker": 0, "subtask": "Say it.", "access": []}\n')
        return says(call, '{"metres": 3}' if "response_format" in call.body else "three")

    async with ModelServer(formed) as server:
        conductor = ConductorChatCompletionClient(workers=[server.client()], planner=server.client())
        assert conductor.model_info["structured_output"] is True
        agent = AssistantAgent("solo", conductor, output_content_type=Size)
        result = await agent.run(task="How large?")
        sent = server.calls[-1].body["response_format"]["json_schema"]["schema"]
    last = result.messages[-1]
    assert isinstance(last, StructuredMessage)
    assert last.content == Size(metres=3)
    assert sent["properties"].keys() == {"metres"}


async def test_extra_arguments_reach_the_last_step() -> None:
    """Those a conductor takes; others are refused."""
    async with ModelServer(alone) as server:
        conductor = ConductorChatCompletionClient(workers=[server.client()], planner=server.client())
        await conductor.create(ASKED, extra_create_args={"temperature": 0.5, "stop": "END"})
        bodies = [call.body for call in server.calls]
        with pytest.raises(ConfigError, match="n must be 1"):
            await conductor.create(ASKED, extra_create_args={"n": 2})
    assert [(body.get("temperature"), body.get("stop")) for body in bodies][-1] == (0.5, ["END"])
    assert "temperature" not in bodies[0]


async def test_tokens_are_counted_and_left() -> None:
    """By the text; the window is the least that a card states."""
    small = ScriptedWorker(Card(name="small", context_window=500), "x")
    large = ScriptedWorker(Card(name="large", context_window=9000), "x")
    conductor = ConductorChatCompletionClient(workers=[small, large], planner=planner_of((0, "x", ())))
    asked: list[LLMMessage] = [SystemMessage(content="a" * 40), UserMessage(content="b" * 40, source="user")]
    assert conductor.count_tokens(asked) == 20
    assert conductor.remaining_tokens(asked) == 480
    tool = FunctionTool(weather, description="Tell.")
    assert conductor.count_tokens(asked, tools=[tool]) > 20
    plain = ConductorChatCompletionClient(
        workers=[ScriptedWorker("x", "x")], planner=planner_of((0, "x", ()))
    )
    with pytest.raises(ConfigError, match="context_window="):
        plain.remaining_tokens(asked)


async def test_a_client_is_the_fallback_planner() -> None:
    """As it may be the planner; what plans nothing is refused."""
    async with ModelServer(alone) as server:
        pool = [server.client()]
        conductor = ConductorChatCompletionClient(
            workers=pool, planner=FixedPlanner("no plan"), fallback_planner=server.client()
        )
        await conductor.create(ASKED)
    planner = conductor.results[-1].planner
    assert planner is not None
    assert planner.is_fallback
    with pytest.raises(ConfigError, match="fallback_planner: 7 "):
        ConductorChatCompletionClient(workers=pool, planner=FixedPlanner("no plan"), fallback_planner=7)


async def test_system_messages_are_merged_for_a_model_that_takes_one() -> None:
    """The conductor itself takes several."""
    asked = [SystemMessage(content="Be kind."), *ASKED, SystemMessage(content="Be brief.")]
    async with ModelServer(alone) as server:
        client = server.client()
        client._model_info = {**client.model_info, "multiple_system_messages": False}
        conductor = ConductorChatCompletionClient(workers=[client], planner=planner_of((0, "x", ())))
        await conductor.create(asked)
        sent = [m["role"] for m in server.calls[0].body["messages"]]
    assert conductor.model_info.get("multiple_system_messages") is True
    assert sent.count("system") == 1
