"""Code that is not async, called from within the loop that such code shares."""

from collections.abc import Callable

import pytest
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
