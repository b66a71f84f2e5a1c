"""Read refusals from OpenAI's SDK, because AutoGen's client drops them from its results."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from autogen_core.models import ChatCompletionClient

_heard: ContextVar[list[str] | None] = ContextVar("autogen_podium_refusals", default=None)
_METHODS: Final = ("create", "parse")


def is_openai(client: ChatCompletionClient) -> bool:
    """Return whether a client is AutoGen's client for OpenAI's SDK, which may not be installed."""
    return _is(client, "BaseOpenAIChatCompletionClient")


def _is(thing: object, kind: str) -> bool:
    return any(each.__name__ == kind for each in type(thing).__mro__)


@contextmanager
def hearing(client: ChatCompletionClient, refusals: list[str]) -> Iterator[None]:
    """Add the texts in which the model refuses to answer to a list, in the block.

    The block must not contain a `yield` of an async generator. Refusals of other clients than OpenAI's are
    not added.
    """
    if is_openai(client):
        _hook(client)
    token = _heard.set(refusals)
    try:
        yield
    finally:
        _heard.reset(token)


async def hearing_stream(
    client: ChatCompletionClient, stream: AsyncGenerator[Any, None], refusals: list[str]
) -> AsyncGenerator[Any, None]:
    """Yield the items of the client's stream, and collect refusals like `hearing`."""
    while True:
        with hearing(client, refusals):
            piece = await anext(stream, None)
        if piece is None:
            return
        yield piece


def _hook(client: ChatCompletionClient) -> None:
    """Wrap the SDK client's methods that call models, so that they report refusals. They stay wrapped."""
    sdk: Any = vars(client).get("_client")
    if not _is(sdk, "AsyncOpenAI"):
        return
    for completions in (sdk.chat.completions, sdk.beta.chat.completions):
        for name in _METHODS:
            ask = getattr(completions, name, None)  # not all versions have all methods
            if ask is not None and not isinstance(ask, _Telling):
                setattr(completions, name, _Telling(ask))


class _Telling:
    """A method of the SDK that calls a model, and adds its refusals to the caller's list."""

    def __init__(self, ask: Any) -> None:
        self._ask = ask

    async def __call__(self, *arguments: Any, **options: Any) -> Any:
        answer, refusals = await self._ask(*arguments, **options), _heard.get()
        if refusals is None:
            return answer
        if options.get("stream"):
            return _TellingStream(answer, refusals)
        refusals += [choice.message.refusal for choice in answer.choices or () if choice.message.refusal]
        return answer


class _TellingStream:
    """A stream of the SDK that adds chunks of refusals to a list."""

    def __init__(self, stream: Any, refusals: list[str]) -> None:
        self._stream = stream
        self._refusals = refusals

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __aiter__(self) -> "_TellingStream":
        return self

    async def __anext__(self) -> Any:
        chunk = await anext(self._stream)
        self._refusals += [choice.delta.refusal for choice in chunk.choices or () if choice.delta.refusal]
        return chunk
