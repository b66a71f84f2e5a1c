"""A conductor as an agent and as a team of AutoGen's, on real agents, clients, teams and a server."""

import asyncio
import json
from typing import Any

import anyio
import pytest
from autogen.scripts import is_planning, model, team
from autogen.speaking import READ, WRITTEN, ModelServer, Speaker
from autogen_agentchat.base import TerminationCondition
from autogen_agentchat.conditions import MaxMessageTermination, SourceMatchTermination, TokenUsageTermination
from autogen_agentchat.messages import HandoffMessage, MultiModalMessage, TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import CancellationToken, Image
from contracts.adapter_contract import planner_of, saying
from PIL import Image as Picture
from servers.chat_server import STALL, Call, Reply, says

from autogen_podium import ConductorAgent, ConductorChatCompletionClient, ConductorTeam
from autogen_podium.team import ANSWERED
from podium import Conductor, ScriptedWorker
from podium.errors import ConfigError, QueryError
from podium.workers import Request, step_input_of

pytestmark = pytest.mark.anyio


async def test_agents_carry_out_a_plan() -> None:
    """Each output is a message of its agent with its step; the answer is the last one's, verbatim."""
    async with ModelServer(model) as server:
        agent = ConductorAgent("lead", workers=team(server), planner=server.client())
        result = await agent.run(task="How large is the room?")
    told = [(m.source, m.to_text(), getattr(m, "metadata", {}).get("podium_step")) for m in result.messages]
    assert sorted(told[1:3], key=str) == [("coder", "It is 4 m.", "1"), ("researcher", "It is 3 m.", "0")]
    assert told[3:] == [("writer", "12 square metres.", "2"), ("lead", "12 square metres.", None)]
    assert len(server.calls) == 4


def listening(**options: Any) -> tuple[ConductorAgent, list[str]]:
    heard: list[str] = []

    async def listen(text: str) -> str:
        heard.append(text)
        return "noted"

    workers = [Speaker("one", listen)]
    return ConductorAgent("lead", workers=workers, planner=planner_of((0, "x", ())), **options), heard


async def test_it_remembers_the_conversation() -> None:
    agent, heard = listening()
    for task in ("First question.", "Second question."):
        await agent.run(task=task)
    await agent.on_reset(CancellationToken())
    await agent.run(task="Third question.")
    assert "First question." in heard[1]
    assert "noted" in heard[1]
    assert "First question." not in heard[2]


async def test_its_state_is_saved_and_loaded() -> None:
    """As plain data, into another agent, in place of what that one remembered."""
    first, second = listening()[0], listening()
    await first.run(task="Remember me.")
    await second[0].run(task="Forget me.")
    await second[0].load_state(json.loads(json.dumps(await first.save_state())))
    await second[0].run(task="And?")
    assert "Remember me." in second[1][-1]
    assert "Forget me." not in second[1][-1]


async def test_a_token_cancels_the_run_and_its_requests() -> None:
    """The workers' requests are closed on the server; no later step starts."""

    def stalls(call: Call) -> Reply:
        return model(call) if is_planning(call) else Reply((STALL,))

    async with ModelServer(stalls) as server:
        agent = ConductorAgent("lead", workers=team(server), planner=server.client())
        token = CancellationToken()
        task = asyncio.create_task(agent.run(task="How large?", cancellation_token=token))
        with anyio.fail_after(20):
            while len(server.calls) < 3:  # noqa: ASYNC110 - nothing announces a call
                await anyio.sleep(0.01)
            token.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            for call in server.calls[1:]:
                await call.hung_up.wait()
        assert len(server.calls) == 3


async def test_it_speaks_in_a_team() -> None:
    """Beside a critic, twice; what the critic said is asked of it under the critic's name."""
    lead, heard = listening()
    critic = Speaker("critic", saying("Make it shorter."))
    result = await RoundRobinGroupChat([lead, critic], max_turns=3).run(task="How large?")
    assert [m.source for m in result.messages if m.source in ("critic", "lead")] == ["lead", "critic", "lead"]
    assert "critic: Make it shorter." in heard[1]


async def test_it_must_be_asked_something() -> None:
    agent = ConductorAgent("lead", workers=[Speaker("one", saying("ok"))], planner=planner_of((0, "a", ())))
    with pytest.raises(QueryError, match="got no message"):
        await agent.run()
    await agent.run(task="?")
    with pytest.raises(QueryError, match="let another agent speak"):
        await agent.run()


async def test_images_reach_workers_that_take_them() -> None:
    """As the parts they are; where no worker takes them, they are refused."""
    picture = Image(Picture.new("RGB", (2, 2)))
    task = MultiModalMessage(content=["What colour?", picture], source="user")
    async with ModelServer(lambda call: says(call, "black")) as server:
        planner = planner_of((0, "Look.", ()))
        await ConductorAgent("lead", workers=[server.client()], planner=planner).run(task=task)
        body = server.calls[-1].body["messages"][-1]
        blind, _ = listening()
        with pytest.raises(QueryError, match="no worker can be shown it"):
            await blind.run(task=task)
    assert [part["type"] for part in body["content"]] == ["text", "image_url"]
    assert body["content"][1]["image_url"]["url"].startswith("data:image/png;base64,")


async def test_the_question_is_the_users_last_message() -> None:
    """After a handoff, and where another agent has spoken; what they said comes before it."""
    heard: list[list[str]] = []

    class Notes(ScriptedWorker):
        def call(self, request: Request) -> Any:
            heard.append([m.text for m in step_input_of(request).query])
            return super().call(request)

    lead = ConductorAgent("lead", workers=[Notes("one", "four")], planner=planner_of((0, "x", ())))
    handoff = HandoffMessage(content="Transferred to lead.", source="other", target="lead")
    await lead.run(task=[TextMessage(content="What is 2+2?", source="user"), handoff])
    await lead.on_reset(CancellationToken())
    other = Speaker("other", saying("I think four."))
    await RoundRobinGroupChat([other, lead], max_turns=2).run(task="What is 2+2?")
    assert [said[-2:] for said in heard] == [
        ["other: Transferred to lead.", "What is 2+2?"],
        ["other: I think four.", "What is 2+2?"],
    ]


@pytest.mark.parametrize("kind", [ConductorAgent, ConductorTeam, ConductorChatCompletionClient])
async def test_errors_of_options_name_the_class(kind: Any) -> None:
    named = {"name": "lead"} if kind is ConductorAgent else {}
    with pytest.raises(ConfigError, match=f"{kind.__name__} has no planner"):
        kind(workers=[ScriptedWorker("one", "x")], **named)
    told = rf"{kind.__name__} does not accept limit, runid \(did you mean limits, run_id\?\): its options "
    with pytest.raises(TypeError, match=told + "are planner, workers, .*partial"):
        kind(planner=planner_of((0, "x", ())), limit=1, runid="1", **named)


CHAIN = ((0, "x", ()), (1, "y", (0,)), (2, "z", (1,)))


def noting(called: list[str]) -> list[Speaker]:
    def speaker(name: str) -> Speaker:
        async def say(text: str) -> str:
            called.append(name)
            return f"{name} has spoken"

        return Speaker(name, say)

    return [speaker(name) for name in "abc"]


@pytest.mark.parametrize(
    ("condition", "asked", "why"),
    [
        (MaxMessageTermination(2), ["a"], "Maximum number of messages"),
        (MaxMessageTermination(2) & SourceMatchTermination(["b"]), ["a", "b"], "'b' answered"),
        (TokenUsageTermination(max_total_token=2 * (READ + WRITTEN)), ["a", "b"], "Token usage"),
    ],
)
async def test_conditions_end_a_run(condition: TerminationCondition, asked: list[str], why: str) -> None:
    """As soon as they are met; no later step is paid for, and the next run starts afresh."""
    called: list[str] = []
    chat = ConductorTeam(workers=noting(called), planner=planner_of(*CHAIN), termination_condition=condition)
    for _ in range(2):
        called.clear()
        result = await chat.run(task="?")
        assert called == asked
        assert why in (result.stop_reason or "")
        await chat.reset()


async def test_too_few_turns_for_an_answer_pay_for_no_step() -> None:
    called: list[str] = []
    chat = ConductorTeam(workers=noting(called), planner=planner_of(*CHAIN), max_turns=2)
    result = await chat.run(task="?")
    assert called == []
    assert result.stop_reason.startswith("Maximum number of turns 2 reached. step 0 (a): the plan needs at ")
    assert [message.to_text() for message in result.messages] == ["?"]
    whole = Conductor(planner_of((0, "x", ())), [ScriptedWorker("one", "hello")])
    with pytest.raises(ConfigError, match=r"Limits\.steps"):
        ConductorTeam(whole, max_turns=2)


async def test_a_run_stopped_early_leaves_its_question() -> None:
    called: list[str] = []
    until = MaxMessageTermination(2)
    chat = ConductorTeam(workers=noting(called), planner=planner_of(*CHAIN), termination_condition=until)
    await chat.run(task="my-question")
    result = await chat.run()
    assert [m.source for m in result.messages] == ["a", "b"]
    with pytest.raises(QueryError, match="got no message"):
        await ConductorTeam(workers=noting(called), planner=planner_of(*CHAIN)).run()


async def test_it_runs_once_at_a_time() -> None:
    chat = ConductorTeam(workers=noting([]), planner=planner_of(*CHAIN))
    stream = chat.run_stream(task="?")
    await anext(stream)
    with pytest.raises(ValueError, match="already running"):
        await chat.run(task="?")
    with pytest.raises(RuntimeError, match="currently running"):
        await chat.reset()
    with pytest.raises(RuntimeError, match="while it is running"):
        await chat.load_state(await chat.save_state())
    await stream.aclose()
    assert (await chat.run(task="?")).stop_reason == ANSWERED
