"""Podium in LangChain and LangGraph: the conductor of `podium_alone`, called by the adapters."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TypedDict

from benchmarks.block import Run
from benchmarks.job import QUESTION, SHAPES, ShapeName
from benchmarks.overhead.arms.podium_alone import make_conductor
from benchmarks.overhead.cells import Arm
from podium.errors import ConfigError

try:
    from langgraph.graph import START, StateGraph

    from langchain_podium import ConductorRunnable, conductor_node
except ImportError as exc:
    raise ConfigError("langchain-podium is not installed: uv sync --group benchmarks") from exc


class Asked(TypedDict, total=False):
    """The state of a user's graph with a conductor."""

    question: str
    answer: str


@asynccontextmanager
async def open_adapter(arm: Arm, shape: ShapeName, base_url: str | None) -> AsyncGenerator[Run, None]:
    """Open a conductor; yield a coroutine function that runs `shape` once with an adapter.

    Args:
        arm: `podium-runnable` or `podium-node`.
        shape: the plan.
        base_url: the workers' server; `None` for no-op workers in the process.
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

        async def in_a_graph() -> str:
            return str((await compiled.ainvoke({"question": QUESTION}))["answer"])

        yield {"podium-runnable": asked, "podium-node": in_a_graph}[arm]
