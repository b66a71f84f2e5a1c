"""AutoGen's agents, teams, tools and model clients as workers."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import anyio
import pytest
from autogen.speaking import READ, WRITTEN, ModelServer, Speaker
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.teams import RoundRobinGroupChat, SelectorGroupChat
from contracts.adapter_contract import planner_of, saying
from contracts.odd_answers import CALLS, FILTERED, LATIN, REFUSED, OddAnswer, check, check_wrong_url
from contracts.worker_contract import WorkerContract, question
from servers.chat_server import CUT, STALL, USAGE, Call, Reply, chunk, events, says, whole

from autogen_podium import as_planner, as_worker
from podium import ChatPlanner, Conductor, Price, ScriptedWorker
from podium.errors import (
    ConfigError,
    WorkerBroken,
    WorkerError,
    WorkerRefused,
    WorkerUnavailable,
)
from podium.execution import Retry
from podium.planners import FixedPlanner
from podium.types import Constraint, Message, Sampling, Tools
from podium.usage import Usage
from podium.workers import Request, Worker, complete

pytestmark = pytest.mark.anyio


async def echo(text: str) -> str:
    return f"heard {text}"


async def hang(text: str) -> str:
    await anyio.sleep_forever()
    return ""


def echoes(call: Call) -> Reply:
    return says(call, f"heard {call.body['messages'][-1]['content']}")


class TestAgentWorker(WorkerContract):
    """An agent, which does one call at a time."""

    @pytest.fixture
    def worker(self) -> Worker:
        return as_worker(Speaker("one", echo))

    @pytest.fixture
    def slow_worker(self) -> Worker:
        return as_worker(Speaker("one", hang))

    def asking(self, text: str, *, stream: bool = False) -> Request:
        """Ask at some length: whatever was asked, the agent reports that it read `READ` tokens."""
        return question(text + ", and nothing else" * READ, stream=stream)


class TestModelWorker(WorkerContract):
    @pytest.fixture
    async def worker(self) -> AsyncIterator[Worker]:
        async with ModelServer(echoes) as server:
            yield as_worker(server.client(), price=Price(input=1.0, output=1.0))

    @pytest.fixture
    async def slow_worker(self) -> AsyncIterator[Worker]:
        async with ModelServer(lambda _: Reply((STALL,))) as server:
            yield as_worker(server.client())


async def test_an_agent_is_reset_before_each_step() -> None:
    """Nothing of one call is heard in the next."""
    speaker = Speaker("one", echo)
    worker = as_worker(speaker)
    assert (await complete(worker, question("first"))).text == "heard first"
    assert (await complete(worker, question("second"))).text == "heard second"
    assert speaker.resets == 2


async def test_one_agent_in_two_pools_does_one_step_at_a_time() -> None:
    busy, most = 0, 0

    async def speak(text: str) -> str:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await anyio.sleep(0.01)
        busy -= 1
        return text

    speaker = Speaker("one", speak)
    conductors = [Conductor(planner_of((0, name, ())), [as_worker(speaker)]) for name in ("x", "y", "z")]
    answers: list[str] = []

    async def run(conductor: Conductor) -> None:
        answers.append((await conductor.run("?")).answer)

    async with anyio.create_task_group() as group:
        for conductor in conductors:
            group.start_soon(run, conductor)
    assert most == 1
    assert sorted(answer.splitlines()[-1] for answer in answers) == ["x", "y", "z"]


async def test_what_an_agent_used_is_on_the_bill_when_it_fails_too() -> None:
    def once(call: Call) -> Reply:
        if call.body["messages"][-1]["role"] == "tool":
            return whole({"error": {"message": "overloaded"}}, status=503)
        function = {"name": "echo", "arguments": '{"text": "hi"}'}
        asked = {"id": "1", "type": "function", "function": function}
        return says(call, "", finish_reason="tool_calls", tool_calls=[asked])

    async with ModelServer(once) as server:
        agent = AssistantAgent("one", server.client(), tools=[echo], reflect_on_tool_use=True)
        with pytest.raises(WorkerUnavailable, match="503") as caught:
            await complete(as_worker(agent), question("?"))
    assert caught.value.usage == Usage(211, 7)


async def test_a_team_is_a_worker() -> None:
    """Reset before each step; its last message is its answer; what its members used adds up."""
    chat = RoundRobinGroupChat([Speaker("a", saying("draft")), Speaker("b", saying("final"))], max_turns=2)
    worker = as_worker(chat, name="chat")
    for _ in range(2):
        answer = await complete(worker, question("?"))
        assert (answer.text, answer.usage) == ("final", Usage(2 * READ, 2 * WRITTEN))


def test_a_team_in_a_second_event_loop_says_what_to_do() -> None:
    """AutoGen binds it to the loop of its first run."""

    async def slow(text: str) -> str:
        await asyncio.sleep(0.01)
        return "said"

    chat = RoundRobinGroupChat([Speaker("a", slow)], max_turns=1)
    conductor = Conductor(planner_of((0, "x", ())), [as_worker(chat, name="chat")])
    assert asyncio.run(conductor.run("?")).answer == "said"
    result = asyncio.run(conductor.run("?"))
    assert result.problem is not None
    assert result.problem.code == "worker_failed"
    assert (
        "in the event loop of its first run only: use one event loop, or run_sync" in result.problem.message
    )


async def test_what_the_manager_of_a_team_used_is_counted() -> None:
    """In each step, the first and later ones."""

    def speak(call: Call) -> Reply:
        return says(call, "b" if "Select" in str(call.body["messages"]) else "done")

    async with ModelServer(speak) as server:
        members: list[Any] = [AssistantAgent(name, server.client()) for name in ("a", "b", "c")]
        prompt = "Select one of {participants}: {roles} {history}"
        chat = SelectorGroupChat(
            members, server.client(), selector_prompt=prompt, max_turns=2, allow_repeated_speaker=True
        )
        for _ in range(2):
            before = len(server.calls)
            answer = await complete(as_worker(chat, name="chat"), question("?"))
            made = len(server.calls) - before
            assert made == 4
            assert answer.usage == Usage(made * USAGE["prompt_tokens"], made * USAGE["completion_tokens"])


@pytest.mark.parametrize(
    ("status", "code", "told"), [(500, "worker_unavailable", "500"), (401, "worker_refused", "key")]
)
async def test_errors_inside_a_team_are_told_as_outside(status: int, code: str, told: str) -> None:
    """With their status, and without the traceback that AutoGen adds."""
    reply = whole({"error": {"message": "not now"}}, status=status)
    async with ModelServer(lambda _: reply) as server:
        chat = RoundRobinGroupChat([AssistantAgent("a", server.client())], max_turns=1)
        with pytest.raises(WorkerError) as caught:
            await complete(as_worker(chat, name="chat"), question("?"))
        with pytest.raises(WorkerError) as alone:
            await complete(as_worker(AssistantAgent("chat", server.client())), question("?"))
    assert caught.value.code == alone.value.code == code
    assert str(caught.value) == str(alone.value)
    assert told in str(caught.value)


async def test_a_cancel_reaches_a_teams_members() -> None:
    async with ModelServer(lambda _: Reply((STALL,))) as server:
        chat = RoundRobinGroupChat([AssistantAgent("a", server.client())], max_turns=1)
        task = asyncio.create_task(complete(as_worker(chat), question("?")))
        with anyio.fail_after(20):
            while not server.calls:  # noqa: ASYNC110 - nothing announces a call
                await anyio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.calls[0].hung_up.wait()


@pytest.mark.parametrize(
    ("status", "stream", "error"), [(429, True, WorkerUnavailable), (401, False, WorkerRefused)]
)
async def test_faults_of_a_server_are_told_as_podiums(
    status: int, error: type[WorkerError], *, stream: bool
) -> None:
    """Of the client's own retries and errors nothing is left."""
    async with ModelServer(lambda _: whole({"error": {"message": "no"}}, status=status)) as server:
        with pytest.raises(error):
            await complete(as_worker(server.client()), question("?", stream=stream))
        assert len(server.calls) == 1


@pytest.mark.parametrize("tail", [(), (CUT,)])
async def test_a_stream_that_was_cut_is_no_answer(tail: Any) -> None:
    """Nobody said why it ended, so that it did not."""
    async with ModelServer(lambda _: events(chunk({"content": "half"}), *tail)) as server:
        with pytest.raises(WorkerBroken) as caught:
            await complete(as_worker(server.client()), question("?", stream=True))
    assert caught.value.maybe_paid


async def test_how_a_model_is_asked() -> None:
    """In the client's words: sampling, a form, tools, roles."""
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    sampling = Sampling(temperature=0.1, max_tokens=9, stop=("END",), constraint=Constraint("json", schema))
    tool = {
        "type": "function",
        "function": {"name": "f", "description": "F.", "parameters": {"type": "object"}},
    }
    messages = (
        Message("system", "Be brief."),
        Message("user", "a"),
        Message("assistant", "b"),
        Message("user", "c"),
    )
    async with ModelServer(echoes) as server:
        asked = replace(
            question("?", stream=True), messages=messages, sampling=sampling, tools=Tools((tool,))
        )
        await complete(as_worker(server.client()), asked)
        body = server.calls[0].body
    assert [(m["role"], m["content"]) for m in body["messages"]] == [
        ("system", "Be brief."),
        ("user", "a"),
        ("assistant", "b"),
        ("user", "c"),
    ]
    assert (body["temperature"], body["max_tokens"], body["stop"]) == (0.1, 9, ["END"])
    assert body["response_format"]["json_schema"]["schema"] == schema
    assert body["tools"][0]["function"]["name"] == "f"
    assert body["stream_options"] == {"include_usage": True}


async def test_images_by_address_are_refused() -> None:
    part = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    async with ModelServer(echoes) as server:
        asked = replace(question("?"), messages=(Message("user", (part,)),))
        with pytest.raises(WorkerRefused, match="data: URLs"):
            await complete(as_worker(server.client()), asked)


def test_cards_say_what_a_thing_is() -> None:
    card = as_worker(Speaker("one", echo)).card
    assert (card.name, card.description, card.concurrency) == ("one", "Speaks as one.", 1)
    told = as_worker(Speaker("one", echo), name="two", description="Other.", labels=["eu"]).card
    assert (told.name, told.description, told.labels, told.concurrency) == ("two", "Other.", {"eu"}, 1)
    with pytest.raises(ConfigError, match="either a card"):
        as_worker(Speaker("one", echo), card=card, name="two")
    with pytest.raises(ConfigError, match="already has a card"):
        as_worker(ScriptedWorker("x", "x"), name="two")
    thing: Any = len
    with pytest.raises(ConfigError, match="FunctionTool"):
        as_worker(thing)


async def test_who_plans() -> None:
    assert isinstance(as_planner(ScriptedWorker("w", "x"), spelling="json"), ChatPlanner)
    fixed = FixedPlanner("x")
    assert as_planner(fixed) is fixed
    with pytest.raises(ConfigError, match="plans by itself: give a model with spelling"):
        as_planner(fixed, spelling="json")
    nobody: Any = len
    with pytest.raises(ConfigError, match="cannot plan"):
        as_planner(nobody)


@pytest.mark.parametrize(
    ("odd", "kind", "stream"),
    [
        (FILTERED, "client", True),
        (CALLS, "client", False),
        (LATIN, "client", True),
        (CALLS, "agent", False),
        (FILTERED, "streaming", False),
        (CALLS, "team", False),
    ],
)
async def test_an_answer_that_is_none_has_its_own_code(odd: OddAnswer, kind: str, *, stream: bool) -> None:
    """AutoGen's agents say neither why a model ended, nor that a tool is unknown, but in the text."""
    async with ModelServer(echoes) as clients:

        def make(url: str) -> Worker:
            client = clients.client(base_url=url)
            agent = AssistantAgent("one", client, model_client_stream=kind == "streaming")
            team = RoundRobinGroupChat([agent], max_turns=1, name="both")
            return as_worker({"client": client, "team": team}.get(kind, agent))

        await check(make, odd, stream=stream)


@pytest.mark.filterwarnings("ignore:No text content or tool calls", "ignore:Resolved model mismatch")
async def test_a_url_of_another_server_is_told() -> None:
    """As with Podium's own client."""
    async with ModelServer(echoes) as clients:
        await check_wrong_url(lambda url: as_worker(clients.client(base_url=url)), stream=False)


@pytest.mark.filterwarnings("ignore:No text content or tool calls")  # AutoGen's
async def test_a_refusal_is_an_empty_answer() -> None:
    """AutoGen's client leaves it out of its results."""
    async with ModelServer(REFUSED.reply) as server:
        worker = as_worker(server.client())
        result = await Conductor(planner_of((0, "x", ())), [worker], retry=Retry(attempts=1)).run("?")
    assert result.problem is not None
    assert (result.status, result.problem.code) == ("failed", "answer_empty")


async def test_an_agents_answer_that_was_cut_is_partial() -> None:
    async with ModelServer(lambda call: says(call, "Once upon", finish_reason="length")) as server:
        agent = AssistantAgent("one", server.client())
        result = await Conductor(planner_of((0, "x", ())), [as_worker(agent)]).run("?")
    assert (result.status, result.answer) == ("partial", "Once upon")
    assert result.problem is not None
    assert result.problem.code == "cut"


async def test_an_agents_tool_that_raises_fails_the_step() -> None:
    """Without another call; the text of the exception is the reason, and not the answer."""

    def broken(city: str) -> str:
        raise ValueError(f"no such city: {city}")

    function = {"name": "broken", "arguments": '{"city": "Bonn"}'}
    asked = [{"id": "1", "type": "function", "function": function}]
    reply = lambda call: says(call, "", finish_reason="tool_calls", tool_calls=asked)  # noqa: E731 - a script
    async with ModelServer(reply) as server:
        agent = AssistantAgent("one", server.client(), tools=[broken])
        result = await Conductor(planner_of((0, "x", ())), [as_worker(agent)]).run("?")
        assert len(server.calls) == 1
    (outcome,) = result.outcomes
    assert (result.status, result.answer, outcome.attempts) == ("failed", "", 1)
    assert outcome.problem is not None
    assert outcome.problem.code == "worker_failed"
    assert "broken: no such city: Bonn" in outcome.problem.message
    assert outcome.usage == Usage(211, 7)
