"""The input of a response: its items get ids and become messages of a conversation."""

from collections.abc import Mapping, Sequence
from typing import Any

from podium.types import Message
from podium_server.api.responses.tools import custom_arguments, offered_name
from podium_server.http import BadRequest

Item = Mapping[str, Any]
"""An item of the input or of the output, as clients send and read it."""

_PREFIXES: Mapping[str, str] = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "reasoning": "rs",
    "item_reference": "ref",
}


def read_items(given: str | Sequence[Item] | None, run_id: str) -> list[Item]:
    """Return the items of an input, each with a type and an id.

    Args:
        given: text, or items; a message may have no type, and items may have no id.
        run_id: part of the new ids.

    Raises:
        BadRequest: an item has an unknown type.
    """
    items: Sequence[Item] = [{"role": "user", "content": given}] if isinstance(given, str) else given or []
    return [_item(item, at, run_id) for at, item in enumerate(items)]


def _item(item: Item, at: int, run_id: str) -> Item:
    kind = item.get("type") or ("message" if "role" in item else None)
    if not isinstance(kind, str) or kind not in _PREFIXES:
        known = ", ".join(_PREFIXES)
        raise _invalid(at, f"has the type {kind!r:.80}: this server supports {known}", "type")
    name = item.get("id")
    if kind == "message" and isinstance(item.get("content"), str):
        text = "output_text" if item.get("role") == "assistant" else "input_text"
        item = {**item, "content": [{"type": text, "text": item["content"]}]}
    return {
        **item,
        "type": kind,
        "id": name if isinstance(name, str) else f"{_PREFIXES[kind]}_{run_id}_in{at}",
    }


def messages_of(instructions: str | None, items: Sequence[Item]) -> list[Message]:
    """Return a conversation as messages. Items of reasoning describe earlier runs, and are left out.

    Raises:
        BadRequest: an item is invalid.
        QueryError: a message has an invalid role or content.
    """
    wires: list[dict[str, Any]] = (
        [] if instructions is None else [{"role": "system", "content": instructions}]
    )
    for at, item in enumerate(items):
        match item["type"]:
            case "message":
                wires.append({"role": item.get("role"), "content": _content(item.get("content"), at)})
            case "function_call":
                _add_call(wires, _call(item, _text(item, "arguments", at), at))
            case "custom_tool_call":
                _add_call(wires, _call(item, custom_arguments(_text(item, "input", at)), at))
            case "function_call_output" | "custom_tool_call_output":
                call_id = _text(item, "call_id", at)
                wires.append(
                    {"role": "tool", "tool_call_id": call_id, "content": _content(item.get("output"), at)}
                )
    return [Message.from_wire(wire) for wire in wires]


def _add_call(wires: list[dict[str, Any]], call: Mapping[str, Any]) -> None:
    """Add a tool call to the message of the assistant that comes before it, or else in a new message."""
    if not wires or wires[-1]["role"] != "assistant":
        wires.append({"role": "assistant", "content": ""})
    wires[-1].setdefault("tool_calls", []).append(call)


def _call(item: Item, arguments: str, at: int) -> dict[str, Any]:
    name = offered_name(item.get("namespace"), _text(item, "name", at))
    function = {"name": name, "arguments": arguments}
    return {"id": _text(item, "call_id", at), "type": "function", "function": function}


def _text(item: Item, name: str, at: int) -> str:
    if not isinstance(item.get(name), str):
        raise _invalid(at, f"has no {name}", name)
    return str(item[name])


def _content(content: object, at: int) -> str | list[dict[str, Any]]:
    """Return the content of a message: text, or parts in the form of chat completions."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not all(isinstance(part, Mapping) for part in content):
        raise _invalid(at, "has a content that is neither text nor a list of parts", "content")
    parts = [_part(part, at) for part in content]
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def _part(part: Mapping[str, Any], at: int) -> dict[str, Any]:
    match part:
        case {"type": "input_text" | "output_text" | "text" | "summary_text", "text": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "refusal", "refusal": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "input_image", "image_url": str(url)}:
            image = {"url": url} | ({"detail": part["detail"]} if isinstance(part.get("detail"), str) else {})
            return {"type": "image_url", "image_url": image}
        case {"type": "input_file", "file_data": str(data)}:
            name = part.get("filename")
            return {
                "type": "file",
                "file": {"filename": name, "file_data": data} if name else {"file_data": data},
            }
    told = "this server supports input_text, output_text, refusal, input_image with image_url, and input_file"
    raise _invalid(at, f"has a part {dict(part)!r:.80}: {told} with file_data", "content")


def _invalid(at: int, told: str, field: str) -> BadRequest:
    return BadRequest(f"input[{at}] {told}", param=f"input[{at}].{field}")
