"""LangGraph: each shape as a state graph wired by hand, compiled once or at each call."""

from collections.abc import Callable
from typing import TypedDict

from benchmarks.block import Run
from benchmarks.job import CHAIN, DIAMOND, MODELS, QUESTION, ShapeName, write_prompt
from benchmarks.overhead.arms.clients import Ask
from podium.errors import ConfigError

try:
    from langgraph.graph import END, START, StateGraph
    from langgraph.graph.state import CompiledStateGraph
except ImportError as exc:
    raise ConfigError("LangGraph is not installed: uv sync --group benchmarks") from exc


class Outputs(TypedDict, total=False):
    """The outputs of the steps so far."""

    listed: str
    changes: str
    checked: str
    told: str
    answer: str


_Graph = CompiledStateGraph[Outputs, None, Outputs, Outputs]


def compiled_once(shape: ShapeName, ask: Ask) -> Run:
    """Return a coroutine function that runs one compiled graph of `shape`."""
    graph = _BUILDERS[shape](ask)

    async def run() -> str:
        return _answer(await graph.ainvoke({}))

    return run


def built_each_time(shape: ShapeName, ask: Ask) -> Run:
    """Return a coroutine function that builds, compiles and runs the graph of `shape`."""

    async def run() -> str:
        return _answer(await _BUILDERS[shape](ask).ainvoke({}))

    return run


def built_in_a_node(shape: ShapeName, ask: Ask) -> Run:
    """Return a coroutine function that runs a graph whose only node builds and runs the graph of `shape`."""

    async def node(state: Outputs) -> Outputs:  # noqa: ARG001  (LangGraph passes it by name)
        return {"answer": _answer(await _BUILDERS[shape](ask).ainvoke({}))}

    graph = StateGraph(Outputs)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    outer = graph.compile()

    async def run() -> str:
        return _answer(await outer.ainvoke({"listed": QUESTION}))

    return run


def _answer(state: dict[str, object]) -> str:
    return str(state["answer"])


def _diamond(ask: Ask) -> _Graph:
    north, east, south = MODELS

    async def first(state: Outputs) -> Outputs:  # noqa: ARG001  (LangGraph passes it by name)
        return {"listed": await ask(north, write_prompt(DIAMOND, 0, ()))}

    async def left(state: Outputs) -> Outputs:
        return {"changes": await ask(east, write_prompt(DIAMOND, 1, (state["listed"],)))}

    async def right(state: Outputs) -> Outputs:
        return {"told": await ask(south, write_prompt(DIAMOND, 2, (state["listed"],)))}

    async def last(state: Outputs) -> Outputs:
        return {"answer": await ask(north, write_prompt(DIAMOND, 3, (state["changes"], state["told"])))}

    graph = StateGraph(Outputs)
    graph.add_node("first", first)
    graph.add_node("left", left)
    graph.add_node("right", right)
    graph.add_node("last", last)
    graph.add_edge(START, "first")
    graph.add_edge("first", "left")
    graph.add_edge("first", "right")
    graph.add_edge(["left", "right"], "last")
    graph.add_edge("last", END)
    return graph.compile()


def _chain(ask: Ask) -> _Graph:
    north, east, south = MODELS

    async def first(state: Outputs) -> Outputs:  # noqa: ARG001  (LangGraph passes it by name)
        return {"listed": await ask(north, write_prompt(CHAIN, 0, ()))}

    async def second(state: Outputs) -> Outputs:
        return {"changes": await ask(east, write_prompt(CHAIN, 1, (state["listed"],)))}

    async def third(state: Outputs) -> Outputs:
        return {"checked": await ask(south, write_prompt(CHAIN, 2, (state["changes"],)))}

    async def fourth(state: Outputs) -> Outputs:
        return {"told": await ask(east, write_prompt(CHAIN, 3, (state["checked"],)))}

    async def last(state: Outputs) -> Outputs:
        return {"answer": await ask(north, write_prompt(CHAIN, 4, (state["told"],)))}

    graph = StateGraph(Outputs)
    graph.add_sequence(
        [("first", first), ("second", second), ("third", third), ("fourth", fourth), ("last", last)]
    )
    graph.add_edge(START, "first")
    graph.add_edge("last", END)
    return graph.compile()


_BUILDERS: dict[ShapeName, Callable[[Ask], _Graph]] = {"diamond": _diamond, "chain": _chain}
