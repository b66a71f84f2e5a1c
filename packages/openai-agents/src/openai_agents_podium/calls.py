"""Calls of the SDK's objects as workers: what is watched in a call, and the worker that is a model.

Workers do not retry. Turn off the client's own retries.
"""

from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from copy import copy
from typing import Any, Literal

from agents import (
    FunctionTool,
    Model,
    ModelProvider,
    ModelTracing,
    OpenAIChatCompletionsModel,
    RunContextWrapper,
    RunHooks,
    Usage as AgentsUsage,
)
from agents.items import TResponseOutputItem
from agents.tracing import get_current_trace
from openai import AsyncStream
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage

from openai_agents_podium.conversions import (
    SchemaOutput,
    model_settings,
    read_agents_error,
    read_usage,
    to_items,
)
from podium.aio.sync import events_of
from podium.errors import WorkerBroken, WorkerError
from podium.hosts import ConductorFace, read_completion, tool_call, worker_errors
from podium.secrets import scrubbing
from podium.types import Completion, Part, Tools
from podium.usage import Usage
from podium.workers import Card, Request, Worker
from podium.workers.openai.chat_response import read_usage as read_counts

Emit = Callable[[str | Completion], None]
"""Takes the pieces of an answer, and then its completion."""


class CallWatch(RunHooks[Any]):
    """What happens in one call: its tokens, and the finish reasons of its models.

    `OpenAIChatCompletionsModel` returns a cut, filtered or unfinished answer like a complete one. So Podium
    reads what such a model fetches, without changing the model. Models of the Responses API raise for such
    answers; every answer of other models counts as complete.
    """

    def __init__(self) -> None:
        self.finish: str | None = "stop"
        """The finish reason of the latest answer; `None` if its end was not seen."""
        self.asked_a_model = False
        self.has_answered = False
        """Whether a model has answered, so that a tool may have run."""
        self._under_way = 0
        self._usage = AgentsUsage()

    @property
    def is_asking(self) -> bool:
        """Whether a model call has started and not ended."""
        return self._under_way > 0

    def finished_usage(self) -> Usage | None:
        """Return the tokens of the answers so far; `None` before the first, or if some are unknown."""
        used = read_usage(self._usage)
        return None if used == Usage() else used

    async def on_llm_start(self, context: RunContextWrapper[Any], *_: Any, **__: Any) -> None:
        """Note the start of a model call."""
        self.asked_a_model = True
        self._under_way += 1
        self._usage = context.usage

    async def on_llm_end(self, *_: Any, **__: Any) -> None:
        """Note the end of a model call."""
        self._under_way -= 1
        self.has_answered = True

    def watched(self, model: Model) -> Model:
        """Return the model; a chat completions model is copied, and its answers are watched."""
        if not isinstance(model, OpenAIChatCompletionsModel) or isinstance(model, ConductorFace):
            return model
        watched: Any = copy(model)

        async def fetch(*asked: Any, **options: Any) -> Any:
            answer: Any = await model._fetch_response(*asked, **options)  # noqa: SLF001 - no public way
            if isinstance(answer, ChatCompletion):
                self._take(answer)
                return answer
            response, stream = answer
            self.finish = None
            return response, self._chunks(stream)

        watched._fetch_response = fetch  # noqa: SLF001
        return watched  # type: ignore[no-any-return]

    async def _chunks(self, stream: AsyncStream[ChatCompletionChunk]) -> AsyncIterator[ChatCompletionChunk]:
        async with stream:
            async for chunk in stream:
                self._take(chunk)
                yield chunk

    def _take(self, answer: ChatCompletion | ChatCompletionChunk) -> None:
        """Record the finish reason of an answer or a chunk."""
        for choice in (answer.choices or ())[:1]:  # a server may leave them out
            if choice.finish_reason is not None or isinstance(answer, ChatCompletion):
                self.finish = choice.finish_reason


class WatchedProvider(ModelProvider):
    """Finds the models of another provider, and watches them."""

    def __init__(self, provider: ModelProvider, watch: CallWatch) -> None:
        self._provider, self._watch = provider, watch

    def get_model(self, model_name: str | None) -> Model:
        """Return the model of a name, watched."""
        return self._watch.watched(self._provider.get_model(model_name))


class AgentsWorker(Worker):
    """Calls an object of the SDK, in a task of its own."""

    def __init__(self, card: Card) -> None:
        self.card = card

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.card.name!r})"

    @abstractmethod
    async def ask(self, request: Request, watch: CallWatch, emit: Emit) -> None:
        """Call the object."""

    def bill(self, request: Request, watch: CallWatch, error: WorkerError) -> None:
        """Add to an error what the call has used."""

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Call the object; with `request.stream`, as a stream if its first text is its answer."""
        watch, sent, done = CallWatch(), False, None
        with scrubbing():
            asking: AsyncGenerator[str | Completion, None] = events_of(
                lambda emit: self.ask(request, watch, emit)
            )
            async with aclosing(asking) as pieces:
                while done is None:
                    try:
                        with worker_errors(self.card.name, reader=read_agents_error):
                            piece = await anext(pieces, None)
                            if piece is None:
                                told = f"worker {self.card.name!r} ended without a response"
                                raise WorkerBroken(told, maybe_paid=True)
                    except WorkerError as error:
                        self.bill(request, watch, error)
                        raise
                    if isinstance(piece, str):
                        sent = True
                        yield piece
                    else:
                        done = piece
        if request.stream and done.text and not sent:
            yield done.text
        yield done


class ModelWorker(AgentsWorker):
    """Calls a model of the SDK."""

    takes_tools = True

    def __init__(self, model: Model, *, card: Card) -> None:
        super().__init__(card)
        self.model = model

    @property
    def constraint_kinds(self) -> frozenset[Literal["json", "grammar"]]:
        """JSON schemas."""
        return frozenset({"json"})

    async def ask(self, request: Request, watch: CallWatch, emit: Emit) -> None:
        """Ask the model."""
        model, sampling = watch.watched(self.model), request.sampling
        settings, tools = model_settings(sampling), request.tools
        if tools is not None:
            settings.tool_choice = _choice(tools)
        constraint = sampling.constraint
        asked: dict[str, Any] = {
            "system_instructions": None,
            "input": to_items(request.messages),
            "model_settings": settings,
            "tools": [] if tools is None else [_tool(tool) for tool in tools.offered],
            "output_schema": None if constraint is None else SchemaOutput(constraint),
            "handoffs": [],
            "tracing": _tracing(),
            "previous_response_id": None,
            "conversation_id": None,
            "prompt": None,
        }
        if not request.stream:
            response = await model.get_response(**asked)
            emit(self._completion(request, watch, response.output, read_usage(response.usage)))
            return
        async for event in model.stream_response(**asked):
            if event.type == "response.output_text.delta" and event.delta:
                emit(event.delta)
            elif event.type == "response.completed":
                ended = event.response
                usage = None if ended.usage is None else read_counts(ended.usage.model_dump())
                emit(self._completion(request, watch, ended.output, usage))

    def _completion(
        self,
        request: Request,
        watch: CallWatch,
        output: Sequence[TResponseOutputItem],
        usage: Usage | None,
    ) -> Completion:
        """Return the answer, by the same rules as for every chat model."""
        parts = [part for item in output if isinstance(item, ResponseOutputMessage) for part in item.content]
        calls = [item for item in output if isinstance(item, ResponseFunctionToolCall)]
        return read_completion(
            request.messages,
            text="".join(part.text or "" for part in parts if part.type == "output_text"),
            finish_reason=watch.finish,
            tool_calls=[tool_call(call.call_id, call.name, call.arguments) for call in calls],
            refusal="".join(part.refusal for part in parts if part.type == "refusal") or None,
            usage=usage,
            model=str(getattr(self.model, "model", "") or "") or None,
        )


def _choice(tools: Tools) -> str | None:
    choice = tools.choice
    return choice if choice is None or isinstance(choice, str) else str(choice["function"]["name"])


def _tool(tool: Part) -> FunctionTool:
    """Return a function in OpenAI's format as a tool that is offered but never called here."""
    function = tool["function"]

    async def never(_context: object, _arguments: str) -> str:
        raise AssertionError("the caller of the run calls its tools")

    return FunctionTool(
        name=function["name"],
        description=function.get("description") or "",
        params_json_schema=dict(function.get("parameters") or {"type": "object", "properties": {}}),
        on_invoke_tool=never,
        strict_json_schema=bool(function.get("strict")),
    )


def _tracing() -> ModelTracing:
    """Return the tracing of the call: below the span of the step, without data."""
    return ModelTracing.DISABLED if get_current_trace() is None else ModelTracing.ENABLED_WITHOUT_DATA
