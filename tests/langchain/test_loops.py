"""LangChain's faces in many event loops and threads, with the clients that `ChatOpenAI` makes."""

from collections.abc import Callable
from typing import Any

import pytest
from contracts.loops_contract import MODES, RUNS, Face, Mode, check_loops
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import SecretStr
from servers.chat_server import MODEL

from langchain_podium import ChatPodium, ConductorRunnable, as_planner, as_worker
from langchain_podium.graph import conductor_node
from podium import Conductor
from podium.execution import Retry


def conductor(url: str) -> Conductor:
    """Return a conductor of two models, as the documentation makes them."""
    planner, worker = (
        ChatOpenAI(model=MODEL, base_url=url, api_key=SecretStr("sk-loopback-key"), max_retries=0)
        for _ in range(2)
    )
    workers = [as_worker(worker, name="worker")]
    return Conductor(as_planner(planner, name="planner"), workers, retry=Retry(attempts=1))


def runnable(url: str) -> Face:
    """Return a conductor as a Runnable."""
    asked: Any = ConductorRunnable(conductor(url), partial="raise")
    return Face(lambda: asked.ainvoke("Why?"), lambda: asked.invoke("Why?"))


def streamed(url: str) -> Face:
    """Return a conductor as a Runnable whose answer is streamed."""
    asked: Any = ConductorRunnable(conductor(url), partial="raise")

    async def ask() -> str:
        return "".join([piece async for piece in asked.astream("Why?")])

    return Face(ask, lambda: "".join(asked.stream("Why?")))


def chat_model(url: str) -> Face:
    """Return a conductor as a chat model."""
    chat = ChatPodium(conductor=conductor(url))

    async def ask() -> str:
        return str((await chat.ainvoke("Why?")).text)

    return Face(ask, lambda: str(chat.invoke("Why?").text))


def node(url: str) -> Face:
    """Return a graph with a conductor as its node."""
    graph = StateGraph(MessagesState)
    graph.add_node("conductor", conductor_node(conductor(url)))
    graph.add_edge(START, "conductor")
    app, asked = graph.compile(), MessagesState(messages=[("user", "Why?")])  # type: ignore[list-item]

    async def ask() -> str:
        return str((await app.ainvoke(asked))["messages"][-1].text)

    return Face(ask, lambda: str(app.invoke(asked)["messages"][-1].text))


@pytest.mark.long
@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize("make", [runnable, streamed, chat_model, node])
def test_no_call_is_lost_whatever_loop_it_is_made_in(
    make: Callable[[str], Face], mode: Mode, runs: int
) -> None:
    """Every answer is whole, and the server got each call once."""
    check_loops(make, mode, runs)
