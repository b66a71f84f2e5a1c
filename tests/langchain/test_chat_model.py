"""A conductor as a chat model: what it answers, tells and refuses; its run, the runs below it, and tokens."""

import asyncio
import json
from contextlib import suppress
from typing import Any
from uuid import uuid4

import anyio
import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.globals import set_llm_cache
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.runnables import RunnableLambda
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import create_react_agent
from pydantic import ValidationError
from servers.capable import capable, is_planning
from servers.chat_server import STALL, Call, ChatServer, Reply, chunk, events, says
from servers.openai_models import openai

from langchain_podium.chat_models import ChatPodium
from podium import ChatPlanner, ChatWorker, Conductor, Endpoint, Limits, Plan, ScriptedWorker, Step
from podium.errors import ConfigError, LimitExceeded, RunFailed, WorkerBroken
from podium.journal import MemoryJournal
from podium.plan_text import write_plan
from podium.types import Completion
from podium.usage import Usage
from podium.workers import Request

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:create_react_agent has been moved")]
PLAN = write_plan(Plan((Step(0, "Look it up."), Step(1, "Answer.", (0,)))), "rows")


def _planner() -> ChatPlanner:
    return ChatPlanner(ScriptedWorker("planner", Completion(PLAN, usage=Usage(208, 2))))


def _scripted(**more: Any) -> ChatPodium:
    """Return a chat model over two scripted workers, the second of which answers in pieces."""
    return ChatPodium(conductor=Conductor(_planner(), [_finder(), _writer()], **more))


def _finder() -> ScriptedWorker:
    return ScriptedWorker("finder", Completion("It is 42.", usage=Usage(20, 5)))


def _writer(reply: Any = None) -> ScriptedWorker:
    return ScriptedWorker("writer", reply or Completion("Forty-two.", usage=Usage(30, 7)), piece=4)


async def test_the_answer_and_what_is_told_of_the_run() -> None:
    """The plan, its steps, their tokens and the run's id stand in the message, as plain JSON."""
    message = await _scripted().ainvoke("What is six times seven?")
    assert (type(message), message.content) == (AIMessage, "Forty-two.")
    told = message.response_metadata
    assert (told["model_name"], told["finish_reason"]) == ("podium", "stop")
    podium = told["podium"]
    assert json.loads(json.dumps(podium)) == podium
    assert [step["subtask"] for step in podium["plan"]["steps"]] == ["Look it up.", "Answer."]
    steps = [(s["worker"], s["status"], s["access"], s["usage"]["total_tokens"]) for s in podium["steps"]]
    assert steps == [("finder", "ok", [], 25), ("writer", "ok", [0], 37)]
    assert podium["usage"]["total_tokens"] == 272
    assert (podium["status"], podium["problem"], podium["cost"]) == ("ok", None, 0.0)
    assert "continuation" not in podium


async def test_the_answer_alone_is_streamed_as_it_comes() -> None:
    """Pieces of the last step's text; what the run came to is in the last chunk, and only there."""
    chunks = [chunk async for chunk in _scripted().astream("What?")]
    assert [chunk.content for chunk in chunks] == ["Fort", "y-tw", "o.", ""]
    assert [chunk.chunk_position for chunk in chunks] == [None, None, None, "last"]
    assert all(chunk.usage_metadata is None for chunk in chunks[:-1])
    last = chunks[-1]
    assert last.usage_metadata["total_tokens"] == 272
    assert (last.response_metadata["podium"]["status"], len({chunk.id for chunk in chunks})) == ("ok", 1)


async def test_tokens_of_a_result_that_is_read_back_are_not_reported_again() -> None:
    """So `UsageMetadataCallbackHandler` counts each call once; the metadata has the whole run's."""
    pool, run_id, seen = [_finder(), _writer()], uuid4(), UsageMetadataCallbackHandler()
    model = ChatPodium(conductor=Conductor(_planner(), pool, journal=MemoryJournal()))

    config: Any = {"run_id": run_id, "callbacks": [seen]}
    assert (await model.ainvoke("What?", config=config)).usage_metadata["total_tokens"] == 272
    chunks = [chunk async for chunk in model.astream("What?", config=config)]
    again: Any = sum(chunks[1:], chunks[0])
    assert again.usage_metadata["total_tokens"] == 0
    assert again.response_metadata["podium"]["usage"]["total_tokens"] == 272
    assert (seen.usage_metadata["podium"]["total_tokens"], len(pool[1].requests)) == (272, 1)


async def test_sampling_is_the_last_workers() -> None:
    """Temperature, length and stops are for who writes the answer; the others write as they do."""
    pool = [_finder(), _writer()]
    model = ChatPodium(conductor=Conductor(_planner(), pool), temperature=0.5, max_tokens=9)
    await model.bind(max_tokens=99).ainvoke("What?", stop=["END"])
    first, last = pool[0].requests[0].sampling, pool[1].requests[0].sampling
    assert (last.temperature, last.max_tokens, last.stop) == (0.5, 99, ("END",))
    assert (first.temperature, first.max_tokens, first.stop) == (None, None, ())


async def test_made_of_parts() -> None:
    """A planner and workers make a conductor; `max_retries` is its number of further calls."""
    attempts: list[Request] = []

    def reply(request: Request) -> Any:
        attempts.append(request)
        return WorkerBroken("cut off") if len(attempts) < 3 else "Forty-two."

    made = ChatPodium(planner=_planner(), workers=[_finder(), _writer(reply)], max_retries=2)
    assert ((await made.ainvoke("What?")).content, len(attempts)) == ("Forty-two.", 3)
    attempts.clear()
    once = ChatPodium(planner=_planner(), workers=[_finder(), _writer(reply)], max_retries=0)
    with pytest.raises(RunFailed, match="cut off"):
        await once.ainvoke("What?")
    assert len(attempts) == 1


CONDUCTOR = Conductor(_planner(), [_finder()])


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({}, "has no planner"),
        ({"conductor": CONDUCTOR, "max_retries": 2}, "has its own"),
        ({"conductor": CONDUCTOR, "api_key": "key"}, "not accept api_key: its opt"),
        ({"planner": _planner(), "workers": [], "limit": Limits()}, r"limit \(did you mean limits\?"),
        ({"conductor": CONDUCTOR, "timeout": 0}, "greater than 0"),
    ],
)
def test_wrong_parameters_are_refused(said: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        ChatPodium(**said)


async def test_wrong_arguments_of_a_call_are_refused() -> None:
    with pytest.raises(ConfigError, match="a conductor has no model of its own"):
        await _scripted().ainvoke("What?", model="gpt-5")
    with pytest.raises(ConfigError, match="response_format"):
        await _scripted().ainvoke("What?", response_format={"type": "json_object"})


async def test_langchains_cache_is_not_asked_unless_it_is_wanted() -> None:
    """It would know an answer by the question alone, and nothing of the conductor's policy or journal."""
    pool = [_finder(), _writer()]
    conductor = Conductor(_planner(), pool)
    set_llm_cache(InMemoryCache())
    try:
        for options, calls in (({}, 2), ({"cache": True}, 3)):
            for _ in range(2):
                await ChatPodium(conductor=conductor, **options).ainvoke("What?")
            assert len(pool[1].requests) == calls
    finally:
        set_llm_cache(None)


KEYS = ("input_tokens", "output_tokens", "total_tokens")


def _plain(name: str, usage: Usage, text: str = "Known.") -> ScriptedWorker:
    """Return a worker of Podium's, no run of which tells LangChain of tokens."""
    return ScriptedWorker(name, Completion(text, usage=usage))


def _parts(url: str) -> dict[str, Any]:
    return {"planner": openai(url, "planner"), "workers": [openai(url, "finder"), openai(url, "writer")]}


def _mixed(url: str) -> dict[str, Any]:
    planner = ChatPlanner(_plain("planner", Usage(1000, 1), PLAN))
    return {"planner": planner, "workers": [_plain("a", Usage(100, 10, cached_tokens=40)), openai(url, "b")]}


def _chained(url: str) -> dict[str, Any]:
    chain = RunnableLambda(lambda text: text, name="a") | openai(url, "b")
    agent = create_react_agent(openai(url, "c"), [], name="agent")
    return {"planner": openai(url, "p"), "workers": [chain, agent]}


@pytest.mark.parametrize(
    ("make", "way", "expected"),
    [
        (_parts, "invoke", (633, 21, 654)),
        (_mixed, "astream", (1311, 18, 1329)),
        (_chained, "stream", (633, 21, 654)),
        (_chained, "astream_events", (633, 21, 654)),
    ],
    ids=["all of LangChain's", "one worker of each", "a chain and an agent", "events"],
)
async def test_tokens_are_counted_once(make: Any, way: str, expected: tuple[int, int, int]) -> None:
    """What LangChain's handler sees, of this run and of all below it, is what the run took."""
    handler, message = UsageMetadataCallbackHandler(), None
    with ChatServer(capable).in_thread() as server:
        model = ChatPodium(**make(server.url))
        config: Any = {"callbacks": [handler]}
        match way:
            case "invoke":
                message = model.invoke("What?", config=config)
            case "astream":
                message = [chunk async for chunk in model.astream("What?", config=config)][-1]
            case "stream":
                message = list(model.stream("What?", config=config))[-1]
            case "astream_events":
                chain = model | RunnableLambda(lambda answer: answer)
                async for event in chain.astream_events("What?", config=config, version="v2"):
                    if event["event"] == "on_chat_model_end" and event["name"] == "ChatPodium":
                        message = event["data"]["output"]
    seen = handler.usage_metadata.values()
    counted = tuple(sum(int(one[key]) for one in seen) for key in KEYS)
    usage = message.response_metadata["podium"]["usage"]
    assert counted == tuple(usage[key] for key in KEYS) == expected
    assert message.usage_metadata is not None


async def test_langgraph_streams_the_answer_alone() -> None:
    """Of a node that asks it, `stream_mode="messages"` shows no plan and no step."""

    async def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    with ChatServer(capable).in_thread() as server:
        model = ChatPodium(**_parts(server.url))
        graph = StateGraph(MessagesState).add_node("ask", ask).add_edge(START, "ask").compile()
        asked: Any = {"messages": [("user", "What?")]}
        pieces = [message async for message, _ in graph.astream(asked, stream_mode="messages")]
    assert all(isinstance(piece, AIMessageChunk) for piece in pieces)
    assert "".join(str(piece.content) for piece in pieces) == "Hello to you, too."
    assert len(pieces) > 2


def _stalls(call: Call) -> Reply:
    """Plan; find; and then write three words and no more, or nothing at all."""
    if is_planning(call):
        return says(call, PLAN)
    if call.body["model"] == "finder":
        return capable(call)
    started = [chunk({"role": "assistant", "content": ""}), *(chunk({"content": f"{c} "}) for c in "abc")]
    return events(*started, STALL) if call.body.get("stream") else Reply((STALL,))


def _of_langchain(url: str) -> ChatPodium:
    return ChatPodium(**_parts(url))


def _of_host(url: str) -> ChatPodium:
    server = Endpoint(url, api_key="key", provider="fugu")
    return ChatPodium(conductor=Conductor.of(ChatWorker("fugu", endpoint=server)))


async def _hung_up(server: ChatServer) -> None:
    """Wait until the server sees that the one who asked last has left."""
    with anyio.fail_after(10):
        await server.calls[-1].hung_up.wait()


async def test_cancelling_ainvoke() -> None:
    begun = asyncio.Event()

    def reply(call: Call) -> Reply:
        if call.body["model"] == "writer":
            begun.set()
        return _stalls(call)

    async with ChatServer(reply) as server:
        task = asyncio.create_task(_of_langchain(server.url).ainvoke("What?"))
        with anyio.fail_after(10):
            await begun.wait()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await _hung_up(server)


@pytest.mark.parametrize(("made", "way"), [(_of_langchain, "cancel"), (_of_host, "close")])
async def test_leaving_astream(made: Any, way: str) -> None:
    """After some of the answer: by closing the stream, or by being cancelled."""
    async with ChatServer(_stalls) as server:
        stream: Any = made(server.url).astream("What?")
        assert (await anext(stream)).content == "a "
        if way == "cancel":
            assert [(await anext(stream)).content for _ in range(2)] == ["b ", "c "]
            with anyio.move_on_after(0.05):
                await anext(stream)
        await stream.aclose()
        await _hung_up(server)


async def test_timeout_reaches_the_connection() -> None:
    async with ChatServer(_stalls) as server:
        model = _of_langchain(server.url).model_copy(update={"timeout": 2.5})
        with pytest.raises(LimitExceeded, match=r"2\.5 s"):
            [piece async for piece in model.astream("What?")]
        await _hung_up(server)
