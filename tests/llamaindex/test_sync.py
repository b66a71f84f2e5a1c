"""Sync calls of LlamaIndex's faces, and workers that block, which run in threads."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from contracts.interrupted_contract import ENDINGS, check_ends
from contracts.loops_contract import MODES, Face, Mode, check_loops
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.llms.openai_like import OpenAILike
from llamaindex.library import Shelf
from llamaindex.speaking import Blocking
from servers.chat_server import MODEL

from llama_index_podium import ConductorLLM, ConductorQueryEngine, as_worker
from podium import Conductor, Plan, Retry, Step
from podium.planners import FixedPlanner
from podium.workers import Gather

pytestmark = pytest.mark.anyio
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
def test_a_worker_that_blocks_a_thread_keeps_no_call_or_process(worker: str, call: str, ending: str) -> None:
    imports = "from llama_index_podium import ConductorLLM, ConductorQueryEngine, as_worker\n"
    imports += "from llama_index.core.llms import ChatMessage\n"
    check_ends(imports + WORKERS[worker], CALLS[call], ending)


def _options(url: str) -> dict[str, Any]:
    facts: Any = {"api_key": "sk-loopback-key", "is_chat_model": True, "max_retries": 0}
    planner, model = (OpenAILike(model=MODEL, api_base=url, **facts) for _ in range(2))
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


SIDE_BY_SIDE = Plan((Step(0, "Acme"), Step(1, "Bolt"), Step(2, "join", (0, 1))))


def _llm(meet: Callable[[], None], name: str) -> Any:
    def say(prompt: str) -> str:
        meet()
        return name

    return Blocking(say, name=name)


def _shelf(meet: Callable[[], None]) -> Shelf:
    class Waiting(Shelf):
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            meet()
            return super()._retrieve(query_bundle)

    return Waiting("contracts")


def _reading(retriever: Shelf) -> Any:
    return RetrieverQueryEngine(retriever, get_response_synthesizer(llm=Blocking("read")))


KINDS: dict[str, Callable[[Callable[[], None], str], Any]] = {
    "llm": _llm,
    "engine over a retriever": lambda meet, name: as_worker(_reading(_shelf(meet)), name=name),
}


@pytest.mark.parametrize(("kind", "stream"), [(kind, at % 2 == 0) for at, kind in enumerate(KINDS)])
async def test_steps_that_block_meet(kind: str, *, stream: bool) -> None:
    barrier = threading.Barrier(2)

    def meet() -> None:
        barrier.wait(20)

    workers = [*(as_worker(KINDS[kind](meet, name)) for name in ("left", "right")), Gather()]
    conductor = Conductor(FixedPlanner("x"), workers)
    listen = (lambda event: None) if stream else None
    result = await conductor.run(SIDE_BY_SIDE, on_event=listen)
    assert [outcome.status for outcome in result.outcomes] == ["ok", "ok", "ok"], result.explain()


async def test_a_cancel_leaves_a_thread_behind_and_comes_back_at_once() -> None:
    begun, go = threading.Event(), threading.Event()

    def hang(prompt: str) -> str:
        begun.set()
        go.wait(30)
        return "late"

    conductor = Conductor(FixedPlanner("x"), [as_worker(Blocking(hang))])
    task = asyncio.create_task(conductor.run(Plan((Step(0, "x"),))))
    try:
        with anyio.fail_after(10):
            while not begun.is_set():  # noqa: ASYNC110 - set in a thread
                await anyio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert not go.is_set()
    finally:
        go.set()
