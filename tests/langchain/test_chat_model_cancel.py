"""Leaving a chat model's call closes the connections of whoever works for it."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import anyio
import pytest
from langchain_core.runnables import RunnableGenerator
from servers.capable import PLAN, capable, is_planning
from servers.chat_server import STALL, Call, ChatServer, Reply, chunk, events, says
from servers.openai_models import openai

from langchain_podium.chat_models import ChatPodium
from podium import ChatPlanner, ChatWorker, Conductor, Endpoint
from podium.errors import LimitExceeded

pytestmark = pytest.mark.anyio


def stalls(call: Call) -> Reply:
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


def of_podium(url: str) -> ChatPodium:
    """Return a model over workers of Podium's."""
    server = Endpoint(url, api_key="key", provider="openai")
    pool = [ChatWorker(name, endpoint=server) for name in ("finder", "writer")]
    return ChatPodium(conductor=Conductor(ChatPlanner(ChatWorker("planner", endpoint=server)), pool))


def of_langchain(url: str) -> ChatPodium:
    """Return a model over chat models of LangChain's."""
    return ChatPodium(planner=openai(url, "planner"), workers=[openai(url, "finder"), openai(url, "writer")])


def of_host(url: str) -> ChatPodium:
    """Return a model over a hosted conductor."""
    server = Endpoint(url, api_key="key", provider="fugu")
    return ChatPodium(conductor=Conductor.of(ChatWorker("fugu", endpoint=server)))


Made = Callable[[str], ChatPodium]
KINDS = pytest.mark.parametrize("made", [of_podium, of_langchain, of_host])


async def hung_up(server: ChatServer) -> None:
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
        return stalls(call)

    async with ChatServer(reply) as server:
        task = asyncio.create_task(made(server.url).ainvoke("What?"))
        with anyio.fail_after(10):
            await begun.wait()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await hung_up(server)


@KINDS
@pytest.mark.parametrize("way", ["close", "cancel"])
async def test_leaving_astream(made: Made, way: str) -> None:
    """After some of the answer: by closing the stream, or by being cancelled."""
    async with ChatServer(stalls) as server:
        stream: Any = made(server.url).astream("What?")
        assert (await anext(stream)).content == "a "
        if way == "cancel":
            assert [(await anext(stream)).content for _ in range(2)] == ["b ", "c "]
            with anyio.move_on_after(0.05):
                await anext(stream)
        await stream.aclose()
        await hung_up(server)


@KINDS
async def test_cancelling_a_chain_it_stands_in(made: Made) -> None:
    """Which streams it, and is cancelled in the middle of the answer."""

    async def collect(pieces: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for piece in pieces:
            yield piece.content

    async with ChatServer(stalls) as server:
        stream = (made(server.url) | RunnableGenerator(collect)).astream("What?")
        assert [await anext(stream) for _ in range(3)] == ["a ", "b ", "c "]
        with anyio.move_on_after(0.05):
            await anext(stream)
        await hung_up(server)


@KINDS
def test_leaving_stream(made: Made) -> None:
    """Of code that is not async."""
    with ChatServer(stalls).in_thread() as server:
        stream: Any = made(server.url).stream("What?")
        assert next(stream).content == "a "
        stream.close()
        end = time.monotonic() + 10
        while not server.calls[-1].hung_up.is_set():
            assert time.monotonic() < end
            time.sleep(0.005)


@KINDS
async def test_timeout_reaches_the_connection(made: Made) -> None:
    """The call's own limit."""
    async with ChatServer(stalls) as server:
        model = made(server.url).model_copy(update={"timeout": 0.5})
        with pytest.raises(LimitExceeded):
            [piece async for piece in model.astream("What?")]
        await hung_up(server)
