"""A conductor as an agent and as a chat client of Microsoft Agent Framework's."""

import asyncio
from typing import Any

import anyio
import pytest
from agent_framework import (
    Agent,
    AgentSession,
    Content,
    ContextProvider,
    Message,
    SessionContext,
    SupportsAgentRun,
    WorkflowBuilder,
    tool,
)
from autogen.scripts import ONE, PLAN, SAID, alone, calling, is_planning, said, shown, time, weather
from autogen.speaking import READ, WRITTEN, FrameworkServer, SpeakingClient
from contracts.adapter_contract import planner_of, saying
from contracts.worker_contract import question
from pydantic import BaseModel
from servers.chat_server import USAGE, Call, Reply, says

from autogen_podium.agent_framework import ConductorAgent, ConductorChatClient, as_worker
from podium import Conductor, Limits, ScriptedWorker
from podium.errors import ConfigError, QueryError, WorkerFailed
from podium.workers import FREE, Card, StepInput, complete
from podium.workers.simple import FunctionWorker

pytestmark = pytest.mark.anyio


async def speak(shown: str) -> str:
    """Plan when asked to conduct, else say what belongs to the subtask that comes last."""
    return PLAN if "You are the conductor" in shown else said(shown, SAID)


def team(client: SpeakingClient) -> list[Agent[Any]]:
    return [Agent(client, "You help.", name=name) for name in ("researcher", "coder", "writer")]


async def test_it_answers() -> None:
    """With all tokens, the plan, the steps, and the whole result behind it."""
    client = SpeakingClient(speak)
    agent = ConductorAgent(workers=team(client), planner=client, name="lead")
    assert isinstance(agent, SupportsAgentRun)
    response = await agent.run("How large is the room?")
    assert (response.text, response.messages[0].author_name) == ("12 square metres.", "lead")
    assert response.usage_details["input_token_count"] == 4 * READ
    assert response.usage_details["output_token_count"] == 4 * WRITTEN
    facts = response.additional_properties["podium"]
    steps = [(step["subtask"], step["status"]) for step in facts["steps"]]
    assert steps == [("Find the height.", "ok"), ("Find the width.", "ok"), ("Multiply them.", "ok")]
    assert facts["plan"]["steps"][2]["access"] == [0, 1]
    assert (facts["maybe_paid"], facts["usage"]["estimated"]) == (False, False)


async def test_it_streams_the_answer() -> None:
    client = SpeakingClient(speak)
    for steps in (False, True):
        lead = ConductorAgent(workers=team(client), planner=client, name="lead", show_steps=steps)
        stream = lead.run("?", stream=True)
        texts, told = list[str](), list[tuple[str | None, str | None]]()
        async for update in stream:
            texts.append(update.text)
            told += [(update.author_name, c.text) for c in update.contents if c.type == "text_reasoning"]
        response = await stream.get_final_response()
        assert "".join(texts) == response.text == "12 square metres."
        assert response.usage_details["total_token_count"] == 4 * (READ + WRITTEN)
        assert (("writer", "12 square metres.") in told) is steps


async def test_sessions_remember() -> None:
    """Each its own conversation, through its stored form; without one nothing is remembered."""
    client = SpeakingClient(saying("noted"))
    agent = ConductorAgent(workers=[Agent(client, name="one")], planner=planner_of((0, "x", ())), name="lead")
    session, other = agent.create_session(), agent.create_session()
    await agent.run("question-1", session=session)
    restored = AgentSession.from_dict(session.to_dict())
    await agent.run("question-2", session=restored)
    assert "question-1" in client.asked[1]
    assert "noted" in client.asked[1]
    await agent.run("question-3", session=other)
    await agent.run("question-4")
    assert "question-1" not in "".join(client.asked[2:])


async def test_providers_add_to_what_is_asked() -> None:
    class Memory(ContextProvider):
        async def before_run(self, *, context: SessionContext, **_: Any) -> None:
            context.extend_instructions(self.source_id, "Be brief.")
            context.extend_messages(self, [Message("user", ["I like metres."])])

        async def after_run(self, *, context: SessionContext, **_: Any) -> None:
            kept.append(context.response.text)

    kept: list[str] = []
    client = SpeakingClient(saying("noted"))
    workers, planner = [Agent(client, name="one")], planner_of((0, "x", ()))
    await ConductorAgent(workers=workers, planner=planner, context_providers=[Memory("memory")]).run("?")
    assert "Be brief." in client.asked[0]
    assert "I like metres." in client.asked[0]
    assert kept == ["noted"]


async def test_it_works_in_a_workflow() -> None:
    """After another agent, whose words are asked of it; before another, which is given the answer."""
    client = SpeakingClient(speak)
    critic = Agent(SpeakingClient(saying("Use metres.")), name="critic")
    lead = ConductorAgent(workers=team(client), planner=client, name="lead")
    last = Agent(last_client := SpeakingClient(saying("done")), name="last")
    workflow = WorkflowBuilder(start_executor=critic).add_edge(critic, lead).add_edge(lead, last).build()
    outputs = (await workflow.run("How large?")).get_outputs()
    assert [str(output) for output in outputs] == ["Use metres.", "12 square metres.", "done"]
    assert "critic: Use metres." in client.asked[0]
    assert "12 square metres." in last_client.asked[0]
    streamed = [event async for event in workflow.run("How large?", stream=True) if event.type == "output"]
    assert "12 square metres." in "".join(str(event.data) for event in streamed)


@pytest.mark.parametrize(("kind", "how"), [(ConductorAgent, "dropped"), (ConductorChatClient, "left")])
async def test_leaving_a_stream_cancels_the_run(kind: Any, how: str) -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    async def hang(shown: str) -> str:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()
        return ""

    face = kind(
        workers=[ScriptedWorker("first", "x"), Agent(SpeakingClient(hang), name="two")],
        planner=planner_of((0, "x", ()), (1, "y", (0,))),
        show_steps=True,
    )

    def asked() -> Any:
        question = [Message("user", ["?"])]
        ask = face.run if kind is ConductorAgent else face.get_response
        return ask(question, stream=True)

    with anyio.fail_after(20):
        if how == "left":
            async for _ in asked():
                await started.wait()
                break
        else:
            stream = asked()
            await anext(stream)
            await started.wait()
            del stream
        await stopped.wait()


async def test_what_it_cannot_do_is_told() -> None:
    workers, planner = [ScriptedWorker("one", "x")], planner_of((0, "x", ()))
    agent = ConductorAgent(workers=workers, planner=planner)
    with pytest.raises(QueryError, match="got no message"):
        await agent.run()
    with pytest.raises(ConfigError, match="ConductorAgent has no planner: give planner="):
        ConductorAgent(workers=workers)
    whole = Conductor(planner, workers)
    assert (await ConductorAgent(whole).run("?")).text == "x"
    with pytest.raises(ConfigError, match="it has its own"):
        ConductorAgent(whole, limits=Limits(steps=1))
    with pytest.raises(TypeError, match=r"ConductorAgent does not accept limit \(did you mean limits\?\)"):
        ConductorAgent(planner=planner, limit=Limits(steps=1))
    options: Any = {"runid": "order-1017"}
    with pytest.raises(ConfigError, match=r"accept runid \(did you mean run_id\?\): its .* limits.* seed"):
        await agent.run("?", options=options)
    with pytest.raises(ConfigError, match="not an agent, workflow or chat client"):
        as_worker(len)


async def test_who_asks_for_approval_has_not_answered() -> None:
    class Asking(SpeakingClient):
        def _inner_get_response(self, **kwargs: Any) -> Any:
            async def whole() -> Any:
                response = await SpeakingClient._inner_get_response(self, **{**kwargs, "stream": False})
                call = Content.from_function_call("1", "delete", arguments="{}")
                request = Content.from_function_approval_request("1", call)
                response.messages = [Message("assistant", [request])]
                return response

            return whole()

    with pytest.raises(WorkerFailed, match="asks for approval"):
        await complete(as_worker(Agent(Asking(saying("x")), name="one")), question("?"))


def pool(server: FrameworkServer, searched: list[str] | None = None) -> list[Any]:
    def search(step_input: StepInput) -> str:
        """Search."""
        if searched is not None:
            searched.append(step_input.subtask)
        return "found"

    return [FunctionWorker(search, price=FREE), as_worker(server.client(), name="model")]


@pytest.mark.parametrize("stream", [False, True])
async def test_functions_are_called_by_the_framework(*, stream: bool) -> None:
    """Their calls are the last step's; the turn after each neither plans nor does the other steps again."""
    async with FrameworkServer(lambda call: calling(call, "weather", "time")) as server:
        searched: list[str] = []
        agent = Agent(
            ConductorChatClient(workers=pool(server, searched), planner=server.client()),
            tools=[tool(weather), tool(time)],
        )
        run = agent.run("How is it?", stream=stream)
        response = await (run.get_final_response() if stream else run)
        assert response.text == "It is warm in Bern and noon in Bern."
        assert [is_planning(call) for call in server.calls] == [True, False, False, False]
        offered = [tool["function"]["name"] for tool in server.calls[1].body["tools"]]
        assert offered == ["weather", "time"]
        parameters = server.calls[1].body["tools"][0]["function"]["parameters"]
        assert (parameters["required"], searched) == (["city"], ["Look it up."])
        assert response.usage_details is not None
        assert response.usage_details["input_token_count"] == 4 * USAGE["prompt_tokens"]


class Tooled(ContextProvider):
    async def before_run(self, *, context: SessionContext, **_: Any) -> None:
        context.extend_tools(self.source_id, [tool(weather)])


@pytest.mark.parametrize("given", [{"tools": [tool(weather)]}, {"context_providers": [Tooled("tooled")]}])
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
