"""The body of a request for a response: its items become messages, and its tools functions.

All tools are offered to workers as functions. A custom tool takes text, and is offered as a function with the
argument `input`. A tool of a namespace is offered under the name of its namespace and its own. Calls become
items of the type of the client's tool.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any, Literal

from pydantic import Field

from podium.hosts import read_sampling, read_tools
from podium.hosts.completions import Body
from podium.types import Message, Part, Sampling, Tools
from podium_server.http import BadRequest
from podium_server.settings import Effort
from podium_server.turn import Asked

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


def offered_tools(tools: Sequence[Mapping[str, Any]]) -> list[OfferedTool]:
    """Return the tools of a request that this server can offer."""
    offered: dict[str, OfferedTool] = {}
    for at, tool in enumerate(tools):
        for each in _tools(tool, f"tools[{at}]"):
            if each.offered_name in offered:
                raise BadRequest(f"tools[{at}]: another tool has the name {each.name!r:.80}", param="tools")
            offered[each.offered_name] = each
    return list(offered.values())


def offered_name(namespace: object, name: str) -> str:
    """Return the name under which a tool is offered."""
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
    """Return the items of an input, each with a type and an id."""
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
    """Return a conversation as messages. Items of reasoning describe earlier runs, and are left out."""
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


_MOST_ITEMS = 10_000
_MOST_TOOLS = 1_000


class Reasoning(Body):
    """How much the model reasons, and what the client sees of it."""

    effort: Effort | None = None
    summary: Literal["auto", "concise", "detailed", "none"] | None = None
    """Ignored: `show` of the model decides what the client sees."""
    generate_summary: Literal["auto", "concise", "detailed"] | None = None
    """Ignored, as `summary`."""
    context: str | None = None
    """Ignored: the reasoning of earlier responses is not sent to models."""


class Text(Body):
    """The form of the text."""

    format: dict[str, Any] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None
    """Ignored: workers have no such setting."""


class StreamOptions(Body):
    """Options of a stream."""

    include_obfuscation: bool | None = None
    """Ignored: this server adds no random text."""


class ResponseRequest(Body):
    """The body of `POST /v1/responses`."""

    model: Annotated[str, Field(min_length=1, max_length=200)]
    input: str | Annotated[list[dict[str, Any]], Field(max_length=_MOST_ITEMS)] | None = None
    instructions: str | None = None
    previous_response_id: Annotated[str, Field(max_length=200)] | None = None
    tools: Annotated[list[dict[str, Any]], Field(max_length=_MOST_TOOLS)] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    text: Text | None = None
    max_output_tokens: Annotated[int, Field(gt=0, lt=2**31)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    reasoning: Reasoning | None = None
    metadata: Annotated[dict[str, str], Field(max_length=16)] | None = None
    store: bool | None = None
    background: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    truncation: Literal["auto", "disabled"] | None = None
    """Ignored: a conversation is never cut, and one that does not fit is an error."""

    # Values that change nothing are accepted, because clients send them as defaults.
    include: (
        list[
            Literal[
                "reasoning.encrypted_content",
                "web_search_call.action.sources",
                "web_search_call.results",
                "file_search_call.results",
                "code_interpreter_call.outputs",
                "computer_call_output.output.image_url",
                "message.input_image.image_url",
            ]
        ]
        | None
    ) = None
    top_logprobs: Literal[0] | None = None
    frequency_penalty: Annotated[float, Field(ge=0, le=0)] | None = None
    presence_penalty: Annotated[float, Field(ge=0, le=0)] | None = None

    # Ignored: they do not change the answer.
    user: str | None = None
    max_tool_calls: Annotated[int, Field(gt=0)] | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    client_metadata: dict[str, Any] | None = None

    @property
    def left_out(self) -> list[str]:
        """The types of the offered tools that this server cannot execute."""
        return [str(tool["type"]) for tool in self.tools or () if tool.get("type") in LEFT_OUT]

    @property
    def offered(self) -> list[OfferedTool]:
        """The tools that workers are offered."""
        return offered_tools(self.tools or ())

    def asked(
        self,
        messages: Sequence[Message],
        *,
        run_id: str | None,
        keeps: bool,
        idempotency_key: str | None = None,
        fingerprint: str = "",
        may_exist: bool = False,
    ) -> Asked:
        """Return the request in the words of Podium."""
        return Asked(
            model=self.model,
            messages=messages,
            tools=self._tools(),
            sampling=self._sampling(),
            effort=None if self.reasoning is None else self.reasoning.effort,
            stream=bool(self.stream) and not self.background,
            idempotency_key=idempotency_key,
            is_parallel=self.parallel_tool_calls is not False,
            fingerprint=fingerprint,
            run_id=run_id,
            is_recorded=keeps,
            user=self.safety_identifier or self.user or "",
            may_exist=may_exist,
        )

    def _tools(self) -> Tools:
        tools, choice = self.offered, self.tool_choice
        match choice:
            case {"type": "function" | "custom" as kind, "name": str(name), **rest}:
                chosen = {"type": kind, "name": name, **rest}
                choice = next((tool.offered_name for tool in tools if tool.is_named(chosen)), name)
            case {"type": "allowed_tools", "tools": list(allowed), "mode": str(mode)}:
                names = [each for each in allowed if isinstance(each, Mapping)]
                tools = [tool for tool in tools if any(tool.is_named(name) for name in names)]
                choice = mode
            case dict():
                raise BadRequest(f"tool_choice {choice!r:.80} is not supported", param="tool_choice")
        if not tools and choice not in (None, "none", "auto"):
            raise BadRequest("tool_choice needs a tool that this server supports", param="tool_choice")
        return read_tools([tool.function for tool in tools], choice)

    def _sampling(self) -> Sampling:
        said: dict[str, Any] = {"temperature": self.temperature, "top_p": self.top_p}
        said |= {"max_tokens": self.max_output_tokens, "response_format": self._format()}
        return read_sampling(said, of="this server")

    def _format(self) -> dict[str, Any] | None:
        match None if self.text is None else self.text.format:
            case None | {"type": "text"}:
                return None
            case {"type": "json_object"}:
                return {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}}
            case {"type": "json_schema", "schema": dict(schema)}:
                return {"type": "json_schema", "json_schema": {"schema": schema}}
        told = (
            'text.format must be {"type": "json_object"} or {"type": "json_schema", "name": …, "schema": …}'
        )
        raise BadRequest(told, param="text.format")
