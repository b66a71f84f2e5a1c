"""Code that is not async, called from within the loop that such code shares."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from contracts.interrupted_contract import ENDINGS, check_ends
from langchain_core.runnables import RunnableLambda

from langchain_podium import ChatPodium, ConductorRunnable, as_worker
from podium import Conductor, Limits, Plan, ScriptedWorker, Step
from podium.planners import FixedPlanner
from podium.workers import Worker

PLAN = Plan((Step(0, "Do it."),))


def one(worker: Worker) -> Conductor:
    """Return a conductor whose plan is one step of this worker."""
    return Conductor(FixedPlanner(PLAN), [worker], limits=Limits(depth=4))


def chunks(inner: ConductorRunnable) -> str:
    """Ask the same conductor as a chat model."""
    return "".join(chunk.text for chunk in ChatPodium(conductor=inner.conductor).stream("What?"))


ASKS = {
    "invoke": lambda inner: inner.invoke("What?"),
    "stream": lambda inner: "".join(inner.stream("What?")),
    "batch": lambda inner: inner.batch(["What?"])[0],
    "chat": chunks,
}


@pytest.mark.timeout(60, method="thread")  # a main thread that waits for such a loop takes no signal
@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
def test_workers_that_block_the_loop_do_not_wait_for_themselves(
    ask: Callable[[ConductorRunnable], str],
) -> None:
    """An async function that asks a conductor without `await`, however deep they are nested."""
    runnable = ConductorRunnable(one(ScriptedWorker("writer", "Forty-two.")))
    for depth in range(3):

        async def blocks(_: str, inner: ConductorRunnable = runnable) -> str:
            return ask(inner)

        worker = as_worker(RunnableLambda(blocks), name=f"blocks-{depth}", description="Asks.")
        runnable = ConductorRunnable(one(worker))
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
    "invoke": "ConductorRunnable(conductor(worker)).invoke('What?')",
    "stream": "list(ConductorRunnable(conductor(worker)).stream('What?'))",
    "chat": "ChatPodium(conductor=conductor(worker)).invoke('What?')",
    "graph": "create_conductor_agent(conductor(worker), executor='langgraph').invoke({'messages': 'What?'})",
}


@pytest.mark.long  # each case starts a process that imports LangChain
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(
    ("worker", "call"), [("tool", "invoke"), ("tool", "graph"), *(("function", call) for call in CALLS)]
)
def test_a_worker_that_blocks_a_thread_keeps_neither_call_nor_process(
    worker: str, call: str, ending: str
) -> None:
    """A limit and Ctrl-C end both."""
    imports = "from langchain_podium import ChatPodium, ConductorRunnable, as_worker\n"
    if call == "graph":  # LangGraph takes long to import
        imports += "from langchain_podium import create_conductor_agent\n"
    check_ends(imports + WORKERS[worker], CALLS[call], ending)


@pytest.mark.parametrize("make", [pickle.dumps, copy.deepcopy])
@pytest.mark.parametrize(
    "face", [ConductorRunnable, lambda asked: ChatPodium(conductor=asked)], ids=["runnable", "chat"]
)
def test_a_face_says_why_it_cannot_be_copied(face: Callable[[Conductor], Any], make: Any) -> None:
    """And what to do."""
    with pytest.raises(TypeError, match=r"cannot be copied or pickled: .* Share it, or create another"):
        make(face(one(ScriptedWorker("writer", "Forty-two."))))
