"""LlamaIndex keeps to what every adapter keeps to: LLMs as workers, and each of its faces."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any, ClassVar

import pytest
from contracts.adapter_contract import Adapter, AdapterContract, Answer, Face, Speak, Told
from llama_index.core.base.response.schema import AsyncStreamingResponse, Response
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.llms import ChatMessage
from llama_index.core.schema import NodeWithScore
from llama_index.core.tools import ToolOutput
from llamaindex.speaking import TOKENS, Native
from pydantic import Field

from llama_index_podium import (
    ConductorLLM,
    ConductorQueryEngine,
    ConductorRetriever,
    ConductorToolSpec,
    as_worker,
)
from llama_index_podium.events import StepInProgressEvent
from podium import Conductor
from podium.planners import Planner


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


class RetrieverFace(EngineFace):
    """A retriever, whose first node is the answer."""

    def __init__(self, conductor: Conductor) -> None:
        super().__init__(conductor)
        self._retriever = ConductorRetriever(conductor, answer=True)

    async def ask(self, question: str) -> Answer:
        """Retrieve."""
        return self._told(await self._retriever.aretrieve(question))

    def ask_sync(self, question: str) -> Answer:
        """Retrieve."""
        return self._told(self._retriever.retrieve(question))

    def _told(self, nodes: list[NodeWithScore]) -> Answer:
        (node,) = nodes
        return _answer(node.text, node.metadata["podium_run"])


class ToolFace(EngineFace):
    """A tool of an agent."""

    def __init__(self, conductor: Conductor) -> None:
        super().__init__(conductor)
        self._tool = ConductorToolSpec(conductor).to_tool_list()[0]

    async def ask(self, question: str) -> Answer:
        """Call it."""
        return self._told(await self._tool.acall(question=question))

    def ask_sync(self, question: str) -> Answer:
        """Call it."""
        return self._told(self._tool.call(question=question))

    def _told(self, output: ToolOutput) -> Answer:
        return _answer(output.content, output.raw_output.metadata)


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
    as_worker = staticmethod(as_worker)

    def worker(self, name: str, speak: Speak) -> Any:
        """Return an LLM."""
        return Native(speak, name=name)

    def face(self, planner: Planner, workers: Sequence[Any], **options: Any) -> Face:
        """Return a query engine."""
        return EngineFace(ConductorQueryEngine(workers=workers, planner=planner, **options).conductor)


class LLMAdapter(EngineAdapter):
    """Makes LLMs over LLMs."""

    def face(self, planner: Planner, workers: Sequence[Any], **options: Any) -> Face:
        """Return an LLM."""
        return LLMFace(ConductorLLM(workers=workers, planner=planner, **options).conductor)


class RetrieverAdapter(EngineAdapter):
    """Makes retrievers over LLMs."""

    def face(self, planner: Planner, workers: Sequence[Any], **options: Any) -> Face:
        """Return a retriever."""
        return RetrieverFace(ConductorQueryEngine(workers=workers, planner=planner, **options).conductor)


class ToolAdapter(EngineAdapter):
    """Makes tools over LLMs."""

    def face(self, planner: Planner, workers: Sequence[Any], **options: Any) -> Face:
        """Return a tool."""
        return ToolFace(ConductorToolSpec(planner=planner, workers=workers, **options).conductor)


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


class TestRetriever(AdapterContract):
    """A conductor as a retriever."""

    lacks: ClassVar = {"test_pieces_are_streamed_with_their_step": "nodes are returned at once"}

    @pytest.fixture
    def adapter(self) -> Adapter:
        """LlamaIndex's."""
        return RetrieverAdapter()


class TestTool(AdapterContract):
    """A conductor as a tool of an agent."""

    lacks: ClassVar = {"test_pieces_are_streamed_with_their_step": "what a tool returns is no stream"}

    @pytest.fixture
    def adapter(self) -> Adapter:
        """LlamaIndex's."""
        return ToolAdapter()
