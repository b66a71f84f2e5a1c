"""The response object, and its writer: the pieces of a turn become output items and numbered events."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from time import time
from typing import Any, Literal

from podium.types import Action, Part
from podium.usage import Usage
from podium_server.api.responses.request import LEFT_OUT, OfferedTool, ResponseRequest, custom_input
from podium_server.errors import Fault, actions_form
from podium_server.turn import Answered, Piece, TextPiece, Turn

Status = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]
ENDED: tuple[Status, ...] = ("completed", "incomplete", "failed", "cancelled")
"""The states in which a response does not change any more."""


@dataclass(slots=True, kw_only=True)
class Response:
    """A response."""

    request: ResponseRequest
    run_id: str
    model: str
    """The id of the model with its version."""
    created: int
    """In seconds of Unix time."""
    keeps: bool
    """Whether the response is stored."""
    status: Status = "in_progress"
    output: list[Mapping[str, Any]] = field(default_factory=list)
    completed: int | None = None
    usage: Usage | None = None
    error: Mapping[str, Any] | None = None
    why_incomplete: str | None = None
    summary: Mapping[str, Any] | None = None
    """Facts about the run."""

    @property
    def response_id(self) -> str:
        """The id, which has the id of the run."""
        return id_of(self.run_id)

    def to_json(self) -> dict[str, Any]:
        """Return the response object."""
        asked = self.request
        effort = None if asked.reasoning is None else asked.reasoning.effort
        text = None if asked.text is None else asked.text
        return {
            "id": self.response_id,
            "object": "response",
            "created_at": self.created,
            "completed_at": self.completed,
            "status": self.status,
            "background": bool(asked.background),
            "error": self.error,
            "incomplete_details": None if self.why_incomplete is None else {"reason": self.why_incomplete},
            "instructions": asked.instructions,
            "max_output_tokens": asked.max_output_tokens,
            "max_tool_calls": None,
            "model": self.model,
            "output": list(self.output),
            "parallel_tool_calls": asked.parallel_tool_calls is not False,
            "previous_response_id": asked.previous_response_id,
            "reasoning": {"effort": effort, "summary": None},
            "service_tier": "default",
            "store": self.keeps,
            "temperature": 1.0 if asked.temperature is None else asked.temperature,
            "text": {"format": (text and text.format) or {"type": "text"}, "verbosity": "medium"},
            "tool_choice": asked.tool_choice or "auto",
            "tools": [_tool(tool) for tool in asked.tools or () if tool.get("type") not in LEFT_OUT],
            "top_logprobs": 0,
            "top_p": 1.0 if asked.top_p is None else asked.top_p,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "truncation": "disabled",
            "usage": None if self.usage is None else usage_form(self.usage),
            "user": asked.user,
            "safety_identifier": asked.safety_identifier,
            "prompt_cache_key": asked.prompt_cache_key,
            "metadata": asked.metadata or {},
            "podium": self._podium(),
        }

    def _podium(self) -> dict[str, Any]:
        facts = dict(self.summary or {"run_id": self.run_id})
        return {**facts, "ignored_tools": self.request.left_out} if self.request.left_out else facts


def id_of(run_id: str) -> str:
    """Return the id of the response of a run."""
    return f"resp_{run_id}"


def usage_form(usage: Usage) -> dict[str, Any]:
    """Return a usage as the Responses API has it; `total_tokens` includes the orchestration."""
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "orchestration_input_tokens": usage.orchestration_input_tokens,
            "orchestration_input_cached_tokens": usage.orchestration_cached_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {
            "reasoning_tokens": usage.reasoning_tokens,
            "orchestration_output_tokens": usage.orchestration_output_tokens,
        },
        "total_tokens": usage.total_tokens,
        "estimated": usage.estimated,
    }


def list_form(items: Sequence[Mapping[str, Any]], *, has_more: bool) -> dict[str, Any]:
    """Return a page of a list."""
    return {
        "object": "list",
        "data": list(items),
        "first_id": items[0]["id"] if items else None,
        "last_id": items[-1]["id"] if items else None,
        "has_more": has_more,
    }


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    if tool.get("type") != "function":
        return dict(tool)
    return {"description": None, "parameters": None, "strict": None, **tool}


Event = dict[str, Any]
"""A semantic event of a stream."""


class ResponseWriter:
    """Writes one response. Each method returns the new events, in order.

    Output items come one after another: the progress of the run as reasoning, the message, progress that was
    reported while the message was written, and the calls of functions.
    """

    def __init__(self, response: Response, clock: Callable[[], float] = time) -> None:
        self.response = response
        self._clock = clock
        self._number = 0
        self._texts: list[str] = []
        """The pieces of the open item."""
        self._open: str | None = None
        """The type of the open item; `None` if no item is open."""
        self._late: list[str] = []
        """Progress that was reported after the message began."""

    async def write(self, turn: Turn) -> None:
        """Run a turn, and write the whole response."""
        self.begin()
        async with aclosing(turn.pieces()) as pieces:
            async for piece in pieces:
                self.piece(piece)
        self.end(turn.answered)

    def begin(self, status: Status = "in_progress") -> list[Event]:
        """Begin the response."""
        self.response.status = status
        return [self._state("response.created"), self._state(f"response.{status}")]

    def proceed(self) -> list[Event]:
        """Begin the run of a queued response."""
        self.response.status = "in_progress"
        return [self._state("response.in_progress")]

    def piece(self, piece: Piece) -> list[Event]:
        """Write a piece of the answer or of the progress."""
        if isinstance(piece, TextPiece):
            return [*self._turn_to("message"), self._delta(piece.text)]
        if self._open == "message":
            self._late.append(piece.text)
            return []
        return [*self._turn_to("reasoning"), self._delta(piece.text)]

    def end(self, turn: Answered) -> list[Event]:
        """Write the end of a run that has an answer."""
        response, calls = self.response, turn.tool_calls
        is_cut = turn.finish_reason == "length"
        response.why_incomplete = "max_output_tokens" if is_cut else None
        status: Status = "incomplete" if is_cut else "completed"
        events: list[Event] = []
        if not calls and not self.has_text:
            events += self._turn_to("message")
        events += self._close(status)
        tools = {tool.offered_name: tool for tool in response.request.offered} if calls else {}
        for call in calls:
            events += self._call(call, tools)
        response.usage, response.summary = turn.usage, turn.summary
        return [*events, *self._ended(status)]

    def fail(self, fault: Fault) -> list[Event]:
        """Write the end of a response that failed."""
        self.response.error = {"code": fault.code, "message": fault.message, **fault.more}
        self._told(fault.actions)
        return [*self._close("incomplete"), *self._ended("failed")]

    def cancel(self, actions: Iterable[Action] | None) -> list[Event]:
        """Write the end of a response that was cancelled; the API has no event with this name."""
        self._told(actions)
        return [*self._close("incomplete"), *self._ended("cancelled")]

    def error(self, fault: Fault) -> Event:
        """Return the event for an error of the stream itself."""
        return error_event(fault, self._number)

    @property
    def has_text(self) -> bool:
        """Whether the text of the answer has begun."""
        return self._open == "message" or any(item["type"] == "message" for item in self.response.output)

    def _told(self, actions: Iterable[Action] | None) -> None:
        if actions:
            told = {"run_id": self.response.run_id, "actions": actions_form(actions)}
            self.response.summary = told

    def _ended(self, status: Status) -> list[Event]:
        self.response.status = status
        self.response.completed = int(self._clock()) if status == "completed" else None
        return [self._state("response.incomplete" if status == "cancelled" else f"response.{status}")]

    def _turn_to(self, kind: str) -> list[Event]:
        """Close the open item and open one of another type, unless it is open already."""
        if self._open == kind:
            return []
        return [*self._close("completed"), *self._begin(kind)]

    def _begin(self, kind: str) -> list[Event]:
        self._open, self._texts = kind, []
        added = self._event("response.output_item.added", item=self._item(kind, "in_progress", None))
        if kind == "reasoning":
            part = self._event("response.reasoning_summary_part.added", **self._place(), part=_summary(""))
        else:
            part = self._event("response.content_part.added", **self._place(), part=_text_part(""))
        return [added, part]

    def _delta(self, text: str) -> Event:
        self._texts.append(text)
        if self._open == "reasoning":
            return self._event("response.reasoning_summary_text.delta", **self._place(), delta=text)
        return self._event("response.output_text.delta", **self._place(), delta=text, logprobs=[])

    def _close(self, status: Status) -> list[Event]:
        """Close the open item, and write the progress that was reported after a message began."""
        if self._open is None:
            return []
        kind, text, place = self._open, "".join(self._texts), self._place()
        if kind == "reasoning":
            events = [
                self._event("response.reasoning_summary_text.done", **place, text=text),
                self._event("response.reasoning_summary_part.done", **place, part=_summary(text)),
            ]
        else:
            events = [
                self._event("response.output_text.done", **place, text=text, logprobs=[]),
                self._event("response.content_part.done", **place, part=_text_part(text)),
            ]
        events.append(self._done(self._item(kind, status, text)))
        self._open = None
        if kind == "message" and self._late:
            late, self._late = "".join(self._late), []
            events += [*self._begin("reasoning"), self._delta(late), *self._close("completed")]
        return events

    def _call(self, call: Part, tools: Mapping[str, OfferedTool]) -> list[Event]:
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        tool = tools.get(name)
        is_custom = tool is not None and tool.type == "custom"
        kind, field = ("custom_tool_call", "input") if is_custom else ("function_call", "arguments")
        text = custom_input(arguments) if is_custom else arguments
        item = {"type": kind, "id": self._item_id(kind), "call_id": call["id"], "name": name}
        if tool is not None:
            item |= tool.item(call)
        place = {"item_id": item["id"], "output_index": self._index}
        of_done = {} if is_custom else {"name": item["name"]}
        event = "response.custom_tool_call_input" if is_custom else "response.function_call_arguments"
        return [
            self._event("response.output_item.added", item={**item, field: "", "status": "in_progress"}),
            self._event(f"{event}.delta", **place, delta=text),
            self._event(f"{event}.done", **place, **of_done, **{field: text}),
            self._done({**item, field: text, "status": "completed"}),
        ]

    def _done(self, item: Mapping[str, Any]) -> Event:
        event = self._event("response.output_item.done", item=item)
        self.response.output.append(item)
        return event

    def _item(self, kind: str, status: Status, text: str | None) -> dict[str, Any]:
        """Return the open item; without its text at its beginning."""
        item: dict[str, Any] = {"type": kind, "id": self._item_id(kind)}
        if kind == "reasoning":
            return {**item, "summary": [] if text is None else [_summary(text)]}
        content: Sequence[object] = [] if text is None else [_text_part(text)]
        return {**item, "status": status, "role": "assistant", "content": content}

    @property
    def _index(self) -> int:
        return len(self.response.output)

    def _item_id(self, kind: str) -> str:
        prefix = {"reasoning": "rs", "message": "msg", "custom_tool_call": "ctc"}.get(kind, "fc")
        number = sum(item["type"] == kind for item in self.response.output)
        return f"{prefix}_{self.response.run_id}_{number}"

    def _place(self) -> dict[str, Any]:
        """Return the place of the only part of the open item."""
        part = "summary_index" if self._open == "reasoning" else "content_index"
        return {"item_id": self._item_id(self._open or ""), "output_index": self._index, part: 0}

    def _state(self, kind: str) -> Event:
        return self._event(kind, response=self.response.to_json())

    def _event(self, kind: str, **facts: Any) -> Event:
        if "item" in facts:
            facts["output_index"] = self._index
        event = {"type": kind, "sequence_number": self._number, **facts}
        self._number += 1
        return event


def error_event(fault: Fault, number: int) -> Event:
    """Return the event for an error of a stream."""
    error = {"code": fault.code, "message": fault.message, "param": fault.param}
    return {"type": "error", "sequence_number": number, **error}


def _summary(text: str) -> dict[str, Any]:
    return {"type": "summary_text", "text": text}


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
