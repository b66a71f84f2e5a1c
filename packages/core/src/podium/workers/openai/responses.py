"""Builds requests to OpenAI's Responses API, and reads its responses."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from podium.errors import WorkerRefused
from podium.types.messages import Constraint, Message, Part, Sampling, Tools
from podium.workers.openai.chat_response import AnswerReader, broken

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
    """Return the body of a request."""
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


class ResponsesReader(AnswerReader):
    """Reads responses, whole or streamed, as chat completions."""

    def __init__(self, quote: Callable[[str], str]) -> None:
        super().__init__()
        self._quote = quote

    def feed(self, raw: Mapping[str, Any]) -> str:
        """Process a response or an event of a stream, and return the text that it adds to the answer."""
        match raw:
            case {"type": "response.output_text.delta", "delta": str(text)}:
                return super().feed(_piece({"content": text}))
            case {"type": "response.refusal.delta", "delta": str(text)}:
                return super().feed(_piece({"refusal": text}))
            case {"type": "response.output_text.delta" | "response.refusal.delta" as kind}:
                raise broken(f"an event {kind} has no text")
            case {"type": "error" | "response.failed"}:
                failed = raw.get("response", raw)
                reason = (failed.get("error") or failed).get("message", "no reason given")
                raise broken(f"the server says that its answer failed: {self._quote(str(reason))}")
            case {"type": "response.completed" | "response.incomplete"}:
                return super().feed(self._as_chat(raw.get("response") or {}))
            case {"output": _} if raw.get("type") is None:
                return super().feed(self._as_chat(raw))
        return ""

    def _as_chat(self, whole: Mapping[str, Any]) -> dict[str, Any]:
        """Return a whole response in the form of a chat completion, without text that was streamed."""
        if failed := whole.get("error"):
            raise broken(f"the response has an error: {self._quote(str(failed))}")
        if whole.get("status") not in ("completed", "incomplete"):
            raise broken(f"the response ended {whole.get('status')!r}")
        parts, calls, is_cut = list[Any](), list[Part](), whole["status"] == "incomplete"
        for item in whole.get("output") or ():
            match item:
                case {"type": "function_call"}:
                    calls.append(_call(item))
                case {"type": "message", "content": list(content)} if item.get("role") in _OWN_ROLES:
                    parts += content
                    is_cut = is_cut or item.get("status") == "incomplete"
                case dict() if item.get("type") != "message":
                    pass
                case _:
                    raise broken("the output of the response has an item that cannot be read")
        if not all(isinstance(part, dict) and isinstance(part.get("type"), str) for part in parts):
            raise broken("the output of the response has a part that cannot be read")
        texts = [part for part in parts if part["type"] in _TEXTS and isinstance(part.get("text"), str)]
        streamed = "".join(self._texts)
        if streamed and texts and "".join(part["text"] for part in texts).split() != streamed.split():
            raise broken("the pieces of the stream differ from the text of the response")
        read = [
            *(texts if streamed else ()),
            *(part for part in parts if self._refusal and "refusal" in part),
        ]
        finish = "length" if is_cut else "tool_calls" if calls else "stop"
        if (whole.get("incomplete_details") or {}).get("reason") == "content_filter":
            finish = "content_filter"
        rest = [part for part in parts if part not in read]
        facts = {name: whole[name] for name in ("usage", "model", "podium") if name in whole}
        return {**_piece({"content": rest, "tool_calls": calls}, finish_reason=finish), **facts}


_OWN_ROLES = ("assistant", None)
_TEXTS = ("output_text", "text")


def _piece(delta: Part, **more: str) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, **more}]}


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
