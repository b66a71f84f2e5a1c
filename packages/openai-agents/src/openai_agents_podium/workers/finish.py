"""Record the finish reasons of an agent's models, which the SDK does not report.

`OpenAIChatCompletionsModel` returns a cut, filtered or unfinished answer like a complete one. So Podium reads
the finish reasons from its client, without changing the client or the model. Models of the Responses API
raise for such answers; every answer of other models counts as complete.
"""

from collections.abc import AsyncIterator
from copy import copy
from typing import Any

from agents import Model, ModelProvider, OpenAIChatCompletionsModel
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from podium.hosts import ConductorFace


class Finishes:
    """The finish reason of the latest answer."""

    def __init__(self) -> None:
        self.latest: str | None = "stop"
        """`None` if the end of the answer was not seen."""

    def watched(self, model: Model) -> Model:
        """Return the model; a chat completions model is copied with its client watched."""
        if not isinstance(model, OpenAIChatCompletionsModel) or isinstance(model, ConductorFace):
            return model
        watched = copy(model)
        watched._client = _Client(model._client, self)  # type: ignore[assignment]  # noqa: SLF001 - no public way
        return watched

    def take(self, answer: ChatCompletion | ChatCompletionChunk) -> None:
        """Record the finish reason of an answer or a chunk."""
        for choice in answer.choices[:1]:
            if choice.finish_reason is not None or isinstance(answer, ChatCompletion):
                self.latest = choice.finish_reason


class WatchedProvider(ModelProvider):
    """Finds the models of another provider, and watches them."""

    def __init__(self, provider: ModelProvider, finishes: Finishes) -> None:
        self._provider = provider
        self._finishes = finishes

    def get_model(self, model_name: str | None) -> Model:
        """Return the model of a name, watched."""
        return self._finishes.watched(self._provider.get_model(model_name))


class _Watched:
    """Wraps an object of the client; other attributes are the object's."""

    def __init__(self, inner: Any, finishes: Finishes) -> None:
        self._inner = inner
        self._finishes = finishes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Client(_Watched):
    @property
    def chat(self) -> "_Chat":
        return _Chat(self._inner.chat, self._finishes)

    def with_options(self, **options: Any) -> "_Client":
        return _Client(self._inner.with_options(**options), self._finishes)


class _Chat(_Watched):
    @property
    def completions(self) -> "_Completions":
        return _Completions(self._inner.completions, self._finishes)


class _Completions(_Watched):
    async def create(self, **options: Any) -> Any:
        answer = await self._inner.create(**options)
        if isinstance(answer, ChatCompletion):
            self._finishes.take(answer)
            return answer
        self._finishes.latest = None
        return _Stream(answer, self._finishes)


class _Stream(_Watched):
    async def __aiter__(self) -> AsyncIterator[ChatCompletionChunk]:
        async for chunk in self._inner:
            self._finishes.take(chunk)
            yield chunk
