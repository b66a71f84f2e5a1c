"""A worker that is a model of the SDK.

It does not retry. Turn off the client's own retries.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Any, Literal

from agents import FunctionTool, Model, ModelTracing
from agents.items import TResponseOutputItem, TResponseStreamEvent
from agents.tracing import get_current_trace

from openai_agents_podium.messages import calls_of, read_usage, text_and_refusal, to_items
from openai_agents_podium.workers.errors import read_agents_error
from openai_agents_podium.workers.finish import Finishes
from openai_agents_podium.workers.nested import working_for
from openai_agents_podium.workers.settings import SchemaOutput, model_settings
from podium.aio.sync import events_of
from podium.errors import WorkerBroken
from podium.hosts import read_completion, worker_errors
from podium.secrets import scrubbing
from podium.types import Completion, Part, Tools
from podium.usage import Usage
from podium.workers import Card, Request, Worker
from podium.workers.openai.chat_response import read_usage as read_counts


class ModelWorker(Worker):
    """Calls a model of the SDK."""

    takes_tools = True

    def __init__(self, model: Model, *, card: Card) -> None:
        self.model = model
        self.card = card

    def __repr__(self) -> str:
        return f"ModelWorker({self.card.name!r})"

    @property
    def constraint_kinds(self) -> frozenset[Literal["json", "grammar"]]:
        """JSON schemas."""
        return frozenset({"json"})

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Call the model; with `request.stream`, as a stream."""
        done: Completion | None = None
        with scrubbing():
            asking: AsyncGenerator[str | Completion, None] = events_of(lambda emit: self._ask(request, emit))
            async with aclosing(asking) as pieces:
                while done is None:
                    with worker_errors(self.card.name, reader=read_agents_error):
                        piece = await anext(pieces, None)
                        if piece is None:
                            raise WorkerBroken(
                                f"worker {self.card.name!r} ended without a response", maybe_paid=True
                            )
                    if isinstance(piece, str):
                        yield piece
                    else:
                        done = piece
        yield done

    async def _ask(self, request: Request, emit: Callable[[str | Completion], None]) -> None:
        finishes = Finishes()
        model = finishes.watched(self.model)
        sampling, tools = request.sampling, request.tools
        settings = model_settings(sampling)
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
        with working_for(None, request):
            if not request.stream:
                response = await model.get_response(**asked)
                emit(self._completion(request, response.output, read_usage(response.usage), finishes))
                return
            async with aclosing(_closable(model.stream_response(**asked))) as events:
                async for event in events:
                    if event.type == "response.output_text.delta" and event.delta:
                        emit(event.delta)
                    elif event.type == "response.completed":
                        ended = event.response
                        usage = None if ended.usage is None else read_counts(ended.usage.model_dump())
                        emit(self._completion(request, ended.output, usage, finishes))

    def _completion(
        self,
        request: Request,
        output: Sequence[TResponseOutputItem],
        usage: Usage | None,
        finishes: Finishes,
    ) -> Completion:
        """Return the answer, by the same rules as for every chat model."""
        text, refusal = text_and_refusal(output)
        return read_completion(
            request.messages,
            text=text,
            finish_reason=finishes.latest,
            tool_calls=calls_of(output),
            refusal=refusal,
            usage=usage,
            model=str(getattr(self.model, "model", "") or "") or None,
        )


async def _closable(
    events: AsyncIterator[TResponseStreamEvent],
) -> AsyncGenerator[TResponseStreamEvent, None]:
    """Yield the events, and close the model's iterator if it can be closed."""
    try:
        async for event in events:
            yield event
    finally:
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()


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
