"""A conductor as a chat client of Agent Framework's, in agents and orchestrations that know nothing of it."""

from typing import Any

import pytest
from agent_framework import (
    Agent,
    Content,
    ContextProvider,
    Message,
    SessionContext,
    tool,
)
from autogen.framework_speaking import FrameworkServer
from autogen.scripts import is_planning, shown
from contracts.adapter_contract import planner_of
from pydantic import BaseModel
from servers.chat_server import USAGE, Call, Reply, says

from autogen_podium.agent_framework import ConductorAgent, ConductorChatClient, as_worker
from podium.errors import ConfigError, QueryError
from podium.workers import FREE, Card, StepInput
from podium.workers.simple import FunctionWorker

pytestmark = pytest.mark.anyio
READ, WRITTEN = USAGE["prompt_tokens"], USAGE["completion_tokens"]
PLAN = (
    '{"worker": "search", "subtask": "Look it up.", "access": []}\n'
    '{"worker": "model", "subtask": "Say it.", "access": [0]}\n'
)
ONE = '{"worker": 0, "subtask": "Answer it.", "access": []}\n'


def alone(call: Call) -> Reply:
    return says(call, ONE if is_planning(call) else "12 square metres.")


def pool(server: FrameworkServer, searched: list[str] | None = None) -> list[Any]:
    def search(step_input: StepInput) -> str:
        """Search."""
        if searched is not None:
            searched.append(step_input.subtask)
        return "found"

    return [FunctionWorker(search, price=FREE), as_worker(server.client(), name="model")]


def calling(call: Call, *names: str) -> Reply:
    """Plan; answer the last step with a call of each tool in turn, then with what they returned."""
    if is_planning(call):
        return says(call, PLAN)
    returned = [m["content"] for m in call.body["messages"] if m["role"] == "tool"]
    if "tools" in call.body and len(returned) < len(names):
        function = {"name": names[len(returned)], "arguments": '{"city": "Bern"}'}
        asking = {"id": f"call-{len(returned)}", "type": "function", "function": function}
        return says(call, "", finish_reason="tool_calls", tool_calls=[asking])
    return says(call, f"It is {' and '.join(returned)}.")


@tool
def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"warm in {city}"


@tool
def time(city: str) -> str:
    """Tell the time in a city."""
    return f"noon in {city}"


@pytest.mark.parametrize("stream", [False, True])
async def test_functions_are_called_by_the_framework(*, stream: bool) -> None:
    """Their calls are the last step's; the turn after each neither plans nor does the other steps again."""
    async with FrameworkServer(lambda call: calling(call, "weather", "time")) as server:
        searched: list[str] = []
        agent = Agent(
            ConductorChatClient(workers=pool(server, searched), planner=server.client()),
            tools=[weather, time],
        )
        if stream:
            response = await agent.run("How is it?", stream=True).get_final_response()
        else:
            response = await agent.run("How is it?")
        assert response.text == "It is warm in Bern and noon in Bern."
        assert [is_planning(call) for call in server.calls] == [True, False, False, False]
        offered = [tool["function"]["name"] for tool in server.calls[1].body["tools"]]
        assert offered == ["weather", "time"]
        parameters = server.calls[1].body["tools"][0]["function"]["parameters"]
        assert parameters["required"] == ["city"]
        assert searched == ["Look it up."]
        assert response.usage_details is not None
        assert response.usage_details["input_token_count"] == 4 * READ


class Tooled(ContextProvider):
    """Gives an agent its tools."""

    async def before_run(self, *, context: SessionContext, **_: Any) -> None:
        context.extend_tools(self.source_id, [weather])


@pytest.mark.parametrize("given", [{"tools": [weather]}, {"context_providers": [Tooled("tooled")]}])
async def test_tools_of_a_conducting_agent_are_called_by_the_framework(given: dict[str, Any]) -> None:
    async with FrameworkServer(lambda call: calling(call, "weather")) as server:
        lead = ConductorAgent(workers=pool(server), planner=server.client(), **given)
        assert (await lead.run("How is it?")).text == "It is warm in Bern."
        assert as_worker(lead) is not lead.conductor


async def test_structured_output() -> None:
    """A Pydantic class, or a JSON schema, reaches the model that answers."""

    class Size(BaseModel):
        metres: int

    def measured(call: Call) -> Reply:
        return says(call, ONE if is_planning(call) else '{"metres": 12}')

    async with FrameworkServer(measured) as server:
        agent = Agent(ConductorChatClient(workers=[server.client()], planner=server.client()))
        response = await agent.run("How large?", options={"response_format": Size})
        assert response.value == Size(metres=12)
        sent = server.calls[1].body["response_format"]["json_schema"]["schema"]
        assert sent["properties"] == Size.model_json_schema()["properties"]
        stream = agent.run("How large?", stream=True, options={"response_format": Size})
        assert (await stream.get_final_response()).value == Size(metres=12)
        raw = await agent.run("How large?", options={"response_format": Size.model_json_schema()})
        assert raw.value == {"metres": 12}
        sent = server.calls[-1].body["response_format"]["json_schema"]["schema"]
        assert sent["properties"] == Size.model_json_schema()["properties"]


async def test_options_are_the_last_steps() -> None:
    """Those of sampling and instructions are followed; those it cannot follow are refused."""
    async with FrameworkServer(alone) as server:
        agent = Agent(
            ConductorChatClient(workers=[server.client()], planner=server.client()),
            "Be brief.",
            default_options={"temperature": 0.5, "max_tokens": 100, "stop": ["END"], "seed": 3, "top_p": 0.9},
        )
        assert (await agent.run("How large?")).text == "12 square metres."
        body = server.calls[-1].body
        assert (body["temperature"], body["stop"], body["seed"], body["top_p"]) == (0.5, ["END"], 3, 0.9)
        assert body.get("max_tokens", body.get("max_completion_tokens")) == 100
        assert "Be brief." in shown(server.calls[-1])
        assert "temperature" not in server.calls[0].body
        with pytest.raises(ConfigError, match="frequency_penalty must be at most 0"):
            await agent.run("?", options={"frequency_penalty": 1.0})
        with pytest.raises(ConfigError, match="web_search_options is not a known parameter"):
            await agent.run("?", options={"tools": [{"type": "web_search"}]})
        with pytest.raises(QueryError):
            await agent.client.get_response([])


async def test_images_reach_a_worker_that_takes_them() -> None:
    async with FrameworkServer(alone) as server:
        worker = as_worker(server.client(), card=Card(name="eyes", parts=frozenset({"image_url"})))
        agent = Agent(ConductorChatClient(workers=[worker], planner=planner_of((0, "Look.", ()))))
        picture = Content.from_data(b"\x89PNG", media_type="image/png")
        response = await agent.run(Message("user", ["What is it?", picture]))
        assert "data:image/png;base64" in str(server.calls[-1].body)
    assert response.text == "12 square metres."
