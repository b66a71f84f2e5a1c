"""Tools of a chat model's caller: offered to steps, called, and gone on from."""

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, messages_from_dict, messages_to_dict
from langchain_core.tools import tool
from pydantic import BaseModel
from servers.capable import capable
from servers.chat_server import ChatServer
from servers.openai_models import openai

from langchain_podium.chat_models import ChatPodium
from langchain_podium.workers import as_planner, as_worker
from podium import ChatPlanner, ChatWorker, Conductor, Endpoint
from podium.errors import ConfigError
from podium.policy import Policy

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:create_react_agent has been moved")]


@tool
def weather(city: str) -> str:
    """Say how the weather is in a city."""
    return f"rain in {city}"


WRITER = Policy(tools=["writer"])
"""Lets the worker of the last step call tools, and no other."""


def _podium(url: str, policy: Policy = WRITER, **more: Any) -> Conductor:
    server = Endpoint(url, api_key="key", provider="openai")
    planner = ChatPlanner(ChatWorker("planner", endpoint=server))
    pool = [ChatWorker(name, endpoint=server) for name in ("finder", "writer")]
    return Conductor(planner, pool, policy=policy, **more)


def _langchain(url: str, policy: Policy = WRITER, **more: Any) -> Conductor:
    pool = [as_worker(openai(url, name)) for name in ("finder", "writer")]
    return Conductor(as_planner(openai(url, "planner")), pool, policy=policy, **more)


def asked(server: ChatServer) -> list[str]:
    return [call.body["model"] for call in server.calls]


@pytest.mark.parametrize(("pool", "stream"), [(_podium, False), (_langchain, True)])
async def test_a_call_of_a_tool_and_the_turn_after_it(pool: Any, *, stream: bool) -> None:
    """The plan and the other steps are not paid for again; the last worker sees what the tool returned."""
    with ChatServer(capable).in_thread() as server:
        model = ChatPodium(conductor=pool(server.url)).bind_tools([weather])
        question = HumanMessage("How is the weather in 'Bonn'?")
        called = await _whole(model, [question], stream=stream)
        assert asked(server) == ["planner", "finder", "writer"]
        assert [("tools" in call.body) for call in server.calls] == [False, False, True]
        assert (called.text, called.response_metadata["finish_reason"]) == ("", "tool_calls")
        (call,) = called.tool_calls
        assert (call["name"], call["args"]) == ("weather", {"city": "Bonn"})

        answered = await _whole(model, [question, called, weather.invoke(call)], stream=stream)
        assert asked(server) == ["planner", "finder", "writer", "writer"]
        assert answered.text == "The tools say rain in Bonn."
        *_, asking, result = server.calls[-1].body["messages"]
        assert asking["tool_calls"][0]["function"]["name"] == "weather"
        assert (result["role"], result["content"], result["tool_call_id"]) == (
            "tool",
            "rain in Bonn",
            call["id"],
        )
    told = answered.response_metadata["podium"]
    assert [(step["worker"], step["reused"]) for step in told["steps"]] == [
        ("finder", True),
        ("writer", False),
    ]
    assert told["usage"]["total_tokens"] == 218  # the one call that this turn made


async def _whole(model: Any, messages: list[Any], *, stream: bool) -> AIMessage:
    """Return a message, whole or of its chunks, as a checkpoint would give it back."""
    if not stream:
        message = await model.ainvoke(messages)
    else:
        message = None
        async for chunk in model.astream(messages):
            message = chunk if message is None else message + chunk
    (kept,) = messages_from_dict(json.loads(json.dumps(messages_to_dict([message]))))
    assert isinstance(kept, AIMessage)
    return kept


async def test_tool_choice_by_name() -> None:
    @tool
    def tide(city: str) -> str:
        """Say how high the tide is."""
        return city

    with ChatServer(capable).in_thread() as server:
        model = ChatPodium(conductor=_langchain(server.url)).bind_tools([weather, tide], tool_choice="tide")
        message = await model.ainvoke("Well?")
        assert [call["name"] for call in message.tool_calls] == ["tide"]
    with pytest.raises(ConfigError, match="not an offered tool: the tools are weather"):
        ChatPodium(conductor=_podium("http://127.0.0.1:9/v1")).bind_tools([weather], tool_choice="tide")


class Person(BaseModel):
    """Someone."""

    name: str
    age: int


def test_structured_output_that_cannot_be() -> None:
    model = ChatPodium(conductor=_podium("http://127.0.0.1:9/v1"))
    with pytest.raises(ConfigError, match="method"):
        model.with_structured_output(Person, method="magic")
    with pytest.raises(ConfigError, match="json_mode"):
        model.with_structured_output(Person, method="json_mode", strict=True)
    with pytest.raises(TypeError, match="does not accept tools"):
        model.with_structured_output(Person, tools=[])
