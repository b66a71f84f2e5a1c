"""What a run took, as the state of a graph and LangChain's own counter tell it."""

from collections.abc import Callable
from typing import Any

import pytest
from graphs.conducted import Plans, around
from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_openai import ChatOpenAI
from servers.chat_server import USAGE, ChatServer, says

from langchain_podium import as_worker
from langchain_podium.graph.conducted import Executor
from podium import Conductor, Plan, Step

OpenAI = Callable[..., ChatOpenAI]
pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("executor", ["podium", "langgraph"])
async def test_usage_is_in_the_state_and_counted_once(executor: Executor, openai: OpenAI) -> None:
    """Of each step and of all; LangChain's handler sees the same."""
    counter = UsageMetadataCallbackHandler()
    plan = Plan((Step(0, "left"), Step(0, "right"), Step(0, "join", (0, 1))))
    async with ChatServer(lambda call: says(call, "x")) as server:
        conductor = Conductor(Plans(plan), [as_worker(openai(server.url), name="w")])
        asked: Any = {"messages": [("user", "How many?")]}
        state = await around(conductor, executor=executor).ainvoke(asked, {"callbacks": [counter]})
        made = len(server.calls)
    each = USAGE["total_tokens"]
    assert made == 3
    assert [o["usage"]["input_tokens"] for o in state["podium"]["outcomes"]] == [USAGE["prompt_tokens"]] * 3
    usage = state["podium"]["usage"]
    assert usage["input_tokens"] + usage["output_tokens"] == made * each
    assert sum(one["total_tokens"] for one in counter.usage_metadata.values()) == made * each
