"""A hosted conductor as a chat model, in both of the APIs it speaks."""

from typing import Any

import pytest
from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from pydantic import BaseModel
from servers.capable import capable
from servers.chat_server import Call, ChatServer, Reply, events, whole

from langchain_podium.chat_models import ChatPodium
from podium import Endpoint, HostedConductor
from podium.errors import ConfigError, RunFailed
from podium.policy import Policy

pytestmark = pytest.mark.anyio

USAGE = {
    "input_tokens": 20,
    "output_tokens": 7,
    "total_tokens": 63,
    "input_tokens_details": {"orchestration_input_tokens": 30},
    "output_tokens_details": {"orchestration_output_tokens": 6},
}


@tool
def weather(city: str) -> str:
    """Say how the weather is in a city."""
    return f"rain in {city}"


class Person(BaseModel):
    """Someone."""

    name: str
    age: int


def hosted(server: ChatServer, api: Any = "chat", **more: Any) -> ChatPodium:
    """Return a chat model over a conductor that `server` hosts."""
    endpoint = Endpoint(server.url, api_key="key", provider="openai")
    return ChatPodium(conductor=HostedConductor("fugu", endpoint=endpoint, api=api), **more)


def responses(call: Call) -> Reply:
    """Answer as Responses does: with a call where tools are offered, until they have returned."""
    returned = [item for item in call.body["input"] if item.get("type") == "function_call_output"]
    if "text" in call.body:
        item = _said('{"name": "Ada", "age": 36}')
    elif call.body.get("tools") and not returned:
        item = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Bonn"}'}
    else:
        item = _said(f"The tools say {returned[-1]['output']}." if returned else "Forty-two.")
    text = item["content"][0]["text"] if "content" in item else ""
    deltas = [
        {"type": "response.output_text.delta", "delta": text[at : at + 9]} for at in range(0, len(text), 9)
    ]
    body = {"status": "completed", "model": call.body["model"], "output": [item], "usage": USAGE}
    return events(*deltas, {"type": "response.completed", "response": body}, done=False)


def _said(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


async def test_the_answer_streams_and_its_tokens_are_whole() -> None:
    """Those of its own workers, too: nobody else reports them."""
    handler = UsageMetadataCallbackHandler()
    async with ChatServer(responses) as server:
        model = hosted(server, "responses", temperature=0.2, max_tokens=50)
        chunks = [chunk async for chunk in model.astream("What?", config={"callbacks": [handler]})]
        body = server.calls[0].body
    assert [chunk.content for chunk in chunks] == ["Forty-two", ".", ""]
    assert handler.usage_metadata["fugu"]["total_tokens"] == 63
    assert (body["temperature"], body["max_output_tokens"]) == (0.2, 50)
    podium = chunks[-1].response_metadata["podium"]
    assert (podium["plan"], podium["steps"], podium["usage"]["total_tokens"]) == (None, [], 63)


@pytest.mark.parametrize(("api", "reply"), [("chat", capable), ("responses", responses)])
@pytest.mark.parametrize("stream", [True, False])
async def test_tools_and_the_turn_after_them(api: Any, reply: Any, *, stream: bool) -> None:
    """Its calls are the caller's; what they returned goes back with the conversation."""
    async with ChatServer(reply) as server:
        model = hosted(server, api).bind_tools([weather], tool_choice="weather" if not stream else None)
        question = HumanMessage("How is the weather in 'Bonn'?")
        called: Any = None
        if stream:
            async for chunk in model.astream([question]):
                called = chunk if called is None else called + chunk
        else:
            called = await model.ainvoke([question])
            sent = server.calls[0].body["tool_choice"]
            named = {"name": "weather"}
            assert sent == {"type": "function", **(named if api == "responses" else {"function": named})}
        (call,) = called.tool_calls
        assert (call["name"], call["args"]) == ("weather", {"city": "Bonn"})
        messages = [question, called, weather.invoke(call)]
        answered = await hosted(server, api).bind_tools([weather]).ainvoke(messages)
    assert answered.text == "The tools say rain in Bonn."


@pytest.mark.parametrize(("api", "reply"), [("chat", capable), ("responses", responses)])
async def test_an_answer_held_to_a_schema(api: Any, reply: Any) -> None:
    """As the API writes it."""
    async with ChatServer(reply) as server:
        asks = hosted(server, api).with_structured_output(Person, method="json_schema")
        assert await asks.ainvoke("Who is 'Ada', aged 36?") == Person(name="Ada", age=36)


async def test_another_model_of_the_server() -> None:
    """For one call, or for all."""
    async with ChatServer(capable) as server:
        message = await hosted(server).ainvoke("Hi", model="fugu-ultra")
        assert message.response_metadata["model_name"] == "fugu-ultra"
        assert hosted(server).model_name == "fugu"
        await hosted(server, model="fugu-mini").ainvoke("Hi")
        assert [call.body["model"] for call in server.calls] == ["fugu-ultra", "fugu-mini"]


async def test_stops_reach_the_server_or_are_refused() -> None:
    """Responses has no word for them."""
    async with ChatServer(capable) as server:
        message = await hosted(server).ainvoke("Hi", stop=["to"])
        assert (message.text, server.calls[0].body["stop"]) == ("Hello ", ["to"])
        with pytest.raises(ConfigError, match="stop"):
            await hosted(server, "responses").ainvoke("Hi", stop=["to"])
        assert len(server.calls) == 1


async def test_what_it_cannot_take_is_refused() -> None:
    """It shows no plan that a policy could be held to, and retries on its server."""
    async with ChatServer(capable) as server:
        with pytest.raises(ConfigError, match="labels"):
            await hosted(server).ainvoke("Hi", labels=["private"])
        with pytest.raises(ConfigError, match="policy"):
            await hosted(server).ainvoke("Hi", policy=Policy())
        with pytest.raises(ValueError, match="max_retries"):
            hosted(server, max_retries=2)
        assert server.calls == []


async def test_no_answer_raises() -> None:
    """As of any conductor."""
    async with ChatServer(lambda _: whole({"error": {"message": "no such model"}}, status=404)) as server:
        with pytest.raises(RunFailed, match="worker_refused"):
            await hosted(server).ainvoke("Hi")
