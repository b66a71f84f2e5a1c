"""The tools of a request: all of them are offered to workers as functions.

A custom tool takes text, and is offered as a function with the argument `input`. A tool of a namespace is
offered under the name of its namespace and its own. Calls become items of the type of the client's tool.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from podium.types import Part
from podium_server.http import BadRequest

LEFT_OUT = ("web_search", "web_search_preview", "image_generation", "tool_search")
"""Types of tools that clients offer by default, and that this server cannot execute."""
_MOST_CHARS = 64
"""Maximum length of the name of a function, for most providers."""
_TEXT: Mapping[str, Any] = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool that is offered to workers."""

    type: str
    """`function` or `custom`."""
    name: str
    namespace: str | None
    function: Part
    """The function, in the form of chat completions."""

    @property
    def offered_name(self) -> str:
        """The name of the function."""
        return offered_name(self.namespace, self.name)

    def is_named(self, named: Mapping[Any, Any]) -> bool:
        """Return whether a tool choice names this tool."""
        given = (named.get("type"), named.get("name"), named.get("namespace") or self.namespace)
        return given == (self.type, self.name, self.namespace)

    def item(self, call: Part) -> dict[str, Any]:
        """Return the item of a call, without its input."""
        namespace = {} if self.namespace is None else {"namespace": self.namespace}
        kind = "function_call" if self.type == "function" else "custom_tool_call"
        return {"type": kind, "call_id": call["id"], "name": self.name, **namespace}


def read_tools(tools: Sequence[Mapping[str, Any]]) -> list[OfferedTool]:
    """Return the tools of a request that this server can offer.

    Raises:
        BadRequest: a tool is invalid, or has an unknown type, or two tools have the same name.
    """
    offered: dict[str, OfferedTool] = {}
    for at, tool in enumerate(tools):
        for each in _tools(tool, f"tools[{at}]"):
            if each.offered_name in offered:
                raise BadRequest(f"tools[{at}]: another tool has the name {each.name!r:.80}", param="tools")
            offered[each.offered_name] = each
    return list(offered.values())


def offered_name(namespace: object, name: str) -> str:
    """Return the name under which a tool is offered.

    Args:
        namespace: its namespace; `None` if it has none.
        name: its name.
    """
    if not isinstance(namespace, str):
        return name
    joined = namespace + ("" if namespace.endswith("__") else "__") + name
    if len(joined) <= _MOST_CHARS:
        return joined
    return f"{joined[: _MOST_CHARS - 9]}_{sha256(joined.encode()).hexdigest()[:8]}"


def custom_arguments(text: str) -> str:
    """Return the arguments of the function for the input of a custom tool."""
    return json.dumps({"input": text}, ensure_ascii=False)


def custom_input(arguments: str) -> str:
    """Return the input of a custom tool; the whole arguments, if the worker wrote them in another form."""
    try:
        read = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    is_text = isinstance(read, dict) and isinstance(read.get("input"), str)
    return str(read["input"]) if is_text else arguments


def _tools(tool: Mapping[str, Any], place: str) -> Iterator[OfferedTool]:
    if tool.get("type") == "namespace":
        inner = tool.get("tools")
        if not isinstance(inner, list) or not all(isinstance(each, Mapping) for each in inner):
            raise BadRequest(f"{place} has no list of tools", param=f"{place}.tools")
        namespace = _name(tool, place)
        for at, each in enumerate(inner):
            yield _tool(each, f"{place}.tools[{at}]", namespace)
    elif tool.get("type") not in LEFT_OUT:
        yield _tool(tool, place, None)


def _tool(tool: Mapping[str, Any], place: str, namespace: str | None) -> OfferedTool:
    kind = tool.get("type")
    if kind not in ("function", "custom"):
        told = f"{place} has the type {kind!r:.80}: this server supports function, custom and namespace"
        raise BadRequest(told, param=f"{place}.type")
    name = _name(tool, place)
    given = tool if kind == "function" else {"description": _description(tool), "parameters": _TEXT}
    facts = {key: given[key] for key in ("description", "parameters", "strict") if given.get(key) is not None}
    function = {"name": offered_name(namespace, name), **facts}
    return OfferedTool(kind, name, namespace, {"type": "function", "function": function})


def _name(tool: Mapping[str, Any], place: str) -> str:
    if not isinstance(tool.get("name"), str) or not tool["name"]:
        raise BadRequest(f"{place} has no name", param=f"{place}.name")
    return str(tool["name"])


def _description(tool: Mapping[str, Any]) -> str:
    """Return the description of a custom tool, with the grammar of its input."""
    said = tool.get("description")
    description = said if isinstance(said, str) else ""
    match tool.get("format"):
        case {"type": "grammar", "syntax": str(syntax), "definition": str(definition)}:
            return f"{description}\n\nThe input must match this grammar ({syntax}):\n{definition}".strip()
    return description
