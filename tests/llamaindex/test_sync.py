"""Sync calls of LlamaIndex's faces: limits and Ctrl-C end them; copies are refused."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from contracts.interrupted_contract import ENDINGS, check_ends
from contracts.loops_contract import MODES, Face, Mode, check_loops
from llama_index.llms.openai_like import OpenAILike
from servers.chat_server import MODEL

from llama_index_podium import ConductorLLM, ConductorQueryEngine, as_worker
from podium import Conductor, Plan, ScriptedWorker, Step
from podium.execution import Retry
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
    imports = (
        "from llama_index.core.llms import ChatMessage\n"
        "from llama_index_podium import ConductorLLM, ConductorQueryEngine, as_worker\n"
    )
    check_ends(imports + WORKERS[worker], CALLS[call], ending)


@pytest.mark.parametrize("make", [pickle.dumps, copy.deepcopy])
def test_a_face_says_why_it_cannot_be_copied(make: Any) -> None:
    conductor = Conductor(FixedPlanner(Plan((Step(0, "Do it."),))), [ScriptedWorker("writer", "Forty-two.")])
    for face in (ConductorQueryEngine(conductor), ConductorLLM(conductor)):
        with pytest.raises(TypeError, match=r"cannot be copied or pickled: .* Share it, or create another"):
            make(face)


def _options(url: str) -> dict[str, Any]:
    planner, model = (
        OpenAILike(model=MODEL, api_base=url, api_key="sk-loopback-key", is_chat_model=True, max_retries=0)
        for _ in range(2)
    )
    workers = [as_worker(model, name="worker")]
    return {"planner": planner, "workers": workers, "retry": Retry(attempts=1), "partial": "raise"}


def _query_engine(url: str) -> Face:
    engine = ConductorQueryEngine(**_options(url))

    async def ask() -> str:
        return str(await engine.aquery("Why?"))

    return Face(ask, lambda: str(engine.query("Why?")))


def _model(url: str) -> Face:
    llm = ConductorLLM(**_options(url))

    async def ask() -> str:
        return (await llm.acomplete("Why?")).text

    return Face(ask, lambda: llm.complete("Why?").text)


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize("make", [_query_engine, _model])
def test_no_call_is_lost_whatever_loop_it_is_made_in(make: Callable[[str], Face], mode: Mode) -> None:
    check_loops(make, mode)
