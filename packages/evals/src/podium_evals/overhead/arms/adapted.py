"""Podium in LangChain and LangGraph: the conductor of `conducted`, as their users call it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TypedDict

from podium.errors import ConfigError
from podium_evals.overhead.arms.asking import Run
from podium_evals.overhead.arms.conducted import make_conductor
from podium_evals.overhead.cells import Arm
from podium_evals.overhead.job import QUESTION, SHAPES, ShapeName

try:
    from langgraph.graph import START, StateGraph

    from langchain_podium import ConductorRunnable, conductor_node
    from langchain_podium.graph.carrying import ByGraph
except ImportError as exc:
    raise ConfigError("langchain-podium is not installed: pip install 'podium-evals[peers]'") from exc


class Asked(TypedDict, total=False):
    """A user's state around a conductor."""

    question: str
    answer: str


@asynccontextmanager
async def adapted(arm: Arm, shape: ShapeName, base_url: str | None) -> AsyncGenerator[Run, None]:
    """Open a conductor; yield a coroutine function that runs `shape` once in the way `arm` names.

    Args:
        arm: `podium-runnable`, `podium-steps` or `podium-node`.
        shape: the plan that is run.
        base_url: where the workers are; `None` makes them no-ops in the process.
    """
    plan = SHAPES[shape]
    async with make_conductor(shape, base_url) as conductor:
        runnable = ConductorRunnable(conductor)
        graph = StateGraph(Asked)
        graph.add_node("conductor", conductor_node(conductor, input="question", executor="langgraph"))
        graph.add_edge(START, "conductor")
        compiled = graph.compile()

        async def asked() -> str:
            return str(await runnable.ainvoke(plan))

        async def carried() -> str:
            step_starter = ByGraph({"configurable": {"checkpoint_ns": ""}}, None, is_sync=False)
            return (await conductor.run(plan, step_starter=step_starter)).answer

        async def in_a_graph() -> str:
            return str((await compiled.ainvoke({"question": QUESTION}))["answer"])

        yield {"podium-runnable": asked, "podium-steps": carried, "podium-node": in_a_graph}[arm]
