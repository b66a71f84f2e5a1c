"""OpenAI's chat completions: the body of a request, and the body or the chunks of its response."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import time
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import ErrorDetails, PydanticCustomError
from pydantic_core.core_schema import ValidationInfo

from podium.errors import ConfigError
from podium.hosts.chat import read_sampling, read_tools
from podium.types import Message, Part, Sampling, Tools
from podium.usage import Usage

_KINDS: Mapping[str, str] = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}
"""What a value must be, for the errors about its type."""
_RULES: Mapping[str, str] = {
    "missing": "is missing",
    "extra_forbidden": "is not a known parameter",
    "literal_error": "must be {expected}",
    "union_tag_invalid": "has the type {tag!r:.80}: it must be one of {expected_tags}",
    "union_tag_not_found": "has no type",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "too_short": "must not be empty",
    "too_long": "must have at most {max_length} entries",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
}
"""What is wrong with a value of the right type, with the facts of the error."""
_BRANCH = re.compile(r"(str|int|float|bool|(list|dict|literal|constrained|function)\W.*)", re.IGNORECASE)
"""The names of alternative types, which are in the places of errors beside the names of fields."""
_PLACE = re.compile(r"at line (\d+) column (\d+)")


@dataclass(frozen=True, slots=True)
class Complaint:
    """Why a parameter is invalid."""

    param: str
    """The place in the body, such as `messages[0].role`; empty for the whole body."""
    message: str
    """A sentence that names the parameter."""


def complaints_of(found: Sequence[ErrorDetails]) -> list[Complaint]:
    """Return the complaints about a body, one for each invalid parameter."""
    by_place: dict[str, list[ErrorDetails]] = {}
    for details in found:
        by_place.setdefault(_path(details["loc"]), []).append(details)
    places = [place for place in by_place if not _is_explained(place, by_place)]
    return [Complaint(place, _told(place, by_place[place])) for place in places]


def _is_explained(place: str, by_place: Mapping[str, Sequence[ErrorDetails]]) -> bool:
    """Return whether only the type is wrong, as one of several types, and an error within says more."""
    within = any(other != place and other.startswith((f"{place}[", f"{place}.")) for other in by_place)
    return within and all(details["type"] in _KINDS for details in by_place[place])


def _told(place: str, found: Sequence[ErrorDetails]) -> str:
    kinds = [_KINDS[details["type"]] for details in found if details["type"] in _KINDS]
    others = [details for details in found if details["type"] not in _KINDS]
    if others:
        return _of_value(place, others[0])
    if not place:
        return "the body is not a JSON object"
    if "a number" in kinds:
        kinds = [kind for kind in kinds if kind != "a whole number"]
    return f"{place} must be {' or '.join(dict.fromkeys(kinds))}"


def _of_value(place: str, details: ErrorDetails) -> str:
    kind = details["type"]
    if kind == "json_invalid":
        return _not_json(details)
    if kind == "refused":  # our own check
        return f"{place}: {details['msg']}" if place else str(details["msg"])
    known = {name: _shown(value) for name, value in details.get("ctx", {}).items()}
    if known.get("max_length") == "0":
        return f"{place} must be empty"
    return f"{place} {_RULES.get(kind, 'is invalid').format(**known)}"


def _shown(value: object) -> str:
    """Return a bound as JSON has it."""
    if isinstance(value, float):
        return f"{value:g}"
    return str(value).replace("True", "true").replace("False", "false")


def _not_json(details: ErrorDetails) -> str:
    if not details["input"]:
        return "the body is empty: send a JSON object"
    place = _PLACE.search(details["msg"])
    where = "" if place is None else f": the error is at line {place[1]}, column {place[2]}"
    return f"the body is not JSON{where}"


def _path(location: Sequence[str | int]) -> str:
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif not _BRANCH.fullmatch(part):
            path += f".{part}" if path else part
    return path


_MOST_MESSAGES = 10_000
_MOST_TOOLS = 1_000
_MOST_STOPS = 16
_FORMS = '{"type": "text"}, {"type": "json_object"} or {"type": "json_schema", "json_schema": …}'
_ANY_OBJECT = {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}}


class Body(BaseModel):
    """The body of a request. Types are not converted, and unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class StreamOptions(Body):
    """Options of a stream."""

    include_usage: bool = False
    """Whether the last chunk has the usage."""
    include_obfuscation: bool | None = None
    """Ignored: no random text is added."""


def _function(tool: dict[str, Any]) -> dict[str, Any]:
    function = tool.get("function")
    if tool.get("type") != "function" or not isinstance(function, Mapping):
        raise _refused('it must be a function: write {"type": "function", "function": …}')
    if not isinstance(function.get("name"), str) or not function["name"]:
        raise _refused("its function has no name")
    return tool


def _refused(text: str) -> PydanticCustomError:
    # without a dict of facts, pydantic would read the braces of the text as the names of facts
    return PydanticCustomError("refused", "{told}", {"told": text})


class ChatRequest(Body):
    """The body of a request of chat completions."""

    model: Annotated[str, Field(min_length=1, max_length=200)]
    messages: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=_MOST_MESSAGES)]
    tools: (
        Annotated[list[Annotated[dict[str, Any], AfterValidator(_function)]], Field(max_length=_MOST_TOOLS)]
        | None
    ) = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    response_format: dict[str, Any] | None = None
    stop: str | Annotated[list[str], Field(max_length=_MOST_STOPS)] | None = None
    max_tokens: Annotated[int, Field(gt=0, lt=2**31)] | None = None
    max_completion_tokens: Annotated[int, Field(gt=0, lt=2**31)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    reasoning_effort: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    # Values that change nothing are accepted, because clients send them as defaults.
    n: Literal[1] | None = None
    frequency_penalty: Annotated[float, Field(ge=0, le=0)] | None = None
    presence_penalty: Annotated[float, Field(ge=0, le=0)] | None = None
    logprobs: Literal[False] | None = None
    top_logprobs: Literal[0] | None = None
    modalities: list[Literal["text"]] | None = None
    logit_bias: Annotated[dict[str, Any], Field(max_length=0)] | None = None

    # Ignored: they do not change the answer.
    user: str | None = None
    metadata: dict[str, Any] | None = None
    store: bool | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None

    @field_validator("tool_choice")
    @classmethod
    def _has_tools(cls, choice: Any, info: ValidationInfo) -> Any:
        if not info.data.get("tools", True) and choice not in (None, "none", "auto"):
            raise _refused("it needs tools")
        return choice

    @field_validator("response_format")
    @classmethod
    def _is_known(cls, form: Any) -> Any:
        match form:
            case None | {"type": "text" | "json_object"}:
                return form
            case {"type": "json_schema", "json_schema": {"schema": dict()}}:
                return form
        raise _refused(f"it must be {_FORMS}")

    @field_validator("stream_options")
    @classmethod
    def _has_stream(cls, options: Any, info: ValidationInfo) -> Any:
        if options is not None and not info.data.get("stream", True):
            raise _refused("it needs stream")
        return options

    @property
    def includes_usage(self) -> bool:
        """Whether the last chunk of a stream has the usage."""
        return self.stream_options is not None and self.stream_options.include_usage

    def read_messages(self) -> list[Message]:
        """Return the conversation; raises `QueryError` for an invalid message."""
        return [Message.from_wire(wire) for wire in self.messages]

    def read_tools(self) -> Tools:
        """Return the tools; raises `ConfigError` if the choice is not one of them."""
        match self.tool_choice:
            case {"type": "allowed_tools", "allowed_tools": {"tools": list(allowed), "mode": str(mode)}}:
                offered = {tool["function"]["name"]: tool for tool in self.tools or ()}
                chosen = [read_tools(self.tools, tool).choice for tool in allowed]
                names = [tool["function"]["name"] for tool in chosen if isinstance(tool, dict)]
                return read_tools([offered[name] for name in names], mode)
        return read_tools(self.tools, self.tool_choice)

    def read_sampling(self) -> Sampling:
        """Return the sampling of the worker that writes the answer, with the effort as it was given."""
        names = ("temperature", "top_p", "seed", "stop", "reasoning_effort")
        said = {name: getattr(self, name) for name in names}
        said["max_tokens"] = self.max_completion_tokens or self.max_tokens
        form = self.response_format
        if form is not None and form["type"] != "text":
            said["response_format"] = _ANY_OBJECT if form["type"] == "json_object" else form
        return read_sampling(said, of="this model")


def read_chat(raw: bytes) -> ChatRequest:
    """Return the body of a request.

    Raises:
        ConfigError: it is not a JSON object of this form; the message names the fields.
    """
    try:
        return ChatRequest.model_validate_json(raw)
    except ValidationError as error:
        complaints = complaints_of(error.errors(include_url=False))
        raise ConfigError("; ".join(complaint.message for complaint in complaints)) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatEnd:
    """What a response tells after the text of its answer."""

    tool_calls: Sequence[Part]
    finish_reason: Literal["stop", "length", "tool_calls"]
    usage: Usage
    podium: Mapping[str, Any]
    """The run, as plain JSON."""
    logprobs: Mapping[str, Any] | None = None
    """The log probabilities of the answer; `None` for none."""
    choices: Sequence[Mapping[str, Any]] = ()
    """Further answers of the model, in the form of chat completions."""


@dataclass(slots=True, kw_only=True)
class ChatWriter:
    """Writes a response: `whole` its body, or the other methods the chunks of its stream."""

    run_id: str
    model: str
    """The model's name in the response."""
    created: int = field(default_factory=lambda: int(time()))
    """When the request was made, in seconds of Unix time."""
    includes_usage: bool = False
    """Whether the last chunk has the usage."""
    _is_begun: bool = False

    def whole(self, text: str, end: ChatEnd, progress: str = "") -> dict[str, Any]:
        """Return the body of a response.

        Args:
            text: the text of the answer.
            end: what follows it.
            progress: the text about the progress of the run; empty for none.
        """
        calls = [dict(call) for call in end.tool_calls]
        message: dict[str, Any] = {
            "role": "assistant",
            "content": text or (None if calls else ""),
            "refusal": None,
            "annotations": [],
        }
        if progress:
            message["reasoning_content"] = progress
        if calls:
            message["tool_calls"] = calls
        choice = {
            "index": 0,
            "message": message,
            "logprobs": end.logprobs,
            "finish_reason": end.finish_reason,
        }
        choices = [choice, *({"logprobs": None, **other} for other in end.choices)]
        body = {**self._head("chat.completion"), "choices": choices, "usage": usage_form(end.usage)}
        return {**body, "podium": end.podium}

    def begin(self) -> bytes:
        """Return the first chunk, with the role; nothing if it was written."""
        if self._is_begun:
            return b""
        self._is_begun = True
        return self._chunk({"role": "assistant", "content": ""})

    def text(self, text: str) -> bytes:
        """Return the chunks for a piece of the answer."""
        return self.begin() + self._chunk({"content": text})

    def progress(self, text: str) -> bytes:
        """Return the chunks for a piece of text about the progress."""
        return self.begin() + self._chunk({"reasoning_content": text})

    def end(self, end: ChatEnd) -> bytes:
        """Return the chunks after the text: tool calls, further answers, the finish reason, and the usage."""
        chunks = [self.begin()]
        for other in end.choices:
            delta = dict(other["message"])
            if calls := delta.get("tool_calls"):
                delta["tool_calls"] = [{"index": index, **call} for index, call in enumerate(calls)]
            facts = {name: each for name, each in other.items() if name != "message"}
            chunks.append(self._chunk(delta, facts))
        for index, call in enumerate(end.tool_calls):
            chunks.append(self._chunk({"tool_calls": [{"index": index, **call}]}))
        facts = {"finish_reason": end.finish_reason, "logprobs": end.logprobs}
        chunks.append(self._chunk({}, facts, podium=end.podium))
        if self.includes_usage:
            head = self._head("chat.completion.chunk")
            chunks.append(sse({**head, "choices": [], "usage": usage_form(end.usage)}))
        return b"".join(chunks) + b"data: [DONE]\n\n"

    def _chunk(self, delta: dict[str, Any], facts: Mapping[str, Any] = {}, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None, **facts}
        usage = {"usage": None} if self.includes_usage else {}
        return sse({**self._head("chat.completion.chunk"), "choices": [choice], **usage, **more})

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{self.run_id}",
            "object": kind,
            "created": self.created,
            "model": self.model,
        }


def usage_form(usage: Usage) -> dict[str, Any]:
    """Return a usage as chat completions have it; `total_tokens` includes the orchestration."""
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "estimated": usage.estimated,
        "prompt_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "orchestration_input_tokens": usage.orchestration_input_tokens,
            "orchestration_input_cached_tokens": usage.orchestration_cached_tokens,
        },
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning_tokens,
            "orchestration_output_tokens": usage.orchestration_output_tokens,
        },
    }


def sse(data: object, *, event: str | None = None, number: int | None = None) -> bytes:
    """Return a server-sent event.

    Args:
        data: JSON data.
        event: its name; `None` for no name.
        number: its id; `None` for no id.
    """
    lines = [] if event is None else [f"event: {event}"]
    lines += [] if number is None else [f"id: {number}"]
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return "\n".join([*lines, f"data: {text}\n\n"]).encode("utf-8", "replace")
