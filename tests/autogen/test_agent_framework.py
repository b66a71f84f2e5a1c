"""A conductor as an agent of Microsoft Agent Framework's: sessions, streams, workflows, middleware."""

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
)
from autogen.scripts import PLAN, SAID, said
from autogen.speaking import READ, WRITTEN, SpeakingClient
from contracts.adapter_contract import planner_of, saying
from contracts.worker_contract import question

from autogen_podium.agent_framework import ConductorAgent, ConductorChatClient, as_worker
from podium import Conductor, Limits, ScriptedWorker
from podium.errors import ConfigError, QueryError, WorkerFailed
from podium.workers import complete

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
    assert response.text == "12 square metres."
    assert response.messages[0].author_name == "lead"
    assert response.usage_details is not None
    assert response.usage_details["input_token_count"] == 4 * READ
    assert response.usage_details["output_token_count"] == 4 * WRITTEN
    facts = response.additional_properties["podium"]
    assert [step["subtask"] for step in facts["steps"]][2] == "Multiply them."
    assert facts["plan"]["steps"][2]["access"] == [0, 1]
    assert [step["status"] for step in facts["steps"]] == ["ok", "ok", "ok"]
    assert (facts["maybe_paid"], facts["usage"]["estimated"]) == (False, False)


async def test_it_streams_the_answer() -> None:
    client = SpeakingClient(speak)
    for steps in (False, True):
        stream = ConductorAgent(workers=team(client), planner=client, name="lead", show_steps=steps).run(
            "?", stream=True
        )
        texts, told = list[str](), list[tuple[str | None, str | None]]()
        async for update in stream:
            texts.append(update.text)
            told += [(update.author_name, c.text) for c in update.contents if c.type == "text_reasoning"]
        response = await stream.get_final_response()
        assert "".join(texts) == response.text == "12 square metres."
        assert response.usage_details is not None
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
            assert context.response is not None
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
    agent = ConductorAgent(workers=[ScriptedWorker("one", "x")], planner=planner_of((0, "x", ())))
    with pytest.raises(QueryError, match="got no message"):
        await agent.run()
    with pytest.raises(ConfigError, match="ConductorAgent has no planner: give planner="):
        ConductorAgent(workers=[ScriptedWorker("one", "x")])
    whole = Conductor(planner_of((0, "x", ())), [ScriptedWorker("one", "x")])
    assert (await ConductorAgent(whole).run("?")).text == "x"
    with pytest.raises(ConfigError, match="it has its own"):
        ConductorAgent(whole, limits=Limits(steps=1))
    with pytest.raises(TypeError, match=r"ConductorAgent does not accept limit \(did you mean limits\?\)"):
        ConductorAgent(planner=planner_of((0, "x", ())), limit=Limits(steps=1))
    options: Any = {"runid": "order-1017"}
    with pytest.raises(ConfigError, match=r"accept runid \(did you mean run_id\?\): its .* limits.* seed"):
        await agent.run("?", options=options)
    nothing: Any = len
    with pytest.raises(ConfigError, match="not an agent, workflow or chat client"):
        as_worker(nothing)


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
