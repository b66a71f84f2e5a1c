"""A conductor as a chat client of Agent Framework's, in agents and orchestrations that know nothing of it."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from agent_framework import (
    Agent,
    ChatContext,
    ChatResponse,
    Content,
    ContextProvider,
    FunctionInvocationContext,
    Message,
    SessionContext,
    SupportsChatGetResponse,
    chat_middleware,
    function_middleware,
    tool,
)
from agent_framework.orchestrations import GroupChatBuilder, HandoffBuilder
from autogen.framework_speaking import FrameworkServer
from autogen.scripts import is_planning, model, shown
from contracts.adapter_contract import planner_of
from pydantic import BaseModel
from servers.chat_server import USAGE, Call, Reply, says

from autogen_podium.agent_framework import ConductorAgent, ConductorChatClient, as_worker
from podium import ScriptedWorker
from podium.errors import ConfigError, QueryError, RunFailed
from podium.execution import Retry
from podium.planners import FixedPlanner
from podium.types import Result
from podium.workers import FREE, Card, StepInput
from podium.workers.simple import FunctionWorker

pytestmark = pytest.mark.anyio
READ, WRITTEN = USAGE["prompt_tokens"], USAGE["completion_tokens"]
PLAN = (
    '{"worker": "search", "subtask": "Look it up.", "access": []}\n'
    '{"worker": "model", "subtask": "Say it.", "access": [0]}\n'
)
ONE = '{"worker": 0, "subtask": "Answer it.", "access": []}\n'


def asked(text: str = "How large?") -> list[Message]:
    """Return a conversation of one question."""
    return [Message("user", [text])]


def alone(call: Call) -> Reply:
    """Plan one step of the only worker, and answer it."""
    return says(call, ONE if is_planning(call) else "12 square metres.")


def team(server: FrameworkServer) -> list[Agent[Any]]:
    """Return agents that ask the server."""
    return [Agent(server.client(), name=name) for name in ("researcher", "coder", "writer")]


def pool(server: FrameworkServer, searched: list[str] | None = None) -> list[Any]:
    """Return a plain worker, and a chat client, which takes tools."""

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


async def test_it_answers_as_a_chat_client() -> None:
    """With all tokens as its usage, and the whole result behind the response."""
    async with FrameworkServer(model) as server:
        client = ConductorChatClient(workers=team(server), planner=server.client())
        assert isinstance(client, SupportsChatGetResponse)
        response = await client.get_response(asked())
    assert (response.text, response.finish_reason, response.model) == ("12 square metres.", "stop", "podium")
    spent = {"input_token_count": 4 * READ, "output_token_count": 4 * WRITTEN}
    assert response.usage_details is not None
    assert spent.items() <= response.usage_details.items()
    facts = response.additional_properties["podium"]
    assert [step["worker"] for step in facts["steps"]] == ["researcher", "coder", "writer"]
    assert isinstance(response.raw_representation, Result)


async def test_it_streams() -> None:
    """The pieces are the answer; usage, finish reason and the result come with the last."""
    async with FrameworkServer(model) as server:
        client = ConductorChatClient(workers=team(server), planner=server.client())
        stream = client.get_response(asked(), stream=True)
        texts = [update.text async for update in stream if update.text]
        response = await stream.get_final_response()
        agent = Agent(client, "You measure.", name="solo")
        whole = await agent.run("How large?", stream=True).get_final_response()
    assert len(texts) > 1
    assert "".join(texts) == response.text == whole.text == "12 square metres."
    assert response.finish_reason == "stop"
    assert len(response.messages) == 1
    assert response.usage_details is not None
    assert response.usage_details["input_token_count"] == 4 * READ
    assert response.additional_properties["podium"]["status"] == "ok"


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
        """Give them."""
        context.extend_tools(self.source_id, [weather])


@pytest.mark.parametrize("given", [{"tools": [weather]}, {"context_providers": [Tooled("tooled")]}])
async def test_tools_of_a_conducting_agent_are_called_by_the_framework(given: dict[str, Any]) -> None:
    """Its own, and those of its context providers."""
    async with FrameworkServer(lambda call: calling(call, "weather")) as server:
        lead = ConductorAgent(workers=pool(server), planner=server.client(), **given)
        assert (await lead.run("How is it?")).text == "It is warm in Bern."
        assert as_worker(lead) is not lead.conductor


async def test_a_named_function_must_be_called() -> None:
    """As the framework says it; a worker that takes no tools cannot."""
    chosen: Any = {"mode": "required", "required_function_name": "time"}
    async with FrameworkServer(lambda call: calling(call, "time")) as server:
        agent = Agent(
            ConductorChatClient(workers=pool(server), planner=server.client()), tools=[weather, time]
        )
        await agent.run("How late?", options={"tool_choice": chosen})
        assert server.calls[1].body["tool_choice"] == {"type": "function", "function": {"name": "time"}}
        plain = ConductorChatClient(workers=[ScriptedWorker("one", "x")], planner=planner_of((0, "x", ())))
        with pytest.raises(RunFailed, match="requires a tool call"):
            await plain.get_response(asked(), options={"tools": [weather], "tool_choice": "required"})


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


async def test_middleware_is_around_calls_and_functions() -> None:
    """Chat middleware around each run, function middleware around each function."""
    seen: list[str] = []

    @chat_middleware
    async def around_chat(context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        seen.append("chat")
        await call_next()
        assert isinstance(context.result, ChatResponse)

    @function_middleware
    async def around_function(
        context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]
    ) -> None:
        seen.append(context.function.name)
        await call_next()

    async with FrameworkServer(lambda call: calling(call, "weather")) as server:
        layers = [around_chat, around_function]
        client = ConductorChatClient(workers=pool(server), planner=server.client(), middleware=layers)
        await Agent(client, tools=[weather]).run("How is it?")
    assert seen == ["chat", "weather", "chat"]


async def test_no_answer_is_an_error() -> None:
    """With the result; an answer in part is one where that is wanted."""
    failing = ConductorChatClient(
        workers=[ScriptedWorker("bad", ValueError("no ruler"))], planner=planner_of((0, "x", ()))
    )
    for answer in (
        failing.get_response(asked()),
        failing.get_response(asked(), stream=True).get_final_response(),
    ):
        with pytest.raises(RunFailed, match="no ruler") as caught:
            await answer
        assert caught.value.result.status == "failed"
    workers = [ScriptedWorker("good", "fine"), ScriptedWorker("bad", ValueError("no ruler"))]
    planner, once = planner_of((0, "x", ()), (1, "y", ()), (0, "z", (0, 1))), Retry(attempts=1)
    response = await ConductorChatClient(workers=workers, planner=planner, retry=once).get_response(asked())
    assert response.additional_properties["podium"]["status"] == "partial"
    with pytest.raises(RunFailed, match="is partial"):
        await ConductorChatClient(workers=workers, planner=planner, partial="raise", retry=once).get_response(
            asked()
        )
    wrong: Any = "perhaps"
    with pytest.raises(ConfigError, match="partial is 'perhaps'"):
        ConductorChatClient(workers=workers, planner=planner, partial=wrong)


async def test_messages_without_an_author() -> None:
    """Each has the role that it says; agents that it is given as workers are told apart by name."""
    worker = ScriptedWorker("one", "x")
    client = ConductorChatClient(workers=[worker], planner=planner_of((0, "x", ())))
    conversation = [
        Message("system", ["Be brief."]),
        Message("user", ["How large?"]),
        Message("assistant", ["12 metres."]),
        Message("user", ["Sure?"]),
    ]
    assert [message.author_name for message in conversation] == [None] * 4
    await client.get_response(conversation)
    query = worker.requests[0].step_input
    assert query is not None
    assert [(m.role, m.text) for m in query.query] == [
        ("system", "Be brief."),
        ("user", "How large?"),
        ("assistant", "12 metres."),
        ("user", "Sure?"),
    ]


async def test_images_reach_a_worker_that_takes_them() -> None:
    """As parts of the question."""
    async with FrameworkServer(alone) as server:
        worker = as_worker(server.client(), card=Card(name="eyes", parts=frozenset({"image_url"})))
        agent = Agent(ConductorChatClient(workers=[worker], planner=FixedPlanner(ONE)))
        picture = Content.from_data(b"\x89PNG", media_type="image/png")
        response = await agent.run(Message("user", ["What is it?", picture]))
        assert "data:image/png;base64" in str(server.calls[-1].body)
    assert response.text == "12 square metres."


def orchestrator(call: Call) -> Reply:
    """Select the speaker of a group chat, or end it."""
    if is_planning(call):
        return says(call, ONE)
    done = "Use metres." in shown(call)
    picked = {"terminate": done, "reason": "so", "next_speaker": None if done else "critic"}
    return says(call, json.dumps({**picked, "final_message": "We use metres." if done else None}))


async def test_it_orchestrates_a_group_chat() -> None:
    """By structured output, as the agent of `GroupChatBuilder`."""
    async with FrameworkServer(orchestrator) as server:
        lead = ConductorAgent(workers=[server.client()], planner=server.client(), name="lead")
        critic_client = ConductorChatClient(
            workers=[ScriptedWorker("one", "Use metres.")], planner=FixedPlanner(ONE)
        )
        critic = Agent(critic_client, name="critic", description="Criticises.")
        chat = GroupChatBuilder(participants=[critic], orchestrator_agent=lead, max_rounds=4).build()
        outputs = (await chat.run("How do we measure?")).get_outputs()
    assert "We use metres." in str(outputs[-1])


async def test_it_hands_off() -> None:
    """The framework's handoff functions are called by the last step's worker."""

    def triage(call: Call) -> Reply:
        if is_planning(call):
            return says(call, ONE)
        if "tools" not in call.body:
            return says(call, "none")
        name = call.body["tools"][0]["function"]["name"]
        asking = {"id": "call-0", "type": "function", "function": {"name": name, "arguments": "{}"}}
        return says(call, "", finish_reason="tool_calls", tool_calls=[asking])

    async with FrameworkServer(triage) as server, FrameworkServer(lambda call: says(call, "done")) as other:
        front = ConductorAgent(
            workers=[server.client()],
            planner=server.client(),
            name="front",
            require_per_service_call_history_persistence=True,
        )
        back = Agent(
            other.client(),
            name="back",
            description="Refunds.",
            require_per_service_call_history_persistence=True,
        )
        flow = HandoffBuilder(participants=[front, back]).with_start_agent(front).build()
        events = await flow.run("I want my money back.")
    handed = [event.data for event in events if event.type == "handoff_sent"]
    assert [(h.source, h.target) for h in handed] == [("front", "back")]
