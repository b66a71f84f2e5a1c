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
    def _raw(self) -> dict[str, Any]:
        return {"usage": dict(self.tokens)}

    @property
    def metadata(self) -> LLMMetadata:
        """Nothing but a name."""
        return LLMMetadata(model_name=self.name)

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:  # noqa: FBT001, FBT002
        """Say it."""
        text = self.say if isinstance(self.say, str) else self.say(prompt)
        return CompletionResponse(text=text, raw=self._raw)

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:  # noqa: FBT001, FBT002
        """Say it word by word."""
        text = self.say if isinstance(self.say, str) else self.say(prompt)

        def words() -> CompletionResponseGen:
            told = ""
            for word in pieces_of(text):
                told += word
                yield CompletionResponse(text=told, delta=word)
            yield CompletionResponse(text=told, delta="", raw=self._raw)

        return words()


class Native(Blocking):
    """Says what the coroutine `speak` returns, and blocks nobody."""

    speak: Any

    def __init__(self, speak: Callable[[str], Awaitable[str]], **facts: Any) -> None:
        super().__init__(say=_refuse, speak=speak, **facts)

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Say it."""
        text = await self.speak(_shown(messages))
        return ChatResponse(message=ChatMessage(role="assistant", content=text), raw=self._raw)

    @llm_chat_callback()
    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseAsyncGen:
        """Say it word by word."""

        async def words() -> ChatResponseAsyncGen:
            told = ""
            for word in pieces_of(await self.speak(_shown(messages))):
                told += word
                yield ChatResponse(message=ChatMessage(role="assistant", content=told), delta=word)
            yield ChatResponse(message=ChatMessage(role="assistant", content=told), delta="", raw=self._raw)

        return words()

    @llm_completion_callback()
    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:  # noqa: FBT001, FBT002
        """Say it."""
        return CompletionResponse(text=await self.speak(prompt), raw=self._raw)

    @llm_completion_callback()
    async def astream_complete(
        self,
        prompt: str,
        formatted: bool = False,  # noqa: FBT001, FBT002
        **kwargs: Any,
    ) -> CompletionResponseAsyncGen:
        """Say it word by word."""

        async def words() -> CompletionResponseAsyncGen:
            told = ""
            for word in pieces_of(await self.speak(prompt)):
                told += word
                yield CompletionResponse(text=told, delta=word)
            yield CompletionResponse(text=told, delta="", raw=self._raw)

        return words()


def pieces_of(text: str) -> list[str]:
    first, *others = text.split(" ")
    return [first, *(f" {word}" for word in others)]


def _shown(messages: Sequence[ChatMessage]) -> str:
    return "\n".join(message.content or "" for message in messages)


def _refuse(prompt: str) -> str:
    raise AssertionError("a native LLM is asked by its async face")
