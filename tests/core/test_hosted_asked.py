"""What is said to a hosted conductor of one run: tools, how to write, which model."""

from typing import Any

import pytest
from servers.chat_server import Call, ChatServer, Reply, says, whole

from podium.errors import ConfigError
from podium.hosted import HostedConductor
from podium.types import Constraint, RunEnded, Sampling, Tools
from podium.workers import Endpoint

pytestmark = pytest.mark.anyio

WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
NAMED = {"type": "function", "function": {"name": "weather"}}
FORM = Constraint("json", {"type": "object"})


def reply(call: Call) -> Reply:
    """Answer in the API that is spoken."""
    if call.path.endswith("/chat/completions"):
        return says(call, "yes")
    said = {"type": "message", "content": [{"type": "output_text", "text": "yes"}]}
    return whole({"object": "response", "status": "completed", "output": [said]})


def hosted(server: ChatServer, api: Any, **more: Any) -> HostedConductor:
    """Return a conductor hosted by `server`."""
    endpoint = Endpoint(server.url, api_key="key", provider="openai")
    return HostedConductor("fugu", endpoint=endpoint, api=api, **more)


async def test_all_that_can_be_said_is_sent_in_chat_completions() -> None:
    """As a chat model is told it."""
    sampling = Sampling(temperature=0.5, max_tokens=9, stop=("END",), constraint=FORM)
    async with ChatServer(reply) as server:
        conductor = hosted(server, "chat", effort="high")
        result = await conductor.run("Hi", tools=Tools((WEATHER,), NAMED), sampling=sampling, model="ultra")
        body = server.calls[0].body
    assert result.answer == "yes"
    assert (body["model"], body["tools"], body["tool_choice"]) == ("ultra", [WEATHER], NAMED)
    assert (body["temperature"], body["stop"], body["reasoning_effort"]) == (0.5, ["END"], "high")
    assert body["response_format"] == {"type": "json_object"}


async def test_all_that_can_be_said_is_sent_in_responses() -> None:
    """A function's fields stand in the tool itself there, and in the choice of one."""
    sampling = Sampling(temperature=0.5, max_tokens=9, constraint=FORM)
    async with ChatServer(reply) as server:
        stream = hosted(server, "responses").stream(
            "Hi", tools=Tools((WEATHER,), NAMED), sampling=sampling, model="ultra"
        )
        ended = [event async for event in stream][-1]
        body = server.calls[0].body
    assert isinstance(ended, RunEnded)
    assert ended.result.answer == "yes"
    assert body["tools"] == [{"type": "function", "name": "weather", "parameters": {"type": "object"}}]
    assert body["tool_choice"] == {"type": "function", "name": "weather"}
    assert (body["model"], body["temperature"], body["max_output_tokens"]) == ("ultra", 0.5, 9)
    assert body["text"]["format"]["schema"] == {"type": "object"}


async def test_tools_of_a_run_stand_in_for_the_conductors_own() -> None:
    """A run that offers none leaves those."""
    other = {"type": "function", "function": {"name": "other", "parameters": {"type": "object"}}}
    async with ChatServer(reply) as server:
        conductor = hosted(server, "chat", tools=[WEATHER])
        await conductor.run("Hi")
        await conductor.run("Hi", tools=[other])
        await conductor.run("Hi", tools=Tools((), "none"))
        first, second, third = (call.body for call in server.calls)
    assert (first["tools"], second["tools"], third["tools"]) == ([WEATHER], [other], [WEATHER])
    assert ("tool_choice" in first, third["tool_choice"]) == (False, "none")


@pytest.mark.parametrize(
    ("sampling", "told"),
    [
        (Sampling(stop=("END",)), "stop"),
        (Sampling(seed=1), "seed"),
        (Sampling(constraint=Constraint("grammar", "root ::= x")), "grammar"),
    ],
)
async def test_what_responses_has_no_word_for_is_refused(sampling: Sampling, told: str) -> None:
    """Before anything is sent."""
    async with ChatServer(reply) as server:
        with pytest.raises(ConfigError, match=told):
            await hosted(server, "responses").run("Hi", sampling=sampling)
        assert server.calls == []
