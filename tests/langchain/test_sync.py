"""Code that is not async, called from within the loop that such code shares."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from contracts.interrupted_contract import ENDINGS, check_ends
from contracts.loops_contract import MODES, Face, Mode, check_loops
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import RunnableLambda
from langchain_openai import ChatOpenAI
from pydantic import SecretStr
from servers.chat_server import MODEL

from langchain_podium import ChatPodium, ConductorRunnable, as_planner, as_worker, create_conductor_agent
from podium import Conductor, Limits, Plan, Retry, ScriptedWorker, Step
from podium.planners import FixedPlanner
from podium.workers import Worker

PLAN = Plan((Step(0, "Do it."),))


def _one(worker: Worker) -> Conductor:
    return Conductor(FixedPlanner(PLAN), [worker], limits=Limits(depth=4))


def _chunks(inner: ConductorRunnable) -> str:
    return "".join(chunk.text for chunk in ChatPodium(conductor=inner.conductor).stream("What?"))


ASKS = {"batch": lambda inner: inner.batch(["What?"])[0], "chat": _chunks}


@pytest.mark.timeout(60, method="thread")  # a main thread that waits for such a loop takes no signal
@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
def test_workers_that_block_the_loop_do_not_wait_for_themselves(ask: Any) -> None:
    """An async function that asks a conductor without `await`, however deep they are nested."""
    runnable = ConductorRunnable(_one(ScriptedWorker("writer", "Forty-two.")))
    for depth in range(3):

        async def blocks(_: str, inner: ConductorRunnable = runnable) -> str:
            return ask(inner)

        worker = as_worker(RunnableLambda(blocks), name=f"blocks-{depth}", description="Asks.")
        runnable = ConductorRunnable(_one(worker))
    assert runnable.invoke("What?") == "Forty-two."
    assert "".join(map(str, runnable.stream("What?"))) == "Forty-two."


WORKERS = {
    "function": "from langchain_core.runnables import RunnableLambda\n"
    "worker = as_worker(RunnableLambda(lambda _: block()), name='worker', description='Blocks.')",
    "tool": "from langchain_core.tools import StructuredTool\n"
    "def blocking(query: str) -> str:\n"
    "    'Blocks.'\n"
    "    return block()\n"
    "worker = as_worker(StructuredTool.from_function(blocking))",
}
CALLS = {
    "stream": "list(ConductorRunnable(conductor(worker)).stream('What?'))",
    "chat": "ChatPodium(conductor=conductor(worker)).invoke('What?')",
    "node": "create_conductor_agent(conductor(worker), executor='langgraph').invoke({'messages': 'What?'})",
}


@pytest.mark.long  # each case starts a process that imports LangChain
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(("worker", "call"), [("tool", "stream"), ("function", "chat"), ("function", "node")])
def test_a_worker_that_blocks_a_thread_keeps_no_call_or_process(worker: str, call: str, ending: str) -> None:
    imports = "from langchain_podium import ChatPodium, ConductorRunnable, as_worker\n"
    if call == "node":  # LangGraph takes long to import
        imports += "from langchain_podium import create_conductor_agent\n"
    check_ends(imports + WORKERS[worker], CALLS[call], ending)


@pytest.mark.parametrize("make", [pickle.dumps, copy.deepcopy])
def test_a_face_says_why_it_cannot_be_copied(make: Any) -> None:
    conductor = _one(ScriptedWorker("writer", "Forty-two."))
    for face in (ConductorRunnable(conductor), ChatPodium(conductor=conductor)):
        with pytest.raises(TypeError, match=r"cannot be copied or pickled: .* Share it, or create another"):
            make(face)


def _conductor(url: str) -> Conductor:
    """Return a conductor of two models, as the documentation makes them."""
    options: Any = {"base_url": url, "api_key": SecretStr("sk-loopback-key"), "max_retries": 0}
    planner, worker = (ChatOpenAI(model=MODEL, **options) for _ in range(2))
    workers = [as_worker(worker, name="worker")]
    return Conductor(as_planner(planner, name="planner"), workers, retry=Retry(attempts=1))


FACES: dict[str, Callable[[Conductor], Any]] = {
    "runnable": lambda made: ConductorRunnable(made, partial="raise"),
    "chat model": lambda made: ChatPodium(conductor=made) | StrOutputParser(),
    "node": lambda made: (
        RunnableLambda(lambda text: {"messages": text})
        | create_conductor_agent(made)
        | (lambda state: state["messages"][-1].text)
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize("make", FACES.values(), ids=FACES)
def test_no_call_is_lost_whatever_loop_it_is_made_in(make: Any, mode: Mode) -> None:
    def face(url: str) -> Face:
        asked = make(_conductor(url))
        return Face(lambda: asked.ainvoke("Why?"), lambda: asked.invoke("Why?"))

    check_loops(face, mode)
