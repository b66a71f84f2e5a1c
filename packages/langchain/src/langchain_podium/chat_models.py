"""A conductor as a LangChain chat model.

The class has its own way to LangChain's runs, in place of the one of a chat model for OpenAI's client over
`podium.hosts.ConductorTransport`: see `docs/decisions/0013-langchain-keeps-its-chat-model.md`.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from typing import Any, Final, Literal, Self, cast

from langchain_core.caches import BaseCache
from langchain_core.callbacks import (
    AsyncCallbackManagerForLLMRun,
    BaseRunManager,
    CallbackManagerForLLMRun,
    UsageMetadataCallbackHandler,
)
from langchain_core.callbacks.manager import AsyncParentRunManager
from langchain_core.language_models import BaseChatModel, LangSmithParams, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult, LLMResult
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import ensure_config, patch_config
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_core.utils.utils import LC_ID_PREFIX
from pydantic import ConfigDict, Field, model_validator

from langchain_podium.callbacks import (
    ambient,
    call_as_child_run,
    hears,
    run_in_task,
    scrub_run,
    tell,
    thread_of,
)
from langchain_podium.messages import PROVIDER, from_langchain, read_calls, read_usage, write_usage
from langchain_podium.response_format import Method, Schema, structured
from langchain_podium.workers import as_planner, as_worker
from podium.aio import iterate, run_sync
from podium.aio.sync import events_of
from podium.conductor import CARD, Conductor
from podium.errors import ConfigError
from podium.execution import Retry
from podium.hosts import (
    ChatAnswer,
    ChatCall,
    ConductorFace,
    read_sampling,
    read_tools,
    result_metadata,
)
from podium.hosts.faces import conductor_of
from podium.run import RunOptions
from podium.usage import Usage

_READER: Final = ContextVar[Callable[[AIMessageChunk], None] | None]("podium_chat_reader", default=None)
"""Takes the chunks of the answer, if the caller reads a stream."""
_FACTS: Final = (
    *("run_id", "parent_run_id", "handlers", "inheritable_handlers"),
    *("tags", "inheritable_tags", "metadata", "inheritable_metadata"),
)
_NOSTREAM: Final = "nostream"
"""The tag that keeps a run's tokens out of LangGraph's stream of messages; only the answer is streamed."""
_OWN: Final = frozenset(LangSmithParams.__annotations__)
"""Metadata of the chat model itself, which are wrong for its child runs."""
_TAKES: Final = ("tools", "tool_choice", "parallel_tool_calls", "timeout", "model", "labels", "policy")


class Counter(UsageMetadataCallbackHandler):
    """Adds up the tokens that child runs report, like LangChain's own handler."""

    run_inline = True

    @property
    def seen(self) -> Usage:
        """All tokens reported so far."""
        return Usage.total(usage for told in self.usage_metadata.values() if (usage := read_usage(told)))


class ChatRun(AsyncCallbackManagerForLLMRun, AsyncParentRunManager):
    """The run of a chat model, with child runs, which LangChain does not provide for."""

    @classmethod
    def of(cls, run: BaseRunManager | None) -> Self:
        """Return the run of a manager of LangChain's; none of both tells the callbacks secrets."""
        own = cls.get_noop_manager()
        if run is not None:
            scrub_run(run)
            own = cls(**{name: getattr(run, name) for name in _FACTS})
        own.inheritable_metadata = {
            key: value for key, value in own.inheritable_metadata.items() if key not in _OWN
        }
        scrub_run(own)
        return own

    @property
    def message_id(self) -> str:
        """The id of the message, and of its chunks."""
        return f"{LC_ID_PREFIX}-{self.run_id}"

    async def told(self, chunk: AIMessageChunk, version: str | None) -> AIMessageChunk:
        """Tell a chunk to the callbacks, and return it; `version` is LangChain's form of its content."""
        chunk.id = self.message_id
        if version == "v1":
            facts = {**chunk.response_metadata, "output_version": version}
            blocks = [{"index": 0, **block} for block in chunk.content_blocks]
            chunk = chunk.model_copy(update={"content": blocks, "response_metadata": facts})
        if self.handlers:
            await self.on_llm_new_token(str(chunk.text), chunk=ChatGenerationChunk(message=chunk))
        return chunk

    @contextmanager
    def counted(self) -> Iterator[Counter]:
        """Make everything that starts in the block a child of this run, and count its tokens."""
        counter, children = Counter(), self.get_child()
        children.add_tags([_NOSTREAM])
        children.add_handler(counter)
        with ambient(patch_config(ensure_config(), callbacks=children)):
            yield counter


class ModelCall:
    """A call of a chat model that a conductor answers."""

    def __init__(
        self,
        model: "ChatPodium",
        messages: Sequence[BaseMessage],
        stop: list[str] | None,
        options: dict[str, Any],
    ) -> None:
        own = {name: getattr(model, name) for name in ("temperature", "max_tokens", "timeout", "stop")}
        given = {name: value for name, value in {**options, "stop": stop}.items() if value is not None}
        said = own | given
        if said.pop("model", model.model_name) != model.model_name:
            told = "a conductor has no model of its own: its planner and its workers have models"
            raise ConfigError(f"model {given['model']!r}: {told}")
        self._model, self._messages = model, messages
        self._answer: ChatAnswer | None = None
        self._options: RunOptions = {
            "labels": said.pop("labels", ()),
            "policy": said.pop("policy", None),
            "middleware": call_as_child_run,
        }
        self._settings: dict[str, Any] = {
            "timeout": said.pop("timeout", None),
            "is_parallel": said.pop("parallel_tool_calls", None) is not False,
            "tools": read_tools(said.pop("tools", None), said.pop("tool_choice", None)),
            "sampling": read_sampling(said, of="ChatPodium", takes=_TAKES),
            "partial": model.partial,
        }

    async def chunks(self, run: ChatRun, *, stream: bool) -> AsyncGenerator[AIMessageChunk, None]:
        """Run the call; with `stream`, yield the answer as it is written, and also tell it to the callbacks.

        Leaving the iteration cancels the run.
        """
        listened, version = hears(run), self._model.output_version
        conductor, query = self._model.conductor, from_langchain(self._messages)
        with run_in_task(conductor, query, run.run_id) as run_id:
            call = ChatCall(
                conductor,
                query,
                continuation=_continuation(self._messages),
                options={**self._options, "run_id": run_id},
                session=thread_of(ensure_config()),
                **self._settings,
            )
            with run.counted() as counter:  # the run's task starts here, with these context variables
                events = call.events(stream=stream)
                item = await anext(events, None)
            async with aclosing(events):
                while item is not None:
                    event, text = item
                    if listened:
                        await tell(run, event)
                    if text and stream:
                        yield await run.told(AIMessageChunk(content=text), version)
                    item = await anext(events, None)
            self._answer = answer = call.answer()
        self._facts: dict[str, Any] = {
            "usage_metadata": write_usage(answer.new_usage.beyond(counter.seen)),
            "response_metadata": self._metadata(answer),
        }
        if stream:
            yield await run.told(self._last(answer, call.rest()), version)

    def message(self, run: ChatRun) -> AIMessage:
        """Return the whole message, after `chunks` has ended."""
        assert self._answer is not None  # a call without an answer raises
        calls, broken = read_calls(self._answer.tool_calls)
        return AIMessage(
            self._answer.text,
            id=run.message_id,
            tool_calls=calls,
            invalid_tool_calls=broken,
            **self._facts,
        )

    def _last(self, answer: ChatAnswer, rest: str) -> AIMessageChunk:
        """Return the last chunk of a stream: the unsent text, the tool calls, and the metadata."""
        calls = [
            tool_call_chunk(
                name=call["function"].get("name"),
                args=call["function"].get("arguments") or "{}",
                id=call.get("id"),
                index=index,
            )
            for index, call in enumerate(answer.tool_calls)
        ]
        return AIMessageChunk(
            content=rest,
            tool_call_chunks=calls,
            chunk_position="last",
            **self._facts,
        )

    def _metadata(self, answer: ChatAnswer) -> dict[str, Any]:
        """Return a message's `response_metadata`: plain JSON, without the outputs of the steps."""
        metadata = result_metadata(answer.result, usage=lambda usage: dict(write_usage(usage)))
        if answer.continuation is not None:
            metadata["continuation"] = dict(answer.continuation)
        return {
            "model_name": self._model.model_name,
            "model_provider": PROVIDER,
            "finish_reason": answer.host_finish_reason,
            "podium": metadata,
        }


def _continuation(messages: Sequence[BaseMessage]) -> object:
    """Return the continuation in the model's last message; `None` if there is none."""
    last = next((message for message in reversed(messages) if isinstance(message, AIMessage)), None)
    podium = {} if last is None else last.response_metadata.get("podium")
    return podium.get("continuation") if isinstance(podium, dict) else None


@ConductorFace.register
class ChatPodium(BaseChatModel):
    """A chat model that plans each question and has the conductor's workers execute the plan.

    Pass a conductor, or a planner and workers to create one. `temperature`, `max_tokens` and `stop` are
    passed to the worker of the plan's last step, which writes the answer, tools to each step; these steps
    then wait until the planner has written the whole plan. `response_metadata["podium"]` of a message is the
    run, as `podium.hosts.result_metadata` returns it. If the last step fails after a part of its text was
    streamed, it is retried: the stream continues if the retry begins with the same text, and otherwise raises
    `RunFailed`, whose `result` has the answer.

    Raises:
        ValidationError: a parameter is unknown, or there is neither a conductor nor a planner with workers.
    """

    conductor: Conductor = Field(default_factory=lambda: cast("Any", None), exclude=True, repr=False)
    """The conductor; if none is given, it is created from `planner` and `workers`."""
    planner: Any = Field(default=None, exclude=True, repr=False)
    """A chat model or a planner of Podium, to create the conductor; `None` after it is created."""
    fallback_planner: Any = Field(default=None, exclude=True, repr=False)
    """A chat model or a planner that writes the plan if `planner` returns no valid plan; `None` means no
    fallback.
    """
    workers: Sequence[Any] = Field(default=(), exclude=True, repr=False)
    """The objects that `as_worker` accepts."""
    max_retries: int | None = Field(default=None, ge=0, exclude=True, repr=False)
    """Maximum number of retries of a worker's call; `None` uses the defaults of `Retry`."""
    model_name: str = Field(default="", alias="model")
    """The name in messages and traces; empty means `podium`."""
    temperature: float | None = None
    """Temperature of the worker that writes the answer; `None`, here and below, leaves it to that worker."""
    max_tokens: int | None = None
    """Maximum tokens of the answer."""
    stop: list[str] | None = None
    """Stop sequences of the answer."""
    timeout: float | None = Field(default=None, gt=0)
    """Timeout of a call in seconds, including planning and all steps. A call that takes longer is cancelled
    and raises `LimitExceeded`. With `None`, only the conductor's `Limits.seconds` applies: a run that takes
    longer returns a partial answer, if there is one.
    """
    partial: Literal["return", "raise"] = "return"
    """Whether an incomplete answer is returned, or raised as `RunFailed`. A returned answer has the finish
    reason `length`, and its text ends with `(Not complete: …)`; a structured answer always raises.
    """
    streaming: bool = False
    """Whether `invoke` streams, for callbacks that read tokens."""
    cache: BaseCache | bool | None = Field(default=False, exclude=True)
    """LangChain's own cache, which is off. Its key does not include the workers, unlike the key of the
    conductor's `Cache`.
    """

    model_config = ConfigDict(
        arbitrary_types_allowed=True, extra="forbid", populate_by_name=True, hide_input_in_errors=True
    )

    @model_validator(mode="after")
    def _has_conductor(self) -> Self:
        retry = None if self.max_retries is None else Retry(attempts=self.max_retries + 1)
        options = {"retry": retry, "fallback_planner": self.fallback_planner}
        try:
            self.conductor = conductor_of(
                self.conductor,
                self.planner,
                self.workers,
                {name: value for name, value in options.items() if value is not None},
                card=CARD,
                as_worker=as_worker,
                as_planner=as_planner,
                face=ChatPodium,
            )
        except ConfigError as error:
            raise ValueError(str(error)) from error
        self.planner, self.fallback_planner, self.workers, self.max_retries = None, None, (), None
        self.model_name = self.model_name or PROVIDER
        return self

    @property
    def _llm_type(self) -> str:
        return "podium"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        """The workers and the sampling parameters, for traces and for LangChain's own cache."""
        who = {"workers": [worker.identity or worker.card.name for worker in self.conductor.pool]}
        said = ("model_name", "temperature", "max_tokens", "stop")
        return who | {name: getattr(self, name) for name in said}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        return super()._get_ls_params(stop=stop or self.stop, **kwargs)

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | bool | dict[str, Any] | None = None,
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Offer tools to the worker that writes the answer, if it accepts tools.

        Its tool calls are the message's `tool_calls`. The messages of the next turn end with the tool
        results, and the turn continues the same plan. The message with the tool calls has the results of the
        other steps, so they are not paid for again. If these are missing, belong to another question, or need
        workers that the pool lacks, the planner writes a new plan. Each turn is a run of its own, with all
        limits.

        Args:
            tools: functions, classes, tools, or schemas.
            tool_choice: `auto`, `none`, `any` or `required`, or the name of a tool; if a tool call is
                required and the answer has none, an error is raised. `None` leaves it to the model.
            strict: whether the server constrains arguments to the tool's schema, if it can; `None` leaves it
                to the server.
            kwargs: further arguments of each call; with `parallel_tool_calls=False` a message has at most one
                call.

        Raises:
            ConfigError: `tool_choice` is not the name of one of the tools.
        """
        offered = [convert_to_openai_tool(tool, strict=strict) for tool in tools]
        choice = read_tools(offered, tool_choice).choice
        if choice is not None:
            kwargs["tool_choice"] = choice
        return self.bind(tools=offered, **kwargs)

    def with_structured_output(
        self,
        schema: Schema,
        *,
        method: Method = "function_calling",
        strict: bool | None = None,
        include_raw: bool = False,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, Any]:
        """Return a Runnable with structured output.

        Args:
            schema: a Pydantic class, a `TypedDict`, a JSON schema, or a tool's schema.
            method: with `function_calling`, the schema is a tool that the worker of the last step must call.
                With `json_schema`, the server of this worker makes the text follow the schema, if it can.
                With `json_mode`, the answer is only parsed as JSON; the question must ask for JSON.
            strict: as in `bind_tools`.
            include_raw: whether to return a dict with `raw`, `parsed` and `parsing_error` instead of raising
                an error if the answer cannot be parsed.
            kwargs: not supported.

        Raises:
            ConfigError: `method` is unknown, or does not support `strict`.
            TypeError: there are other arguments.
        """
        if kwargs:
            raise TypeError(f"with_structured_output does not accept {', '.join(kwargs)}")
        return structured(self, schema, method=method, strict=strict, include_raw=include_raw)

    async def astream(
        self,
        input: LanguageModelInput,  # noqa: A002 - LangChain's name
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[AIMessageChunk, None]:
        """Stream the answer; leaving the stream cancels the run, and waits for its end."""
        model = self.model_copy(update={"cache": False})

        async def answer(emit: Callable[[AIMessageChunk], None]) -> None:
            _READER.set(emit)
            await model.ainvoke(input, config, **kwargs)

        async with aclosing(events_of(answer)) as chunks:
            async for chunk in chunks:
                yield chunk

    def stream(
        self,
        input: LanguageModelInput,  # noqa: A002 - LangChain's name
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Iterator[AIMessageChunk]:
        """Stream the answer, also inside a running event loop; leaving the stream cancels the run."""
        return iterate(lambda: self.astream(input, config, **kwargs))

    def _should_stream(self, **_: Any) -> bool:
        return False  # LangChain gives `_astream` no run; `_whole` has it, and streams

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        run = ChatRun.of(run_manager)
        try:
            return await self._whole(messages, stop, run, kwargs)
        except asyncio.CancelledError as left:  # LangChain would not end the run
            await run.on_llm_error(left, response=LLMResult(generations=[]))
            raise

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        run = ChatRun.of(run_manager)
        return run_sync(lambda: self._whole(messages, stop, run, kwargs))

    async def _whole(
        self, messages: list[BaseMessage], stop: list[str] | None, run: ChatRun, said: dict[str, Any]
    ) -> ChatResult:
        """Return the message; if it is streamed, its chunks are read or told before."""
        read = _READER.get()
        _READER.set(None)  # not for models that this run calls
        streams = read is not None or super()._should_stream(async_api=True, run_manager=run)
        call = ModelCall(self, messages, stop, said)
        async with aclosing(call.chunks(run, stream=streams)) as chunks:
            async for chunk in chunks:
                if read is not None:
                    read(chunk)
        return ChatResult(generations=[ChatGeneration(message=call.message(run))])

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[ChatGenerationChunk, None]:
        call, run = ModelCall(self, messages, stop, kwargs), ChatRun.of(run_manager)
        async with aclosing(call.chunks(run, stream=True)) as chunks:
            async for chunk in chunks:
                yield ChatGenerationChunk(message=chunk)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        return iterate(lambda: self._astream(messages, stop, run_manager, **kwargs))
