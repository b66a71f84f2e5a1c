"""A chat model's run, those below it, and tokens: each counted once, whoever worked."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from inspect import isawaitable
from typing import Any
from uuid import UUID

import anyio
import pytest
from langchain_core.callbacks import BaseCallbackHandler, UsageMetadataCallbackHandler
from langchain_core.messages import AIMessageChunk
from langchain_core.runnables import RunnableGenerator, RunnableLambda
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import create_react_agent
from servers.capable import PLAN, capable, is_planning
from servers.chat_server import STALL, Call, ChatServer, Reply, chunk, events, says
from servers.openai_models import openai

from langchain_podium.chat_models import ChatPodium
from langchain_podium.workers import as_planner
from podium import ChatPlanner, ChatWorker, Conductor, Endpoint, ScriptedWorker
from podium.errors import LimitExceeded
from podium.types import Completion
from podium.usage import Usage

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:create_react_agent has been moved")]


def _counted(handler: UsageMetadataCallbackHandler) -> tuple[int, int, int]:
    seen = handler.usage_metadata.values()
    return tuple(
        sum(int(one[key]) for one in seen) for key in ("input_tokens", "output_tokens", "total_tokens")
    )


def _total(podium: dict[str, Any]) -> tuple[int, int, int]:
    usage = podium["usage"]
    return usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]


def _plain(name: str) -> ScriptedWorker:
    """Return a worker of Podium's, no run of which tells LangChain of tokens."""
    return ScriptedWorker(name, Completion("Known.", usage=Usage(100, 10, cached_tokens=40)))


def _plain_planner() -> ChatPlanner:
    return ChatPlanner(ScriptedWorker("planner", Completion(PLAN, usage=Usage(1000, 1))))


Pools = Callable[[str], dict[str, Any]]
MIXES: dict[str, tuple[Pools, tuple[int, int, int]]] = {
    "all of Podium's": (
        lambda url: {"planner": _plain_planner(), "workers": [_plain("a"), _plain("b")]},
        (1200, 21, 1221),
    ),
    "all of LangChain's": (
        lambda url: {"planner": openai(url, "p"), "workers": [openai(url, "a"), openai(url, "b")]},
        (633, 21, 654),
    ),
    "one worker of each": (
        lambda url: {"planner": _plain_planner(), "workers": [_plain("a"), openai(url, "b")]},
        (1311, 18, 1329),
    ),
    "a chain and an agent": (
        lambda url: {
            "planner": openai(url, "p"),
            "workers": [
                RunnableLambda(lambda text: text, name="a") | openai(url, "b"),
                create_react_agent(openai(url, "c"), [], name="agent"),
            ],
        },
        (633, 21, 654),
    ),
}


@pytest.mark.parametrize(
    ("mix", "way"),
    [
        ("all of Podium's", "invoke"),
        ("all of LangChain's", "ainvoke"),
        ("one worker of each", "astream"),
        ("a chain and an agent", "stream"),
        ("a chain and an agent", "astream_events"),
    ],
)
async def test_tokens_are_counted_once(mix: str, way: str) -> None:
    """What LangChain's handler sees, of this run and of all below it, is what the run took."""
    make, expected = MIXES[mix]
    handler, message = UsageMetadataCallbackHandler(), None
    with ChatServer(capable).in_thread() as server:
        model = ChatPodium(**make(server.url))
        config: Any = {"callbacks": [handler]}
        match way:
            case "ainvoke":
                message = await model.ainvoke("What?", config=config)
            case "invoke":
                message = model.invoke("What?", config=config)
            case "astream":
                async for chunk in model.astream("What?", config=config):
                    message = chunk
            case "stream":
                for chunk in model.stream("What?", config=config):
                    message = chunk
            case "astream_events":
                chain = model | RunnableLambda(lambda answer: answer)
                async for event in chain.astream_events("What?", config=config, version="v2"):
                    if event["event"] == "on_chat_model_end" and event["name"] == "ChatPodium":
                        message = event["data"]["output"]
    assert _counted(handler) == _total(message.response_metadata["podium"]) == expected
    assert message.usage_metadata is not None


async def test_calls_that_came_to_nothing_are_counted_too() -> None:
    """A handler never sees a call that failed; the run was billed for it all the same."""
    failing = True

    def reply(call: Call) -> Reply:
        nonlocal failing
        if not is_planning(call) and failing:
            failing = False
            return says(call, "cut of", finish_reason=None)
        return capable(call)

    handler = UsageMetadataCallbackHandler()
    with ChatServer(reply).in_thread() as server:
        planner, pool = as_planner(openai(server.url, "p")), [_plain("a"), openai(server.url, "b")]
        conductor = ChatPodium(planner=planner, workers=pool)
        message = await conductor.ainvoke("What?", config={"callbacks": [handler]})
    podium = message.response_metadata["podium"]
    assert _counted(handler) == _total(podium)
    assert podium["steps"][1]["attempts"] == 2


class _Tree(BaseCallbackHandler):
    """Records which runs were begun, and under which; and custom events."""

    def __init__(self) -> None:
        self.names: dict[UUID, str] = {}
        self.parents: dict[str, str | None] = {}
        self.tags: dict[str, list[str]] = {}
        self.metadata: dict[str, dict[str, Any]] = {}
        self.ended: list[str] = []
        self.told: list[tuple[str, UUID]] = []

    def _begin(
        self, what: Any, *_: Any, run_id: UUID, parent_run_id: UUID | None = None, **facts: Any
    ) -> None:
        name = facts.get("name") or what["id"][-1]
        self.names[run_id] = name
        self.parents[name] = None if parent_run_id is None else self.names[parent_run_id]
        self.tags[name], self.metadata[name] = facts.get("tags") or [], facts.get("metadata") or {}

    def _end(self, *_: Any, run_id: UUID, **facts: Any) -> None:
        self.ended.append(self.names[run_id])

    def on_custom_event(self, name: str, data: Any, *, run_id: UUID, **_: Any) -> None:
        self.told.append((name, run_id))

    on_chain_start = on_chat_model_start = _begin
    on_chain_end = on_llm_end = _end


async def _events(model: ChatPodium, config: Any) -> list[Any]:
    return [event async for event in await model.astream_events("What?", config=config, version="v3")]


WAYS: dict[str, Callable[[ChatPodium, Any], Any]] = {
    "ainvoke": lambda model, config: model.ainvoke("What?", config=config),
    "streaming": lambda model, config: model.model_copy(update={"streaming": True}).ainvoke("What?", config),
    "events": _events,
    "sync stream": lambda model, config: list(model.stream("What?", config=config)),
    "sync events": lambda model, config: list(model.stream_events("What?", config=config, version="v3")),
}


@pytest.mark.parametrize("call", WAYS.values(), ids=WAYS)
@pytest.mark.filterwarnings("ignore:.*beta")
async def test_steps_are_runs_below_the_models(call: Any) -> None:
    """Every way to call it, in a chain or not: the planner's call and each step's stand below its run."""
    tree = _Tree()
    with ChatServer(capable).in_thread() as server:
        model = ChatPodium(planner=_plain_planner(), workers=[_plain("a"), openai(server.url, "b")])
        config = {"callbacks": [tree], "tags": ["mine"], "metadata": {"user": "7"}, "run_name": "ask"}
        called = call(model, config)
        assert (await called) if isawaitable(called) else called
        with anyio.fail_after(5):
            while "ask" not in tree.ended:  # noqa: ASYNC110 - LangChain ends the run after the last event
                await anyio.sleep(0.001)
    assert tree.parents == {"ask": None, "planner": "ask", "a": "ask", "b": "ask", "ChatOpenAI": "b"}
    assert sorted(tree.ended) == sorted(tree.parents)
    for name in tree.parents:
        assert "mine" in tree.tags[name]
        assert tree.metadata[name]["user"] == "7"
    assert tree.metadata["b"]["podium_step"] == 1
    assert "ls_model_name" not in tree.metadata["b"]
    assert tree.metadata["ChatOpenAI"]["ls_model_name"] == "b"
    names = [name for name, run_id in tree.told if tree.names[run_id] == "ask"]
    assert (names[0], names[-1]) == ("podium_run_started", "podium_run_ended")
    assert len(names) == len(tree.told)


async def test_langgraph_streams_the_answer_alone() -> None:
    """Of a node that asks it, `stream_mode="messages"` shows no plan and no step."""

    async def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    with ChatServer(capable).in_thread() as server:
        model = ChatPodium(
            planner=openai(server.url, "p"), workers=[openai(server.url, "a"), openai(server.url, "b")]
        )
        graph = (
            StateGraph(MessagesState)
            .add_node("ask", ask)
            .add_edge(START, "ask")
            .add_edge("ask", END)
            .compile()
        )
        pieces = [
            message
            async for message, _ in graph.astream({"messages": [("user", "What?")]}, stream_mode="messages")
        ]
    assert all(isinstance(piece, AIMessageChunk) for piece in pieces)
    assert "".join(str(piece.content) for piece in pieces) == "Hello to you, too."
    assert len(pieces) > 2


def _stalls(call: Call) -> Reply:
    """Plan; find; and then write three words and no more, or nothing at all."""
    if is_planning(call):
        return says(call, PLAN)
    if call.body["model"] == "finder":
        return capable(call)
    started = [
        chunk({"role": "assistant", "content": ""}),
        *(chunk({"content": word}) for word in ("a ", "b ", "c ")),
    ]
    return events(*started, STALL) if call.body.get("stream") else Reply((STALL,))


def _of_podium(url: str) -> ChatPodium:
    server = Endpoint(url, api_key="key", provider="openai")
    pool = [ChatWorker(name, endpoint=server) for name in ("finder", "writer")]
    return ChatPodium(conductor=Conductor(ChatPlanner(ChatWorker("planner", endpoint=server)), pool))


def _of_langchain(url: str) -> ChatPodium:
    return ChatPodium(planner=openai(url, "planner"), workers=[openai(url, "finder"), openai(url, "writer")])


def _of_host(url: str) -> ChatPodium:
    server = Endpoint(url, api_key="key", provider="fugu")
    return ChatPodium(conductor=Conductor.of(ChatWorker("fugu", endpoint=server)))


Made = Callable[[str], ChatPodium]
KINDS = pytest.mark.parametrize("made", [_of_podium, _of_langchain, _of_host])


async def _hung_up(server: ChatServer) -> None:
    """Wait until the server sees that the one who asked last has left."""
    with anyio.fail_after(10):
        await server.calls[-1].hung_up.wait()


@KINDS
async def test_cancelling_ainvoke(made: Made) -> None:
    """The task that asks is cancelled while the answer is awaited."""
    begun = asyncio.Event()

    def reply(call: Call) -> Reply:
        if call.body["model"] in ("writer", "fugu"):
            begun.set()
        return _stalls(call)

    async with ChatServer(reply) as server:
        task = asyncio.create_task(made(server.url).ainvoke("What?"))
        with anyio.fail_after(10):
            await begun.wait()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await _hung_up(server)


@pytest.mark.parametrize(
    ("made", "way"), [(_of_podium, "close"), (_of_langchain, "cancel"), (_of_host, "close")]
)
async def test_leaving_astream(made: Made, way: str) -> None:
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


async def test_cancelling_a_chain_it_stands_in() -> None:
    """Which streams it, and is cancelled in the middle of the answer."""

    async def collect(pieces: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for piece in pieces:
            yield piece.content

    async with ChatServer(_stalls) as server:
        stream = (_of_langchain(server.url) | RunnableGenerator(collect)).astream("What?")
        assert [await anext(stream) for _ in range(3)] == ["a ", "b ", "c "]
        with anyio.move_on_after(0.05):
            await anext(stream)
        await _hung_up(server)


def test_leaving_stream() -> None:
    """Of code that is not async."""
    with ChatServer(_stalls).in_thread() as server:
        stream: Any = _of_langchain(server.url).stream("What?")
        assert next(stream).content == "a "
        stream.close()
        end = time.monotonic() + 10
        while not server.calls[-1].hung_up.is_set():
            assert time.monotonic() < end
            time.sleep(0.005)


async def test_timeout_reaches_the_connection() -> None:
    """The call's own limit."""
    async with ChatServer(_stalls) as server:
        model = _of_langchain(server.url).model_copy(update={"timeout": 1.0})
        with pytest.raises(LimitExceeded, match=r"1\.0 s|1 s"):
            [piece async for piece in model.astream("What?")]
        await _hung_up(server)
