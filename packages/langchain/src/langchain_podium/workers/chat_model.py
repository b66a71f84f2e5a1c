"""A worker that calls a LangChain chat model, bare, bound, configured, retried, or with fallbacks.

The module builds the model's call and reads its message. Podium retries failed calls, so turn off a model's
own retries.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from hashlib import sha256
from typing import Any, Final, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable
from pydantic import SecretStr

from langchain_podium.cancellation import apart, each
from langchain_podium.cards import facts_of, innermost, settings
from langchain_podium.messages import (
    finish_of,
    refusal_of,
    to_langchain,
    usage_counts,
    with_missing,
    write_calls,
)
from langchain_podium.workers.calls import langchain_errors
from podium.errors import ConfigError, WorkerBroken, WorkerTimeout
from podium.hosts import read_completion, sampling_arguments
from podium.secrets import register, scrubbing
from podium.types import Completion, Part, Tools
from podium.workers import Card, Request, Worker
from podium.workers.openai.chat_response import joined_finish
from podium.workers.openai.errors import ReportedFault

_STATING: Final = frozenset(
    {
        "anthropic",
        "amazon_bedrock",
        "azure",
        "deepseek",
        "fireworks",
        "google_genai",
        "google_vertexai",
        "groq",
    }
    | {"mistral", "mistralai", "ollama", "openai", "openrouter", "together", "xai"}
)
"""Providers that always send a finish reason: an answer without one was cut off."""


class ChatModelWorker(Worker):
    """Calls a LangChain chat model."""

    def __init__(self, model: Runnable[Any, Any], *, card: Card) -> None:
        inner = innermost(model)
        if not isinstance(inner, BaseChatModel):
            raise ConfigError(f"{type(inner).__name__} is not a chat model")
        is_bare = model is inner
        if is_bare and getattr(inner, "stream_usage", True) is None:
            # By default, ChatOpenAI requests the tokens of a stream only from OpenAI's own servers.
            inner = inner.model_copy(update={"stream_usage": True})
        self.card = card
        self.model = inner if is_bare else model
        self._bound = settings(model)
        self._facts = facts_of(inner, self._bound)
        self._kind = type(inner)
        self._identity = repr((self._kind.__qualname__, inner._identifying_params, self._bound))  # noqa: SLF001
        for value in vars(inner).values():
            if isinstance(value, SecretStr):
                register(value.get_secret_value())
        self.takes_tools = is_bare and self._kind.bind_tools is not BaseChatModel.bind_tools

    @property
    def max_tokens(self) -> int | None:
        """The model's maximum tokens of an answer, if the request has none."""
        most = self._facts.get("ls_max_tokens")
        return most if isinstance(most, int) and most > 0 else None

    @property
    def constraint_kinds(self) -> frozenset[Literal["json", "grammar"]]:
        """JSON schemas, for models of OpenAI's class; other integrations have different parameters."""
        openai = any(kind.__name__ == "BaseChatOpenAI" for kind in self._kind.__mro__)
        return frozenset({"json"}) if openai else frozenset()

    @property
    def identity(self) -> str:
        """The identity of the model for a cache: its class, identifying parameters, and bound arguments."""
        told = sha256(self._identity.encode("utf-8", "surrogatepass")).hexdigest()
        return repr(("langchain", self.card.name, self.card.version, told))

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Call the model; with `request.stream`, as a stream."""
        answer, pieces, finish = None, list[str](), None
        model = self._offered(request.tools)
        asked, options = to_langchain(request.messages), self._options(request)
        with scrubbing():
            if not request.stream:
                with langchain_errors(self.card.name):
                    answer = await apart(model.ainvoke(asked, **options))
                finish = finish_of(answer)
            else:
                chunks = each(model.astream(asked, **options), errors=langchain_errors(self.card.name))
                try:
                    async with aclosing(chunks):
                        async for chunk in chunks:
                            answer = chunk if answer is None else answer + chunk
                            finish = joined_finish(finish, finish_of(chunk))
                            if text := str(chunk.text):
                                pieces.append(text)
                                yield text
                except (WorkerBroken, WorkerTimeout) as error:
                    if finish is None or isinstance(error, ReportedFault):
                        raise  # else the answer was complete before its stream was cut
            yield self._completion(request, answer, "".join(pieces), finish)

    def _offered(self, tools: Tools | None) -> Runnable[Any, Any]:
        if tools is None:
            return self.model
        assert isinstance(self.model, BaseChatModel)  # `takes_tools` is true only for these
        choice = {} if tools.choice is None else {"tool_choice": _choice(tools.choice)}
        return self.model.bind_tools([dict(tool) for tool in tools.offered], **choice)

    def _options(self, request: Request) -> dict[str, Any]:
        sampling = request.sampling
        options = sampling_arguments(sampling)
        if sampling.effort is not None and "reasoning_effort" in self._kind.model_fields:
            options["reasoning_effort"] = sampling.effort
        is_text = request.tools is None or not request.tools.is_forced
        if is_text and sampling.constraint is not None and sampling.constraint.kind in self.constraint_kinds:
            schema = {"name": "answer", "schema": sampling.constraint.value, "strict": True}
            options["response_format"] = {"type": "json_schema", "json_schema": schema}
        return options

    def _completion(self, request: Request, answer: object, streamed: str, finish: str | None) -> Completion:
        """Return the answer, by the same rules as for every chat model."""
        if not isinstance(answer, AIMessage):
            told = "nothing" if answer is None else f"a {type(answer).__name__}, not a message of a model"
            raise WorkerBroken(f"worker {self.card.name!r} returned {told}", maybe_paid=True)
        metadata = answer.response_metadata
        provider = metadata.get("model_provider") or self._facts.get("ls_provider")
        completion = read_completion(
            request.messages,
            text=streamed or str(answer.text),
            finish_reason=finish or (None if provider in _STATING else "stop"),
            tool_calls=write_calls(answer),
            refusal=refusal_of(answer),
            usage=usage_counts(answer.usage_metadata),
            model=metadata.get("model_name") or metadata.get("model"),
        )
        return with_missing(completion, answer)


def _choice(choice: str | Part) -> str:
    """Return a tool choice that every integration accepts: `any`, `auto`, `none`, or a tool's name."""
    if isinstance(choice, str):
        return "any" if choice == "required" else choice
    return str(choice["function"]["name"])
