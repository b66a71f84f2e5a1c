"""LlamaIndex keeps to what every adapter keeps to: LLMs as workers, a query engine and an LLM as the face."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from contracts.adapter_contract import Adapter, AdapterContract, Answer, Face, Speak, Told
from llama_index.core.base.response.schema import AsyncStreamingResponse, Response
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.llms import ChatMessage
from llamaindex.speaking import TOKENS, Native
from pydantic import Field

from llama_index_podium import ConductorLLM, ConductorQueryEngine
from llama_index_podium.events import StepInProgressEvent
from podium import Conductor
from podium.planners import FixedPlanner


class Heard(BaseEventHandler):
    """Keeps the pieces that steps are told to write."""

    pieces: list[tuple[int, str]] = Field(default_factory=list)

    def handle(self, event: Any, **kwargs: Any) -> None:
        """Keep a piece."""
        if isinstance(event, StepInProgressEvent):
            self.pieces.append((event.step, event.delta))


class EngineFace(Face):
    """A query engine."""

    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor
        self._engine = ConductorQueryEngine(conductor)

    async def ask(self, question: str) -> Answer:
        """Query it."""
        response = await self._engine.aquery(question)
        assert isinstance(response, Response)
        return _answer(response.response, response.metadata)

    def ask_sync(self, question: str) -> Answer:
        """Query it."""
        response = self._engine.query(question)
        assert isinstance(response, Response)
        return _answer(response.response, response.metadata)

    async def stream(self, question: str) -> AsyncGenerator[tuple[int, str], None]:
        """Read what the instrumentation is told while the response is streamed."""
        root, heard = get_dispatcher(), Heard()
        root.add_event_handler(heard)
        try:
            await self.read(question)
        finally:
            root.event_handlers.remove(heard)
        for piece in heard.pieces:
            yield piece

    async def read(self, question: str) -> None:
        """Read a streamed response."""
        engine = ConductorQueryEngine(self._conductor, streaming=True)
        response = await engine.aquery(question)
        assert isinstance(response, AsyncStreamingResponse)
        async for _ in response.async_response_gen():
            pass


class LLMFace(EngineFace):
    """An LLM."""

    def __init__(self, conductor: Conductor) -> None:
        super().__init__(conductor)
        self._llm = ConductorLLM(conductor)

    async def read(self, question: str) -> None:
        """Read a streamed response."""
        async for _ in await self._llm.astream_chat([ChatMessage(question)]):
            pass

    async def ask(self, question: str) -> Answer:
        """Chat with it."""
        response = await self._llm.achat([ChatMessage(question)])
        return _answer(response.message.content, response.raw["podium"])  # type: ignore[index]

    def ask_sync(self, question: str) -> Answer:
        """Chat with it."""
        response = self._llm.chat([ChatMessage(question)])
        return _answer(response.message.content, response.raw["podium"])  # type: ignore[index]


def _answer(text: str | None, facts: Any) -> Answer:
    told = tuple(
        Told(
            step=step["step"],
            worker=step["worker"],
            status=step["status"],
            output=step["output"],
            tokens=step["usage"]["total_tokens"],
            problem="" if step["problem"] is None else step["problem"]["message"],
        )
        for step in facts["steps"]
    )
    return Answer(text or "", facts["status"], told)


class EngineAdapter(Adapter):
    """Makes LLMs and query engines."""

    tokens = TOKENS["total_tokens"]

    def worker(self, name: str, speak: Speak) -> Any:
        """Return an LLM."""
        return Native(speak, name=name)

    def face(self, planner: FixedPlanner, workers: Sequence[Any], **options: Any) -> Face:
        """Return a query engine."""
        return EngineFace(ConductorQueryEngine.from_defaults(workers, planner, **options).conductor)


class LLMAdapter(EngineAdapter):
    """Makes LLMs over LLMs."""

    def face(self, planner: FixedPlanner, workers: Sequence[Any], **options: Any) -> Face:
        """Return an LLM."""
        return LLMFace(ConductorLLM.from_defaults(workers, planner, **options).conductor)


class TestQueryEngine(AdapterContract):
    """A conductor as a query engine."""

    @pytest.fixture
    def adapter(self) -> Adapter:
        """LlamaIndex's."""
        return EngineAdapter()


class TestLLM(AdapterContract):
    """A conductor as an LLM."""

    @pytest.fixture
    def adapter(self) -> Adapter:
        """LlamaIndex's."""
        return LLMAdapter()
