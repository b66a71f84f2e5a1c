"""The answer of a conductor as items and events of the Responses API."""

from collections.abc import Iterator, Mapping, Sequence
from time import time
from typing import Any, Final
from uuid import uuid4

from agents import ModelResponse
from agents.items import TResponseOutputItem, TResponseStreamEvent
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseContentPartAddedEvent,
    ResponseContentPartDoneEvent,
    ResponseCreatedEvent,
    ResponseFunctionCallArgumentsDeltaEvent,
    ResponseFunctionToolCall,
    ResponseOutputItemAddedEvent,
    ResponseOutputItemDoneEvent,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningSummaryTextDeltaEvent,
    ResponseTextDeltaEvent,
    ResponseTextDoneEvent,
    ResponseUsage,
)

from openai_agents_podium.messages import write_usage
from podium.types import Part, StepDelta
from podium.usage import Usage

_STEP_ID: Final = "podium_{run}_{round}_{step}_{attempt}"


_NO_DATA: Final[Mapping[str, Any]] = {}


def write_items(
    text: str,
    calls: Sequence[Part],
    *,
    item_id: str,
    data: Mapping[str, Any] = _NO_DATA,
    call_data: Mapping[str, Any] = _NO_DATA,
) -> list[TResponseOutputItem]:
    """Return an answer as items.

    Args:
        text: what was written.
        calls: calls of tools, as OpenAI's chat completions write them.
        item_id: the id of the message; calls have it with a number.
        data: the `provider_data` of the first item.
        call_data: the `provider_data` of the first call.
    """
    items: list[TResponseOutputItem] = []
    if text or not calls:
        items.append(
            ResponseOutputMessage(
                id=item_id, content=[_text(text)], role="assistant", status="completed", type="message"
            )
        )
    for number, call in enumerate(calls):
        function = call["function"]
        items.append(
            ResponseFunctionToolCall(
                id=f"{item_id}_{number}",
                call_id=call.get("id") or f"call_{item_id}_{number}",
                name=function.get("name", ""),
                arguments=function.get("arguments") or "{}",
                type="function_call",
                status="completed",
            )
        )
    _add_data(items[0], data)
    if calls:
        _add_data(items[-len(calls)], call_data)
    return items


def _add_data(item: Any, data: Mapping[str, Any]) -> None:
    """Add to the `provider_data` of an item, a field that the SDK knows and OpenAI's types do not."""
    if data:
        item.provider_data = {**(getattr(item, "provider_data", None) or {}), **data}


def model_response(items: Sequence[TResponseOutputItem], usage: Usage) -> ModelResponse:
    """Return the answer of a call that is not streamed."""
    return ModelResponse(output=list(items), usage=write_usage(usage), response_id=None)


class ResponseEvents:
    """The events of one streamed answer, in the order in which models of OpenAI send them.

    Args:
        model: the name of the model.
    """

    def __init__(self, model: str) -> None:
        self._response = Response(
            id=f"resp_{uuid4().hex}",
            created_at=time(),
            model=model,
            object="response",
            output=[],
            tool_choice="auto",
            tools=[],
            parallel_tool_calls=True,
        )
        self._number = -1
        self._text = ""
        self._item_id = f"msg_{uuid4().hex}"

    def begin(self) -> Iterator[TResponseStreamEvent]:
        """Yield the events before anything is written."""
        yield ResponseCreatedEvent(
            response=self._response, type="response.created", sequence_number=self._next()
        )

    def text(self, delta: str) -> Iterator[TResponseStreamEvent]:
        """Yield the events for a piece of the answer."""
        if not self._text:
            yield from self._open_message()
        self._text += delta
        yield ResponseTextDeltaEvent(
            content_index=0,
            delta=delta,
            item_id=self._item_id,
            logprobs=[],
            output_index=0,
            type="response.output_text.delta",
            sequence_number=self._next(),
        )

    def step(self, event: StepDelta) -> Iterator[TResponseStreamEvent]:
        """Yield the event for a piece of the output of a step: a piece of the summary of the reasoning."""
        names = {"run": event.run_id, "round": event.round, "step": event.step, "attempt": event.attempt}
        yield ResponseReasoningSummaryTextDeltaEvent(
            delta=event.text,
            item_id=_STEP_ID.format(**names),
            output_index=0,
            summary_index=0,
            type="response.reasoning_summary_text.delta",
            sequence_number=self._next(),
        )

    def end(self, items: Sequence[TResponseOutputItem], usage: Usage) -> Iterator[TResponseStreamEvent]:
        """Yield the events after everything is written; the last holds the whole answer."""
        for index, item in enumerate(items):
            if isinstance(item, ResponseOutputMessage):
                item.id = self._item_id
                yield from self._close_message(item)
            elif isinstance(item, ResponseFunctionToolCall):
                yield from self._call(index, item)
        yield ResponseCompletedEvent(
            response=self._response.model_copy(
                update={"output": list(items), "usage": _response_usage(usage), "status": "completed"}
            ),
            type="response.completed",
            sequence_number=self._next(),
        )

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _open_message(self) -> Iterator[TResponseStreamEvent]:
        yield ResponseOutputItemAddedEvent(
            item=ResponseOutputMessage(
                id=self._item_id, content=[], role="assistant", status="in_progress", type="message"
            ),
            output_index=0,
            type="response.output_item.added",
            sequence_number=self._next(),
        )
        yield ResponseContentPartAddedEvent(
            content_index=0,
            item_id=self._item_id,
            output_index=0,
            part=_text(""),
            type="response.content_part.added",
            sequence_number=self._next(),
        )

    def _close_message(self, item: ResponseOutputMessage) -> Iterator[TResponseStreamEvent]:
        if not self._text:  # nothing was streamed
            yield from self.text("".join(part.text for part in item.content if part.type == "output_text"))
        at: dict[str, Any] = {"content_index": 0, "item_id": self._item_id, "output_index": 0}
        yield ResponseTextDoneEvent(
            **at,
            logprobs=[],
            text=self._text,
            type="response.output_text.done",
            sequence_number=self._next(),
        )
        yield ResponseContentPartDoneEvent(
            **at,
            part=_text(self._text),
            type="response.content_part.done",
            sequence_number=self._next(),
        )
        yield ResponseOutputItemDoneEvent(
            item=item, output_index=0, type="response.output_item.done", sequence_number=self._next()
        )

    def _call(self, index: int, item: ResponseFunctionToolCall) -> Iterator[TResponseStreamEvent]:
        yield ResponseOutputItemAddedEvent(
            item=item.model_copy(update={"arguments": "", "status": "in_progress"}),
            output_index=index,
            type="response.output_item.added",
            sequence_number=self._next(),
        )
        yield ResponseFunctionCallArgumentsDeltaEvent(
            delta=item.arguments,
            item_id=item.id or "",
            output_index=index,
            type="response.function_call_arguments.delta",
            sequence_number=self._next(),
        )
        yield ResponseOutputItemDoneEvent(
            item=item, output_index=index, type="response.output_item.done", sequence_number=self._next()
        )


def _text(text: str) -> ResponseOutputText:
    return ResponseOutputText(annotations=[], text=text, type="output_text", logprobs=[])


def _response_usage(usage: Usage) -> ResponseUsage:
    written = write_usage(usage)
    return ResponseUsage(
        input_tokens=written.input_tokens,
        output_tokens=written.output_tokens,
        total_tokens=written.total_tokens,
        input_tokens_details=written.input_tokens_details,
        output_tokens_details=written.output_tokens_details,
    )
