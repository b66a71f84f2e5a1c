"""LangGraph keeps to what every adapter keeps to: chat models as workers, a node as the face."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any, ClassVar

import pytest
from contracts.adapter_contract import Adapter, AdapterContract, Answer, Face, Speak, Told
from graphs.conducted import around
from pydantic import TypeAdapter
from servers.speaking_chat_model import USAGE, Speaker

from langchain_podium import as_worker
from langchain_podium.graph.conducted import Executor
from podium import Conductor
from podium.planners import Planner
from podium.types import Outcome
from podium.workers import Worker

_OUTCOMES = TypeAdapter(list[Outcome])


class GraphFace(Face):
    """A graph of a user's own, with the conductor as a node."""

    def __init__(self, conductor: Conductor, executor: Executor) -> None:
        self._graph = around(conductor, executor=executor, show_steps=True)

    async def ask(self, question: str) -> Answer:
        """Invoke the graph."""
        return _answer(await self._graph.ainvoke(_asked(question)))

    def ask_sync(self, question: str) -> Answer:
        """Invoke the graph."""
        return _answer(self._graph.invoke(_asked(question)))

    async def stream(self, question: str) -> AsyncGenerator[tuple[int, str], None]:
        """Read what the steps write, as the stream of messages tells it."""
        modes: Any = {"stream_mode": "messages", "subgraphs": True}
        async for _, (chunk, metadata) in self._graph.astream(_asked(question), **modes):
            if "podium_step" in metadata and (text := chunk.text):
                yield metadata["podium_step"], str(text)


def _asked(question: str) -> dict[str, Any]:
    return {"messages": [("user", question)]}


def _answer(state: dict[str, Any]) -> Answer:
    shown = state["podium"]
    steps = tuple(
        Told(
            step=outcome.step,
            worker=outcome.worker,
            status=outcome.status,
            output=outcome.text,
            tokens=outcome.usage.total_tokens,
            problem="" if outcome.problem is None else outcome.problem.message,
        )
        for outcome in _OUTCOMES.validate_python(shown["outcomes"])
    )
    return Answer(state["messages"][-1].text, shown["status"], steps)


class GraphAdapter(Adapter):
    """Makes chat models and graphs."""

    tokens = USAGE["total_tokens"]
    as_worker = staticmethod(as_worker)
    executor: ClassVar[Executor]

    def worker(self, name: str, speak: Speak) -> Worker:
        """Return a chat model as a worker."""
        return as_worker(Speaker(speak=speak), name=name)

    def face(self, planner: Planner, workers: Sequence[Any], **options: Any) -> Face:
        """Return a graph."""
        return GraphFace(Conductor(planner, list(workers), **options), self.executor)


class PodiumsExecutor(GraphAdapter):
    """Podium starts the steps."""

    executor = "podium"


class LangGraphsExecutor(GraphAdapter):
    """LangGraph starts the steps, each as a node."""

    executor = "langgraph"


class TestLangGraph(AdapterContract):
    """A conductor as a node, by either executor."""

    @pytest.fixture(params=[PodiumsExecutor, LangGraphsExecutor])
    def adapter(self, request: pytest.FixtureRequest) -> Adapter:
        """LangGraph's."""
        adapter: Adapter = request.param()
        return adapter
