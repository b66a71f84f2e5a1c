"""LangChain keeps to what every adapter keeps to: chat models as workers, a Runnable as the face."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from contracts.adapter_contract import Adapter, AdapterContract, Answer, Face, Speak, Told
from servers.speaking_chat_model import USAGE, Speaker

from langchain_podium import ConductorRunnable, as_worker
from podium import Conductor
from podium.planners import Planner
from podium.types import Result
from podium.workers import Worker


class LangChainFace(Face):
    """A Runnable that returns results."""

    def __init__(self, conductor: Conductor) -> None:
        self._runnable = ConductorRunnable(conductor, output="result")

    async def ask(self, question: str) -> Answer:
        """Invoke it."""
        return _answer(await self._runnable.ainvoke(question))

    def ask_sync(self, question: str) -> Answer:
        """Invoke it."""
        return _answer(self._runnable.invoke(question))

    async def stream(self, question: str) -> AsyncGenerator[tuple[int, str], None]:
        """Read the tokens of the models inside, as `astream_events` tells them."""
        async for event in self._runnable.astream_events(question, version="v2"):
            if event["event"] == "on_chat_model_stream" and (text := event["data"]["chunk"].text):
                yield event["metadata"]["podium_step"], str(text)


def _answer(result: Any) -> Answer:
    assert isinstance(result, Result)
    steps = tuple(
        Told(
            step=outcome.step,
            worker=outcome.worker,
            status=outcome.status,
            output=outcome.text,
            tokens=outcome.usage.total_tokens,
            problem="" if outcome.problem is None else outcome.problem.message,
        )
        for outcome in result.outcomes
    )
    return Answer(result.answer, result.status, steps)


class LangChainAdapter(Adapter):
    """Makes chat models and Runnables."""

    tokens = USAGE["total_tokens"]
    as_worker = staticmethod(as_worker)

    def worker(self, name: str, speak: Speak) -> Worker:
        """Return a chat model as a worker."""
        return as_worker(Speaker(speak=speak), name=name)

    def face(self, planner: Planner, workers: Sequence[Any], **options: Any) -> Face:
        """Return a Runnable."""
        return LangChainFace(Conductor(planner, list(workers), **options))


class TestLangChain(AdapterContract):
    """A conductor as a Runnable."""

    @pytest.fixture
    def adapter(self) -> Adapter:
        """LangChain's."""
        return LangChainAdapter()
