"""A chat model's run, those below it, and tokens: each counted once, whoever worked."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
import pytest
from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.messages import AIMessageChunk
from langchain_core.runnables import RunnableLambda
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import create_react_agent
from servers.capable import PLAN, capable, is_planning
from servers.chat_server import STALL, Call, ChatServer, Reply, chunk, events, says
from servers.openai_models import openai

from langchain_podium.chat_models import ChatPodium
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
        ("all of LangChain's", "invoke"),
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


def _of_langchain(url: str) -> ChatPodium:
    return ChatPodium(planner=openai(url, "planner"), workers=[openai(url, "finder"), openai(url, "writer")])


def _of_host(url: str) -> ChatPodium:
    server = Endpoint(url, api_key="key", provider="fugu")
    return ChatPodium(conductor=Conductor.of(ChatWorker("fugu", endpoint=server)))


Made = Callable[[str], ChatPodium]


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


async def test_timeout_reaches_the_connection() -> None:
    async with ChatServer(_stalls) as server:
        model = _of_langchain(server.url).model_copy(update={"timeout": 2.5})
        with pytest.raises(LimitExceeded, match=r"2\.5 s"):
            [piece async for piece in model.astream("What?")]
        await _hung_up(server)
