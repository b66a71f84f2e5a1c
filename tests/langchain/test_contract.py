"""What every adapter keeps to: chat models as workers; a Runnable, and nodes of a graph, as faces."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from contracts.adapter_contract import Adapter, AdapterContract, Answer, Face, Speak, answer_of
from graphs.conducted import Executor, around
from pydantic import TypeAdapter
from servers.speaking_chat_model import USAGE, Speaker

from langchain_podium import ConductorRunnable, as_worker
from podium import Conductor
from podium.planners import Planner
from podium.types import Outcome
from podium.workers import Worker

_OUTCOMES = TypeAdapter(list[Outcome])


class _RunnableFace(Face):
    def __init__(self, conductor: Conductor) -> None:
        self._runnable = ConductorRunnable(conductor, output="result")

    async def ask(self, question: str) -> Answer:
        return self._told(await self._runnable.ainvoke(question))

    def ask_sync(self, question: str) -> Answer:
        return self._told(self._runnable.invoke(question))

    def _told(self, result: Any) -> Answer:
        return answer_of(result.answer, result.status, result.outcomes)

    async def stream(self, question: str) -> AsyncGenerator[tuple[int, str], None]:
        async for event in self._runnable.astream_events(question, version="v2"):
            if event["event"] == "on_chat_model_stream" and (text := event["data"]["chunk"].text):
                yield event["metadata"]["podium_step"], str(text)


class _GraphFace(Face):
    def __init__(self, conductor: Conductor, executor: Executor) -> None:
        self._graph = around(conductor, executor=executor, show_steps=True)

    async def ask(self, question: str) -> Answer:
        return self._told(await self._graph.ainvoke(self._asked(question)))

    def ask_sync(self, question: str) -> Answer:
        return self._told(self._graph.invoke(self._asked(question)))

    def _asked(self, question: str) -> Any:
        return {"messages": [("user", question)]}

    def _told(self, state: dict[str, Any]) -> Answer:
        shown = state["podium"]
        outcomes = _OUTCOMES.validate_python(shown["outcomes"])
        return answer_of(state["messages"][-1].text, shown["status"], outcomes)

    async def stream(self, question: str) -> AsyncGenerator[tuple[int, str], None]:
        modes: Any = {"stream_mode": "messages", "subgraphs": True}
        async for _, (chunk, metadata) in self._graph.astream(self._asked(question), **modes):
            if "podium_step" in metadata and (text := chunk.text):
                yield metadata["podium_step"], str(text)


class _Adapter(Adapter):
    tokens = USAGE["total_tokens"]
    as_worker = staticmethod(as_worker)

    def __init__(self, executor: Executor | None) -> None:
        self._executor = executor

    def worker(self, name: str, speak: Speak) -> Worker:
        return as_worker(Speaker(speak=speak), name=name)

    def face(self, planner: Planner, workers: Sequence[Any], **options: Any) -> Face:
        conductor = Conductor(planner, list(workers), **options)
        if self._executor is None:
            return _RunnableFace(conductor)
        return _GraphFace(conductor, self._executor)


class TestLangChain(AdapterContract):
    @pytest.fixture(params=[None, "podium", "langgraph"], ids=["runnable", "podium", "langgraph"])
    def adapter(self, request: pytest.FixtureRequest) -> Adapter:
        return _Adapter(request.param)
