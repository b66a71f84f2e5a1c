"""LangChain keeps to what every adapter keeps to: chat models as workers, a Runnable as the face."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any

import pytest
from contracts.adapter_contract import Adapter, AdapterContract, Answer, Face, Speak, Told
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from langchain_podium import ConductorRunnable, as_worker
from podium import Conductor
from podium.planners import FixedPlanner
from podium.result import Result
from podium.workers import Worker

USAGE = {"input_tokens": 30, "output_tokens": 12, "total_tokens": 42}


class Speaker(BaseChatModel):
    """A chat model that says what it is scripted to."""

    speak: Any

    @property
    def _llm_type(self) -> str:
        return "speaker"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        raise AssertionError("a worker is asked by its async face")

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        text = await self.speak("\n".join(str(message.text) for message in messages))
        message = AIMessage(text, usage_metadata=USAGE, response_metadata={"model_name": "speaker"})
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        text = await self.speak("\n".join(str(message.text) for message in messages))
        for word in text.split(" "):
            piece = word if word == text.split(" ")[0] else f" {word}"
            yield ChatGenerationChunk(message=AIMessageChunk(piece))
        last = AIMessageChunk("", usage_metadata=USAGE, chunk_position="last")
        yield ChatGenerationChunk(message=last)


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

    tokens = 42

    def worker(self, name: str, speak: Speak) -> Worker:
        """Return a chat model as a worker."""
        return as_worker(Speaker(speak=speak), name=name)

    def face(self, planner: FixedPlanner, workers: Sequence[Any], **options: Any) -> Face:
        """Return a Runnable."""
        return LangChainFace(Conductor(planner, list(workers), **options))


class TestLangChain(AdapterContract):
    """A conductor as a Runnable."""

    @pytest.fixture
    def adapter(self) -> Adapter:
        """LangChain's."""
        return LangChainAdapter()
