"""A scripted chat model of LangChain, for the tests of the adapter."""

from collections.abc import AsyncIterator
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

USAGE = {"input_tokens": 230, "output_tokens": 12, "total_tokens": 242}


class Speaker(BaseChatModel):
    """A scripted chat model."""

    speak: Any

    @property
    def _llm_type(self) -> str:
        return "speaker"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        raise AssertionError("a worker must be called by its async methods")

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        text = await self.speak("\n".join(str(message.text) for message in messages))
        message = AIMessage(text, usage_metadata=USAGE, response_metadata={"model_name": "speaker"})
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        text = await self.speak("\n".join(str(message.text) for message in messages))
        first, *rest = text.split(" ")
        for piece in (first, *(f" {word}" for word in rest)):
            yield ChatGenerationChunk(message=AIMessageChunk(piece))
        last = AIMessageChunk("", usage_metadata=USAGE, chunk_position="last")
        yield ChatGenerationChunk(message=last)
