"""Hears refusals in the answers of OpenAI's SDK: AutoGen's client of it leaves them out of its results."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from autogen_core.models import ChatCompletionClient

_heard: ContextVar[list[str] | None] = ContextVar("autogen_podium_refusals", default=None)
_METHODS: Final = ("create", "parse")


def is_openai(client: ChatCompletionClient) -> bool:
    """Say whether a client is AutoGen's of OpenAI's SDK, which need not be installed."""
    return _is(client, "BaseOpenAIChatCompletionClient")


def _is(thing: object, kind: str) -> bool:
    return any(each.__name__ == kind for each in type(thing).__mro__)


@contextmanager
def hearing(client: ChatCompletionClient, refusals: list[str]) -> Iterator[None]:
    """Add to a list the texts in which the model refuses to answer, while the block runs.

    A block must not contain a `yield` of an async generator. Of clients other than OpenAI's nothing is heard.
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
    """Yield what a stream of the client yields, and do as `hearing` meanwhile."""
    while True:
        with hearing(client, refusals):
            piece = await anext(stream, None)
        if piece is None:
            return
        yield piece


def _hook(client: ChatCompletionClient) -> None:
    """Have the methods of the SDK's client that ask models tell what is refused. They stay hooked."""
    sdk: Any = vars(client).get("_client")
    if not _is(sdk, "AsyncOpenAI"):
        return
    for completions in (sdk.chat.completions, sdk.beta.chat.completions):
        for name in _METHODS:
            ask = getattr(completions, name, None)  # not all versions have all
            if ask is not None and not isinstance(ask, _Telling):
                setattr(completions, name, _Telling(ask))


class _Telling:
    """A method of the SDK that asks a model, and adds its refusals to the list of the caller."""

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
    """A stream of the SDK that adds pieces of refusals to a list."""

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
