"""What a graph with a conductor streams as messages."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
from graphs.conducted import ASKED, around
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from servers.chat_server import Call, ChatServer, Reply, says

from langchain_podium.graph.conducted import Executor
from langchain_podium.workers import as_planner, as_worker
from podium import Conductor

OpenAI = Callable[..., ChatOpenAI]
pytestmark = pytest.mark.anyio

PLAN = '{"worker": 0, "subtask": "look", "access": []}\n{"worker": 0, "subtask": "write", "access": [0]}\n'


def _reply(call: Call) -> Reply:
    prompt = str(call.body["messages"])
    if "Worker 0: clerk" in prompt:
        return says(call, PLAN)
    return says(call, "It is forty two." if "write" in prompt else "some notes here")


def _conductor(url: str, openai: OpenAI) -> Conductor:
    model = openai(url)
    return Conductor(as_planner(model, name="chief"), [as_worker(model, name="clerk")])


def _saver(*, kept: bool) -> tuple[Any, Any]:
    return (InMemorySaver(), {"configurable": {"thread_id": "1"}}) if kept else (None, {})


async def _messages(graph: Any, config: Any, *, subgraphs: bool) -> tuple[list[tuple[Any, Any]], Any]:
    """Return the streamed messages with their metadata, and the state at the end."""
    found, state = list[Any](), None
    modes: Any = {"stream_mode": ["messages", "values"], "subgraphs": subgraphs}
    async for part in graph.astream(ASKED, config, **modes):
        mode, data = part[-2:]
        if mode == "messages":
            found.append(data)
        elif not subgraphs or part[0] == ():
            state = data
    return found, state


@pytest.mark.parametrize(
    ("executor", "kept", "subgraphs"),
    [("podium", True, True), ("langgraph", False, False)],
)
async def test_the_answer_alone_is_streamed_token_by_token_as_the_message_of_the_state(
    *, executor: Executor, kept: bool, subgraphs: bool, openai: OpenAI
) -> None:
    """Once, under one id; what the planner and the other steps write is not a message."""
    saver, config = _saver(kept=kept)
    async with ChatServer(_reply) as server:
        graph = around(_conductor(server.url, openai), executor=executor, checkpointer=saver)
        found, state = await _messages(graph, config, subgraphs=subgraphs)
    assert "".join(message.text for message, _ in found) == "It is forty two."
    assert len(found) > 2
    assert {message.id for message, _ in found} == {state["messages"][-1].id}
    assert state["podium"]["message_id"] == state["messages"][-1].id
    assert {(facts["langgraph_node"], facts["podium_role"]) for _, facts in found} == {
        ("conductor", "answer")
    }


@pytest.mark.parametrize(("executor", "kept"), [("podium", False), ("langgraph", True)])
async def test_with_all_each_text_is_a_message_that_names_its_step_and_its_role(
    *, executor: Executor, kept: bool, openai: OpenAI
) -> None:
    saver, config = _saver(kept=kept)
    async with ChatServer(_reply) as server:
        graph = around(_conductor(server.url, openai), executor=executor, checkpointer=saver, show_steps=True)
        found, state = await _messages(graph, config, subgraphs=False)
    texts, ids = defaultdict[Any, str](str), defaultdict[Any, set[str]](set)
    for message, facts in found:
        key = facts["podium_role"], facts.get("podium_step"), facts["podium_worker"]
        texts[key] += message.text
        ids[key].add(message.id)
    assert texts == {
        ("planner", None, "chief"): PLAN,
        ("worker", 0, "clerk"): "some notes here",
        ("answer", 1, "clerk"): "It is forty two.",
    }
    assert all(len(each) == 1 for each in ids.values())
    assert len(set[str].union(*ids.values())) == 3
    assert ids["answer", 1, "clerk"] == {state["messages"][-1].id}
