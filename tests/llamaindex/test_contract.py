"""LlamaIndex keeps to what every adapter keeps to: LLMs as workers, and each of its faces."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from contracts.adapter_contract import Adapter, AdapterContract, Answer, Face, Speak, answer_in
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.llms import ChatMessage
from llamaindex.speaking import TOKENS, Native
from pydantic import Field

from llama_index_podium import ConductorLLM, ConductorQueryEngine, as_worker
from llama_index_podium.events import StepInProgressEvent
from podium import Conductor
from podium.planners import Planner


class _Heard(BaseEventHandler):
    pieces: list[tuple[int, str]] = Field(default_factory=list)

    def handle(self, event: Any, **kwargs: Any) -> None:
        if isinstance(event, StepInProgressEvent):
            self.pieces.append((event.step, event.delta))


class _EngineFace(Face):
    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor
        self._engine = ConductorQueryEngine(conductor)

    async def ask(self, question: str) -> Answer:
        response = await self._engine.aquery(question)
        return _answer(response.response, response.metadata)

    def ask_sync(self, question: str) -> Answer:
        response = self._engine.query(question)
        return _answer(response.response, response.metadata)

    async def stream(self, question: str) -> AsyncGenerator[tuple[int, str], None]:
        """Read what the instrumentation is told while the response is streamed."""
        root, heard = get_dispatcher(), _Heard()
        root.add_event_handler(heard)
        try:
            await self.read(question)
        finally:
            root.event_handlers.remove(heard)
        for piece in heard.pieces:
            yield piece

    async def read(self, question: str) -> None:
        engine = ConductorQueryEngine(self._conductor, streaming=True)
        response = await engine.aquery(question)
        async for _ in response.async_response_gen():
            pass


class _LLMFace(_EngineFace):
    def __init__(self, conductor: Conductor) -> None:
        super().__init__(conductor)
        self._llm = ConductorLLM(conductor)

    async def read(self, question: str) -> None:
        async for _ in await self._llm.astream_chat([ChatMessage(question)]):
            pass

    async def ask(self, question: str) -> Answer:
        response = await self._llm.achat([ChatMessage(question)])
        return _answer(response.message.content, response.raw["podium"])

    def ask_sync(self, question: str) -> Answer:
        response = self._llm.chat([ChatMessage(question)])
        return _answer(response.message.content, response.raw["podium"])


def _answer(text: str | None, facts: Any) -> Answer:
    outputs = {step["step"]: step["output"] for step in facts["steps"]}
    return answer_in(text or "", facts, outputs, "total_tokens")


class _EngineAdapter(Adapter):
    tokens = TOKENS["total_tokens"]
    as_worker = staticmethod(as_worker)

    def worker(self, name: str, speak: Speak) -> Any:
        return Native(speak, name=name)

    def face(self, planner: Planner, workers: Sequence[Any], **options: Any) -> Face:
        return _EngineFace(ConductorQueryEngine(workers=workers, planner=planner, **options).conductor)


class _LLMAdapter(_EngineAdapter):
    def face(self, planner: Planner, workers: Sequence[Any], **options: Any) -> Face:
        return _LLMFace(ConductorLLM(workers=workers, planner=planner, **options).conductor)


class TestLlamaIndex(AdapterContract):
    @pytest.fixture(params=[_EngineAdapter, _LLMAdapter])
    def adapter(self, request: pytest.FixtureRequest) -> Adapter:
        return request.param()
