"""AutoGen's agents, teams, tools and model clients as workers, and prices of model clients."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from autogen.speaking import READ, WRITTEN, ModelServer, Speaker, SpeakingClient
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.teams import RoundRobinGroupChat, SelectorGroupChat
from autogen_ext.models.openai import OpenAIChatCompletionClient
from contracts.adapter_contract import planner_of, saying
from contracts.known_prices import MODEL, OPENAI, check_planner, check_prices
from contracts.odd_answers import CALLS, FILTERED, LATIN, WRONG_URL, Case, check_case
from contracts.worker_contract import WorkerContract, question
from servers.chat_server import STALL, USAGE, Call, Reply, says, whole

from autogen_podium import as_planner, as_worker
from autogen_podium.agent_framework import as_planner as framework_planner, as_worker as framework_worker
from podium import Conductor, Price, ScriptedWorker
from podium.errors import ConfigError, WorkerUnavailable
from podium.hosts import tool_call
from podium.usage import Usage
from podium.workers import Card, Request, Worker, complete

pytestmark = pytest.mark.anyio


async def echo(text: str) -> str:
    return f"heard {text}"


async def hang(text: str) -> str:
    await anyio.sleep_forever()
    return ""


def echoes(call: Call) -> Reply:
    return says(call, f"heard {call.body['messages'][-1]['content']}")


class TestAgentWorker(WorkerContract):
    @pytest.fixture
    def worker(self) -> Worker:
        return as_worker(Speaker("one", echo))

    @pytest.fixture
    def slow_worker(self) -> Worker:
        return as_worker(Speaker("one", hang))

    def asking(self, text: str, *, stream: bool = False) -> Request:
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


async def test_what_an_agent_used_is_on_the_bill_when_it_fails_too() -> None:
    def once(call: Call) -> Reply:
        if call.body["messages"][-1]["role"] == "tool":
            return whole({"error": {"message": "overloaded"}}, status=503)
        asked = [tool_call("1", "echo", '{"text": "hi"}')]
        return says(call, "", finish_reason="tool_calls", tool_calls=asked)

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
    async def slow(text: str) -> str:
        await asyncio.sleep(0.01)
        return "said"

    chat = RoundRobinGroupChat([Speaker("a", slow)], max_turns=1)
    conductor = Conductor(planner_of((0, "x", ())), [as_worker(chat, name="chat")])
    assert asyncio.run(conductor.run("?")).answer == "said"
    result = asyncio.run(conductor.run("?"))
    assert result.problem.code == "worker_failed"
    told = "in the event loop of its first run only: use one event loop, or run_sync"
    assert told in result.problem.message


async def test_what_the_manager_of_a_team_used_is_counted() -> None:
    def speak(call: Call) -> Reply:
        return says(call, "b" if "Select" in str(call.body["messages"]) else "done")

    async with ModelServer(speak) as server:
        members: list[Any] = [AssistantAgent(name, server.client()) for name in ("a", "b", "c")]
        options: Any = {"selector_prompt": "Select one of {participants}: {roles} {history}", "max_turns": 2}
        chat = SelectorGroupChat(members, server.client(), allow_repeated_speaker=True, **options)
        for made in (4, 8):
            answer = await complete(as_worker(chat, name="chat"), question("?"))
            assert len(server.calls) == made
            assert answer.usage == Usage(4 * USAGE["prompt_tokens"], 4 * USAGE["completion_tokens"])


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


@pytest.mark.filterwarnings("ignore:No text content or tool calls", "ignore:Resolved model mismatch")
@pytest.mark.parametrize(
    ("case", "kind", "stream"),
    [
        *((case, "client", True) for case in (FILTERED, LATIN)),
        *((case, "client", False) for case in (CALLS, WRONG_URL)),
        *((case, "team", False) for case in (CALLS, "length")),
        (FILTERED, "streaming", False),
    ],
)
async def test_how_an_answer_ends(case: Case, kind: str, *, stream: bool) -> None:
    """AutoGen's agents say neither why a model ended, nor that a tool is unknown, but in the text."""
    async with ModelServer(echoes) as clients:

        def make(url: str) -> Worker:
            client = clients.client(base_url=url)
            agent = AssistantAgent("one", client, model_client_stream=kind == "streaming")
            team = RoundRobinGroupChat([agent], max_turns=1, name="both")
            return as_worker({"client": client, "team": team}.get(kind, agent))

        await check_case(make, case, stream=stream)


async def test_an_agents_tool_that_raises_fails_the_step() -> None:
    """Without another call; the text of the exception is the reason, and not the answer."""

    def broken(city: str) -> str:
        raise ValueError(f"no such city: {city}")

    asked = [tool_call("1", "broken", '{"city": "Bonn"}')]
    async with ModelServer(lambda c: says(c, "", finish_reason="tool_calls", tool_calls=asked)) as server:
        agent = AssistantAgent("one", server.client(), tools=[broken])
        result = await Conductor(planner_of((0, "x", ())), [as_worker(agent)]).run("?")
        assert len(server.calls) == 1
    (outcome,) = result.outcomes
    assert (result.status, result.answer, outcome.attempts) == ("failed", "", 1)
    assert outcome.problem.code == "worker_failed"
    assert "broken: no such city: Bonn" in outcome.problem.message
    assert outcome.usage == Usage(211, 7)


def _client(url: str | None = None) -> OpenAIChatCompletionClient:
    options: Any = {} if url is None else {"base_url": url}
    return OpenAIChatCompletionClient(model=MODEL, api_key="k", **options)


def test_a_model_client_has_the_price_of_its_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a worker and as a planner; its own name alone says nothing."""
    for name in ("OPENAI_API_BASE", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)

    def make(url: str | None, /, *, card: Card | None = None) -> Worker:
        return as_worker(_client(url), card=card)

    check_prices(make)
    check_planner(as_planner(_client()))


class _Client(SpeakingClient):
    """A chat client that says where its service is, as those of Agent Framework's providers do."""

    def __init__(self, url: str | None = OPENAI) -> None:
        super().__init__(lambda *_: "")
        self.model = MODEL
        self._url = url

    def service_url(self) -> str:
        return self._url or OPENAI


def test_a_chat_client_of_agent_framework_has_the_price_of_its_service() -> None:
    """As a worker and as a planner; one that does not say its service has none."""

    def make(url: str | None, /, *, card: Card | None = None) -> Worker:
        return framework_worker(_Client(url), card=card)

    check_prices(make)
    check_planner(framework_planner(_Client()))
    assert framework_worker(SpeakingClient(lambda *_: "")).card.price is None
