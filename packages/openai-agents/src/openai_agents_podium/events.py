"""Write a conductor's answer as items and events of the Responses API."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from time import time
from typing import Any, Final
from uuid import uuid4

from agents import ModelResponse
from agents.items import TResponseOutputItem, TResponseStreamEvent
from agents.models.fake_id import FAKE_RESPONSES_ID
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
    ResponseReasoningItem,
    ResponseReasoningSummaryPartAddedEvent,
    ResponseReasoningSummaryPartDoneEvent,
    ResponseReasoningSummaryTextDeltaEvent,
    ResponseReasoningSummaryTextDoneEvent,
    ResponseTextDeltaEvent,
    ResponseTextDoneEvent,
    ResponseUsage,
)
from openai.types.responses.response import IncompleteDetails
from openai.types.responses.response_reasoning_summary_part_added_event import Part as AddedPart
from openai.types.responses.response_reasoning_summary_part_done_event import Part as DonePart

from openai_agents_podium.messages import write_usage
from openai_agents_podium.tool_continuation import PODIUM
from podium.types import Part, StepDelta
from podium.usage import Usage

_STEP_ID: Final = "podium_{run}_{round}_{step}_{attempt}"


_NO_DATA: Final[Mapping[str, Any]] = {}


def write_items(
    text: str,
    calls: Sequence[Part],
    *,
    taken: Collection[str] = (),
    data: Mapping[str, Any] = _NO_DATA,
    call_data: Mapping[str, Any] = _NO_DATA,
) -> list[TResponseOutputItem]:
    """Convert an answer to items of the Responses API.

    Args:
        text: the text of the answer.
        calls: the tool calls, in the format of OpenAI's chat completions.
        taken: ids of tool calls in the conversation. A call with one of these gets a new id, because the SDK
            drops calls with a repeated id.
        data: the `provider_data` of the first item.
        call_data: the `provider_data` of the first tool call.
    """
    items: list[TResponseOutputItem] = []
    if text or not calls:
        items.append(
            ResponseOutputMessage(
                id=FAKE_RESPONSES_ID,
                content=[_text(text)],
                role="assistant",
                status="completed",
                type="message",
            )
        )
    for call in calls:
        function, call_id = call["function"], call.get("id")
        items.append(
            ResponseFunctionToolCall(
                id=FAKE_RESPONSES_ID,
                call_id=call_id if call_id and call_id not in taken else f"call_{uuid4().hex}",
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


def mark_incomplete(items: Sequence[TResponseOutputItem]) -> None:
    """Mark the text of an incomplete answer."""
    for item in items:
        if isinstance(item, ResponseOutputMessage):
            item.status = "incomplete"


def _add_data(item: Any, data: Mapping[str, Any]) -> None:
    """Add to the `provider_data` of an item, a field that the SDK defines and OpenAI's types do not."""
    if data:
        item.provider_data = {**(getattr(item, "provider_data", None) or {}), **data}


def model_response(items: Sequence[TResponseOutputItem], usage: Usage) -> ModelResponse:
    """Return the result of a call without streaming."""
    return ModelResponse(output=list(items), usage=write_usage(usage), response_id=None)


class ResponseEvents:
    """Creates the events of one streamed answer, in the order of OpenAI's models.

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
        self._steps: dict[str, str] = {}
        """The text so far of each streamed step, by item id."""
        self._places: dict[str, int] = {}
        """The index of each item in the output, by the id of the item or tool call."""

    def begin(self) -> Iterator[TResponseStreamEvent]:
        """Yield the first events."""
        yield ResponseCreatedEvent(
            response=self._response, type="response.created", sequence_number=self._next()
        )

    def text(self, delta: str) -> Iterator[TResponseStreamEvent]:
        """Yield the events for a chunk of the answer."""
        if not self._text:
            yield from self._open_message()
        self._text += delta
        yield ResponseTextDeltaEvent(
            **self._at,
            delta=delta,
            logprobs=[],
            type="response.output_text.delta",
            sequence_number=self._next(),
        )

    def step(self, event: StepDelta) -> Iterator[TResponseStreamEvent]:
        """Yield the events for a chunk of a step's output, as a chunk of the reasoning summary."""
        names = {"run": event.run_id, "round": event.round, "step": event.step, "attempt": event.attempt}
        step_id = _STEP_ID.format(**names)
        if step_id not in self._steps:
            yield from self._open_step(step_id)
        self._steps[step_id] += event.text
        yield ResponseReasoningSummaryTextDeltaEvent(
            **self._step_at(step_id),
            delta=event.text,
            type="response.reasoning_summary_text.delta",
            sequence_number=self._next(),
        )

    def end(self, items: Sequence[TResponseOutputItem], usage: Usage) -> Iterator[TResponseStreamEvent]:
        """Yield the last events; the very last has the whole answer.

        If the answer is incomplete, the last event is also a `response.completed`, because the SDK's runner
        drops the answer of a `response.incomplete`. The response in this event has the status `incomplete`,
        and the reason if the answer was cut. The outputs of other steps are not in the answer, and have no
        event `response.output_item.done`. So they do not become part of the conversation.
        """
        for step_id, text in self._steps.items():
            yield from self._close_step(step_id, text)
        for item in items:
            if isinstance(item, ResponseOutputMessage):
                yield from self._close_message(item)
            elif isinstance(item, ResponseFunctionToolCall):
                yield from self._call(self._place(item.call_id), item)
        update = {"output": list(items), "usage": _response_usage(usage), "status": "completed"}
        for item in items:
            if isinstance(item, ResponseOutputMessage) and item.status == "incomplete":
                update |= {"status": "incomplete", "incomplete_details": _details(item)}
        yield ResponseCompletedEvent(
            response=self._response.model_copy(update=update),
            type="response.completed",
            sequence_number=self._next(),
        )

    @property
    def _at(self) -> dict[str, Any]:
        """The fields of text events that identify the answer's message."""
        return {
            "item_id": FAKE_RESPONSES_ID,
            "output_index": self._place(FAKE_RESPONSES_ID),
            "content_index": 0,
        }

    def _step_at(self, step_id: str) -> dict[str, Any]:
        """Return the fields of text events that identify a step's item."""
        return {"item_id": step_id, "output_index": self._place(step_id), "summary_index": 0}

    def _place(self, name: str) -> int:
        """Return the index of an item in the output; a new item gets the next free index."""
        return self._places.setdefault(name, len(self._places))

    def _open_step(self, step_id: str) -> Iterator[TResponseStreamEvent]:
        self._steps[step_id] = ""
        yield ResponseOutputItemAddedEvent(
            item=ResponseReasoningItem(id=step_id, summary=[], type="reasoning", status="in_progress"),
            output_index=self._place(step_id),
            type="response.output_item.added",
            sequence_number=self._next(),
        )
        yield ResponseReasoningSummaryPartAddedEvent(
            **self._step_at(step_id),
            part=AddedPart(text="", type="summary_text"),
            type="response.reasoning_summary_part.added",
            sequence_number=self._next(),
        )

    def _close_step(self, step_id: str, text: str) -> Iterator[TResponseStreamEvent]:
        yield ResponseReasoningSummaryTextDoneEvent(
            **self._step_at(step_id),
            text=text,
            type="response.reasoning_summary_text.done",
            sequence_number=self._next(),
        )
        yield ResponseReasoningSummaryPartDoneEvent(
            **self._step_at(step_id),
            part=DonePart(text=text, type="summary_text"),
            type="response.reasoning_summary_part.done",
            sequence_number=self._next(),
        )

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _open_message(self) -> Iterator[TResponseStreamEvent]:
        at = self._at
        yield ResponseOutputItemAddedEvent(
            item=ResponseOutputMessage(
                id=FAKE_RESPONSES_ID, content=[], role="assistant", status="in_progress", type="message"
            ),
            output_index=at["output_index"],
            type="response.output_item.added",
            sequence_number=self._next(),
        )
        yield ResponseContentPartAddedEvent(
            **at, part=_text(""), type="response.content_part.added", sequence_number=self._next()
        )

    def _close_message(self, item: ResponseOutputMessage) -> Iterator[TResponseStreamEvent]:
        if not self._text:  # nothing was streamed
            yield from self.text("".join(part.text for part in item.content if part.type == "output_text"))
        at = self._at
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
            item=item,
            output_index=at["output_index"],
            type="response.output_item.done",
            sequence_number=self._next(),
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


def _details(item: Any) -> IncompleteDetails:
    """Return why an answer is incomplete; the Responses API has no value for missing parts."""
    problem = item.provider_data[PODIUM]["problem"]
    return IncompleteDetails(reason="max_output_tokens" if problem["code"] == "cut" else None)


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
