"""LLMs of LlamaIndex's that say what a test scripts, native in their async methods or blocking."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ChatResponseAsyncGen,
    CompletionResponse,
    CompletionResponseAsyncGen,
    CompletionResponseGen,
    LLMMetadata,
)
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback

TOKENS = {"prompt_tokens": 230, "completion_tokens": 12, "total_tokens": 242}


class Blocking(CustomLLM):
    """Says what `say` returns, and blocks whoever calls it: its async methods are the defaults."""

    say: Any
    name: str = "blocking"
    max_tokens: int | None = None
    tokens: dict[str, int] = TOKENS

    def __init__(self, say: Callable[[str], str] | str, **facts: Any) -> None:
        super().__init__(say=say, **facts)

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name=self.name)

    def _parts(self, text: str) -> list[CompletionResponse]:
        """Return what is said so far, after each word, and all of it with its tokens."""
        first, *others = text.split(" ")
        words = [first, *(f" {word}" for word in others)]
        said = [CompletionResponse(text="".join(words[:at]), delta=word) for at, word in enumerate(words, 1)]
        return [*said, CompletionResponse(text=text, delta="", raw={"usage": dict(self.tokens)})]

    def _said(self, prompt: str) -> list[CompletionResponse]:
        return self._parts(self.say if isinstance(self.say, str) else self.say(prompt))

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:  # noqa: FBT001, FBT002
        return self._said(prompt)[-1]

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:  # noqa: FBT001, FBT002
        parts = self._said(prompt)
        return (part for part in parts)


class Native(Blocking):
    """Says what the coroutine `speak` returns, and blocks nobody."""

    speak: Any

    def __init__(self, speak: Callable[[str], Awaitable[str]], **facts: Any) -> None:
        super().__init__(say=_refuse, speak=speak, **facts)

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        return _chat(self._parts(await self.speak(_shown(messages)))[-1])

    @llm_chat_callback()
    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseAsyncGen:
        async def words() -> ChatResponseAsyncGen:
            for part in self._parts(await self.speak(_shown(messages))):
                yield _chat(part)

        return words()

    @llm_completion_callback()
    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:  # noqa: FBT001, FBT002
        return self._parts(await self.speak(prompt))[-1]

    @llm_completion_callback()
    async def astream_complete(self, prompt: str, **kwargs: Any) -> CompletionResponseAsyncGen:
        async def words() -> CompletionResponseAsyncGen:
            for part in self._parts(await self.speak(prompt)):
                yield part

        return words()


def _chat(part: CompletionResponse) -> ChatResponse:
    message = ChatMessage(role="assistant", content=part.text)
    return ChatResponse(message=message, delta=part.delta, raw=part.raw)


def _shown(messages: Sequence[ChatMessage]) -> str:
    return "\n".join(message.content or "" for message in messages)


def _refuse(prompt: str) -> str:
    raise AssertionError("a native LLM is asked by its async face")
