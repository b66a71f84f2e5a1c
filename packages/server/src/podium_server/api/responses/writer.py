"""Writes a response: the pieces of a turn become output items, and numbered events of a stream."""

from collections.abc import Iterable, Mapping, Sequence
from time import time
from typing import Any, Self

from podium.types import Action, Part
from podium_server.api.errors import Fault
from podium_server.api.responses.form import Response, Status
from podium_server.api.responses.tools import OfferedTool, custom_input
from podium_server.turn import Piece, TextPiece, Turn, actions_form

Event = dict[str, Any]
"""A semantic event of a stream."""


class ResponseWriter:
    """Writes one response. Each method returns the new events, in order.

    Output items come one after another: the progress of the run as reasoning, the message, progress that was
    reported while the message was written, and the calls of functions.

    Args:
        response: the response; the writer changes it.
    """

    def __init__(self, response: Response) -> None:
        self.response = response
        self._number = 0
        self._texts: list[str] = []
        """The pieces of the open item."""
        self._open: str | None = None
        """The type of the open item; `None` if no item is open."""
        self._late: list[str] = []
        """Progress that was reported after the message began."""

    @classmethod
    def continued(cls, response: Response, events: Iterable[Event]) -> Self:
        """Return the writer of a response that another writer began.

        Args:
            response: the response at its beginning.
            events: the events that the other writer wrote.
        """
        writer = cls(response)
        for event in events:
            writer._number = event["sequence_number"] + 1
            kind = event["type"]
            if kind == "response.output_item.added":
                writer._open, writer._texts = event["item"]["type"], []
            elif kind == "response.output_item.done":
                response.output.append(event["item"])
                writer._open = None
            elif kind.endswith("text.delta"):
                writer._texts.append(event["delta"])
        return writer

    def begin(self, status: Status = "in_progress") -> list[Event]:
        """Begin the response.

        Args:
            status: `queued` for a response that is run later; then `proceed` begins its run.
        """
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

    def end(self, turn: Turn) -> list[Event]:
        """Write the end of a turn that has an answer."""
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
        """Write the end of a response that was cancelled; the API has no event with this name.

        Args:
            actions: the actions of its run; `None` if they are not known.
        """
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
        self.response.completed = int(time()) if status == "completed" else None
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
        return f"{prefix}_{self.response.run_id}_{self._index}"

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
