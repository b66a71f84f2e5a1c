"""Sync calls of LlamaIndex's faces: limits and Ctrl-C end them; copies are refused."""

import asyncio
import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from contracts.interrupted_contract import ENDINGS, check_ends
from llama_index.core.llms import ChatMessage

from llama_index_podium import ConductorLLM, ConductorQueryEngine
from podium import Conductor, Plan, ScriptedWorker, Step
from podium.planners import FixedPlanner

WORKERS = {
    "tool": "from llama_index.core.tools import FunctionTool\n"
    "def blocking(query: str) -> str:\n"
    "    'Blocks.'\n"
    "    return block()\n"
    "worker = as_worker(FunctionTool.from_defaults(blocking))",
    "retriever": "from llama_index.core.base.base_retriever import BaseRetriever\n"
    "class Blocking(BaseRetriever):\n"
    "    def _retrieve(self, query_bundle):\n"
    "        return block()\n"
    "worker = as_worker(Blocking(), name='worker')",
}
CALLS = {
    "query": "str(ConductorQueryEngine(conductor(worker)).query('What?'))",
    "chat": "ConductorLLM(conductor(worker)).chat([ChatMessage('What?')])",
}


@pytest.mark.long  # each starts a process that imports LlamaIndex
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(("worker", "call"), [("tool", "query"), ("tool", "chat"), ("retriever", "query")])
def test_a_worker_that_blocks_a_thread_keeps_neither_call_nor_process(
    worker: str, call: str, ending: str
) -> None:
    """A limit and Ctrl-C end both."""
    imports = (
        "from llama_index.core.llms import ChatMessage\n"
        "from llama_index_podium import ConductorLLM, ConductorQueryEngine, as_worker\n"
    )
    check_ends(imports + WORKERS[worker], CALLS[call], ending)


@pytest.mark.parametrize("make", [pickle.dumps, copy.deepcopy])
@pytest.mark.parametrize("face", [ConductorQueryEngine, ConductorLLM])
def test_a_face_says_why_it_cannot_be_copied(face: Callable[[Conductor], Any], make: Any) -> None:
    """And what to do."""
    conductor = Conductor(FixedPlanner(Plan((Step(0, "Do it."),))), [ScriptedWorker("writer", "Forty-two.")])
    with pytest.raises(TypeError, match=r"cannot be copied or pickled: .* Share it, or create another"):
        make(face(conductor))


@pytest.mark.parametrize("how", ["chat", "complete", "query"])
def test_a_stream_that_is_left_at_the_end_of_its_loop_leaves_no_error(how: str) -> None:
    """The run is cancelled with the loop, and asyncio has nothing to report."""
    writer = ScriptedWorker("writer", "one two three four", latency=0.01, piece=4)
    conductor = Conductor(FixedPlanner(Plan((Step(0, "Do it."),))), [writer])
    llm, reported = ConductorLLM(conductor), list[dict[str, Any]]()

    async def leave() -> str:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
        pieces: Any
        if how == "query":
            response: Any = await ConductorQueryEngine(conductor, streaming=True).aquery("?")
            pieces = response.async_response_gen()
        elif how == "chat":
            pieces = await llm.astream_chat([ChatMessage("?")])
        else:
            pieces = await llm.astream_complete("?")
        async for piece in pieces:
            return str(piece)
        raise AssertionError("there is a piece")

    assert "one" in asyncio.run(leave())
    assert reported == []
