"""Builds requests to OpenAI's Responses API, and reads its responses."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from podium.errors import AnswerRefused, WorkerBroken, WorkerRefused
from podium.types.messages import (
    Completion,
    Constraint,
    FinishReason,
    Message,
    Part,
    Sampling,
    Tools,
    storable,
    usage_or_estimate,
)
from podium.types.outcome import Problem, inner_problem
from podium.workers.openai.chat_response import read_usage, told_acts

ANY_OBJECT = {"type": "object"}
"""The JSON schema of any object, for which APIs have a mode of their own."""


def is_strict(schema: object) -> bool:
    """Return whether OpenAI's strict mode accepts a schema: all objects are closed and whole."""
    if isinstance(schema, list):
        return all(map(is_strict, schema))
    if not isinstance(schema, dict):
        return True
    if isinstance(properties := schema.get("properties"), dict):
        required = schema.get("required")
        is_whole = isinstance(required, list) and set(map(str, required)) == set(properties)
        if schema.get("additionalProperties") is not False or not is_whole:
            return False
        return all(map(is_strict, properties.values())) and is_strict(schema.get("$defs", {}))
    return schema.get("type") != "object" and all(map(is_strict, schema.values()))


def responses_input(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return chat messages as input items."""
    items: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "tool":
            answered = message.tool_call_id or ""
            items.append({"type": "function_call_output", "call_id": answered, "output": message.text})
            continue
        if message.content:
            items.append({"role": message.role, "content": _content(message)})
        for call in message.tool_calls:
            function = call.get("function", {})
            items.append(
                {
                    "type": "function_call",
                    "call_id": call.get("id", ""),
                    "name": function.get("name", ""),
                    "arguments": function.get("arguments", ""),
                }
            )
    return items


def responses_body(
    model: str, messages: Sequence[Message], sampling: Sampling, *, stream: bool, tools: Tools | None = None
) -> dict[str, Any]:
    """Return the body of a request.

    Raises:
        WorkerRefused: the API does not support a field of `sampling`.
    """
    for name in ("stop", "seed"):
        if getattr(sampling, name):
            raise WorkerRefused(
                f"the API `responses` does not support {name}: leave it out, or set api to `chat`"
            )
    body: dict[str, Any] = {"model": model, "input": responses_input(messages), "stream": stream}
    plain = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_output_tokens": sampling.max_tokens,
    }
    body.update({name: value for name, value in plain.items() if value is not None})
    if sampling.effort is not None:
        body["reasoning"] = {"effort": sampling.effort}
    if sampling.constraint is not None:
        body["text"] = {"format": _format(sampling.constraint)}
    if tools is not None:
        body["tools"] = [_flat(tool) for tool in tools.offered]
        if tools.choice is not None:
            body["tool_choice"] = tools.choice if isinstance(tools.choice, str) else _flat(tools.choice)
    return body


def _flat(tool: Part) -> Part:
    """Return a tool or a tool choice in the form of the API: with the function's fields at the top level."""
    return {"type": "function", **tool["function"]} if "function" in tool else tool


def _format(constraint: Constraint) -> Part:
    if constraint.kind != "json":
        raise WorkerRefused(
            "the API `responses` does not support a grammar: leave it out, or set api to `chat`"
        )
    if constraint.value == ANY_OBJECT:
        return {"type": "json_object"}
    strict = is_strict(constraint.value)
    return {"type": "json_schema", "name": "answer", "schema": constraint.value, "strict": strict}


class ResponsesReader:
    """Joins the events of a streamed response, or reads a whole response.

    Args:
        quote: shortens a server's text and removes secrets from it.
    """

    def __init__(self, quote: Callable[[str], str]) -> None:
        self._quote = quote
        self.finish: str | None = None
        """The response's status from the server; `None` before its end."""
        self.problem: Problem | None = None
        """Why the answer of another Podium is incomplete; `None` for a complete answer, or another server."""
        self.acts: bool | None = None
        """See `AnswerReader.acts`."""
        self._pieces: list[str] = []
        self._refusal = ""
        self._whole: Mapping[str, Any] | None = None

    def feed(self, event: Mapping[str, Any]) -> str:
        """Process an event, and return the text that it adds to the answer.

        Raises:
            WorkerBroken: the event reports a failure.
        """
        kind = event.get("type")
        if kind in ("response.output_text.delta", "response.refusal.delta"):
            if not isinstance(delta := event.get("delta"), str):
                raise WorkerBroken(f"an event {kind} has no text", maybe_paid=True)
            if kind == "response.refusal.delta":
                self._refusal += delta
                return ""
            self._pieces.append(storable(delta))
            return self._pieces[-1]
        if kind in ("error", "response.failed"):
            failed = event.get("response", event)
            reason = (failed.get("error") or failed).get("message", "no reason given")
            told = f"the server says that its answer failed: {self._quote(str(reason))}"
            raise WorkerBroken(told, maybe_paid=True)
        if kind in ("response.completed", "response.incomplete"):
            self._end(event.get("response") or {})
        elif kind is None and "output" in event:
            self._end(event)
        return ""

    def _end(self, whole: Mapping[str, Any]) -> None:
        self._whole = whole
        self.acts = told_acts(whole)
        self.finish = str(whole.get("status"))
        self.problem = inner_problem(whole.get("podium"))

    def completion(self, messages: Sequence[Message]) -> Completion:
        """Return the whole answer.

        Args:
            messages: the messages of the request, to estimate the usage if the server reported none.

        Raises:
            AnswerRefused: the model or a content filter refused to answer.
            WorkerBroken: the answer is incomplete or empty.
        """
        whole = self._whole
        if whole is None:
            raise WorkerBroken("the stream ended before the response was completed", maybe_paid=True)
        used = read_usage(whole.get("usage"))
        broken = partial(WorkerBroken, maybe_paid=True, usage=used)
        reason = (whole.get("incomplete_details") or {}).get("reason")
        items = _items(whole.get("output"))
        read = _Parts()
        if items is None or not all(read.add(item) for item in items):
            raise broken("the output of the response has an item or a part that cannot be read")
        refusal = "".join(read.refusals) or self._refusal
        if reason == "content_filter" or refusal:
            told = "the model or its content filter refused to answer"
            told += f": {self._quote(refusal)!r}" if refusal else ""
            raise AnswerRefused(told, maybe_paid=True, usage=used)
        if failed := whole.get("error"):
            raise broken(f"the response has an error: {self._quote(str(failed))}")
        if whole.get("status") not in ("completed", "incomplete"):
            raise broken(f"the response ended {whole.get('status')!r}")
        text, streamed = "".join(read.texts), "".join(self._pieces)
        if text and streamed and text.split() != streamed.split():
            raise broken("the pieces of the stream differ from the text of the response")
        text = text or streamed
        calls = tuple(read.calls)
        if not text.strip() and not calls:
            raise broken("the answer is empty, perhaps because max_tokens is very small")
        finish: FinishReason = "tool_calls" if calls else "stop"
        if read.is_cut or whole.get("status") == "incomplete":
            finish = "length"
        usage = usage_or_estimate(used, messages, text, calls)
        model = whole.get("model")
        missing = f"the answer has parts that are not text: {', '.join(read.other)}" if read.other else None
        model = model if isinstance(model, str) else None
        if self.problem is not None and (finish, self.problem.code) != ("length", "cut"):
            missing = self.problem.message
        return Completion(text, finish, usage, model, calls, missing=missing)


@dataclass(slots=True)
class _Parts:
    """The output of a response."""

    texts: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)
    """The types of other parts."""
    calls: list[Part] = field(default_factory=list)
    is_cut: bool = False
    """Whether a message is incomplete."""

    def add(self, item: Mapping[str, Any]) -> bool:
        """Add a message or a call; return whether it is valid. Items of other types are left out."""
        if item.get("type") == "function_call":
            self.calls.append(_call(item))
            return bool(item.get("name"))
        if item.get("type") != "message":
            return True
        content = item.get("content")
        if item.get("role", "assistant") != "assistant" or not isinstance(content, list):
            return False
        self.is_cut = self.is_cut or item.get("status") == "incomplete"
        return all(map(self._add_part, content))

    def _add_part(self, part: object) -> bool:
        match part:
            case {"type": "output_text" | "text", "text": str(text)}:
                self.texts.append(storable(text))
            case {"type": "refusal", "refusal": str(text)}:
                self.refusals.append(storable(text))
            case {"type": str(kind)} if kind not in ("output_text", "text", "refusal"):
                self.other.append(storable(kind)[:80])
            case _:
                return False
        return True


def _items(output: object) -> list[Mapping[str, Any]] | None:
    """Return the items of an output; `None` if it is not a list of items."""
    items = output or []
    return items if isinstance(items, list) and all(isinstance(item, dict) for item in items) else None


def _content(message: Message) -> str | list[Part]:
    if isinstance(message.content, str):
        return message.content
    return [_part(part, message.role) for part in message.content]


def _part(part: Part, role: str) -> Part:
    if part.get("type") == "text":
        return {"type": "output_text" if role == "assistant" else "input_text", "text": part["text"]}
    if part.get("type") == "image_url":
        image = part["image_url"]
        return {"type": "input_image", "image_url": image["url"] if isinstance(image, Mapping) else image}
    return part


def _call(item: Mapping[str, Any]) -> Part:
    function = {"name": item.get("name", ""), "arguments": item.get("arguments", "")}
    return {"id": item.get("call_id", ""), "type": "function", "function": function}
