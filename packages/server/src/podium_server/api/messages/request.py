"""The body of a messages request, its messages as chat messages, and an estimate of its tokens."""

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from podium.hosts import read_sampling, read_tools, tool_call
from podium.hosts.completions import Body
from podium.types import Message, Part, Sampling, Tools
from podium.types.messages import estimate_usage
from podium.usage import estimate_tokens
from podium_server.http import BadRequest
from podium_server.settings import Effort
from podium_server.turn import Asked


class Block(BaseModel):
    """A content block, a part of one, or a tool. Types are not converted; unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, allow_inf_nan=False)


class TextBlock(Block):
    """Text."""

    type: Literal["text"]
    text: str

    def part(self) -> Part:
        """Return the content part."""
        return {"type": "text", "text": self.text}


class Base64Source(Block):
    """Data in base64."""

    type: Literal["base64"]
    media_type: str
    data: str

    @property
    def url(self) -> str:
        """The data as a URL."""
        return f"data:{self.media_type};base64,{self.data}"


class UrlSource(Block):
    """Data at a URL, which the worker's server fetches."""

    type: Literal["url"]
    url: str


class TextSource(Block):
    """The text of a document."""

    type: Literal["text"]
    data: str


class ImageBlock(Block):
    """An image."""

    type: Literal["image"]
    source: Annotated[Base64Source | UrlSource, Field(discriminator="type")]

    def part(self) -> Part:
        """Return the content part."""
        return {"type": "image_url", "image_url": {"url": self.source.url}}


class DocumentBlock(Block):
    """A document: text, or a file in base64."""

    type: Literal["document"]
    source: Annotated[Base64Source | TextSource, Field(discriminator="type")]
    title: str | None = None
    context: str | None = None

    def part(self) -> Part:
        """Return the content part."""
        if isinstance(self.source, TextSource):
            lines = [line for line in (self.title, self.context, self.source.data) if line]
            return {"type": "text", "text": "\n\n".join(lines)}
        file = {"filename": self.title or "document", "file_data": self.source.url}
        return {"type": "file", "file": file}


def as_blocks(content: object) -> object:
    """Return text as a list with a block."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


_Shown = Annotated[TextBlock | ImageBlock | DocumentBlock, Field(discriminator="type")]


class ToolResultBlock(Block):
    """The result of a tool call."""

    type: Literal["tool_result"]
    tool_use_id: str
    content: Annotated[list[_Shown], BeforeValidator(as_blocks)] = Field(default_factory=list)
    is_error: bool | None = None

    def parts(self) -> list[Part]:
        """Return the content parts; the first says so if the tool failed."""
        failed: list[Part] = [{"type": "text", "text": "The tool failed:"}] if self.is_error else []
        return failed + [block.part() for block in self.content]


class ToolUseBlock(Block):
    """A tool call of an assistant."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any]


class ThinkingBlock(Block):
    """Reasoning of an assistant. It is not sent to workers."""

    type: Literal["thinking", "redacted_thinking"]


AnyBlock = Annotated[
    TextBlock | ImageBlock | DocumentBlock | ToolResultBlock | ToolUseBlock | ThinkingBlock,
    Field(discriminator="type"),
]
Content = Annotated[list[AnyBlock], BeforeValidator(as_blocks)]
System = Annotated[list[TextBlock], BeforeValidator(as_blocks)]


def content_of(parts: Sequence[Part]) -> str | tuple[Part, ...]:
    """Return parts as the content of a message: as text, if all are text."""
    if all(part["type"] == "text" for part in parts):
        return "\n\n".join(part["text"] for part in parts)
    return tuple(parts)


class Turn(Block):
    """A message of the conversation."""

    role: Literal["user", "assistant", "system"]
    content: Content


def read_turns(system: System | None, turns: Sequence[Turn]) -> list[Message]:
    """Return the conversation as chat messages."""
    if turns[-1].role == "assistant":
        told = "the last message is of the assistant: this server cannot continue it; end with a user message"
        raise BadRequest(told, code="prefill_unsupported", param="messages")
    messages = []
    if system:
        messages.append(Message("system", content_of([block.part() for block in system])))
    for number, turn in enumerate(turns):
        if turn.role == "assistant":
            messages += _of_assistant(turn, number)
        else:
            messages += _of_user(turn, number)
    return messages


def _of_assistant(turn: Turn, number: int) -> list[Message]:
    parts: list[Part] = []
    calls: list[Part] = []
    for block in turn.content:
        match block:
            case ThinkingBlock():
                continue
            case ToolUseBlock():
                calls.append(tool_call(block.id, block.name, block.input))
            case ToolResultBlock():
                raise _misplaced(block.type, turn.role, number)
            case _:
                parts.append(block.part())
    return [Message("assistant", content_of(parts), tuple(calls))] if parts or calls else []


def _of_user(turn: Turn, number: int) -> list[Message]:
    """Return the messages of a user's or a system turn.

    Other blocks beside tool results, such as reminders of Claude Code, become part of the last result. As a
    message of the user they would be a new question, for which the planner would write a new plan.
    """
    results: list[tuple[str, list[Part]]] = []
    parts: list[Part] = []
    for block in turn.content:
        match block:
            case ThinkingBlock() | ToolUseBlock():
                raise _misplaced(block.type, turn.role, number)
            case ToolResultBlock():
                results.append((block.tool_use_id, block.parts()))
            case _:
                parts.append(block.part())
    if not results:
        return [Message("system" if turn.role == "system" else "user", content_of(parts))]
    results[-1][1].extend(parts)
    return [Message("tool", content_of(told), tool_call_id=call_id) for call_id, told in results]


def _misplaced(kind: str, role: str, number: int) -> BadRequest:
    told = f"messages[{number}]: a message of the {role} cannot have a block of the type {kind!r}"
    return BadRequest(told, param=f"messages[{number}]")


_MOST_MESSAGES = 10_000
_MOST_TOOLS = 1_000
_MOST_STOPS = 16
_EFFORTS: tuple[tuple[int, Effort], ...] = ((4_096, "low"), (16_384, "medium"), (32_768, "high"))
"""The reasoning effort for a thinking budget below a number of tokens; `max` for a larger budget."""


class Tool(Block):
    """A tool of the client."""

    type: str | None = None
    name: Annotated[str, Field(min_length=1)]
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    strict: bool | None = None


class ToolChoice(Body):
    """Which tool the worker must call."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class Thinking(Body):
    """Whether the client wants thinking blocks."""

    type: Literal["enabled", "adaptive", "disabled"]
    budget_tokens: Annotated[int, Field(gt=0)] | None = None
    display: Literal["summarized", "omitted"] | None = None


class Format(Body):
    """A JSON schema of the answer."""

    type: Literal["json_schema"]
    schema_: Annotated[dict[str, Any], Field(alias="schema")]


class OutputConfig(Body):
    """The effort and the form of the answer."""

    effort: Effort | None = None
    format: Format | None = None


class Thread(Body):
    """Whether the server is to hold the conversation, or to continue one that it holds."""

    type: Literal["create", "continue"]
    previous_message_id: str | None = None


class CountRequest(Body):
    """The body of `POST /v1/messages/count_tokens`."""

    model: Annotated[str, Field(min_length=1, max_length=200)]
    messages: Annotated[list[Turn], Field(min_length=1, max_length=_MOST_MESSAGES)]
    system: System | None = None
    tools: Annotated[list[Tool], Field(max_length=_MOST_TOOLS)] | None = None
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    output_format: Format | None = None

    # Values that change nothing are accepted, because clients send them as defaults.
    mcp_servers: Annotated[list[Any], Field(max_length=0)] | None = None

    # Ignored: they do not change the answer.
    cache_control: dict[str, Any] | None = None
    context_management: dict[str, Any] | None = None

    def chat_messages(self) -> list[Message]:
        """Return the conversation."""
        return read_turns(self.system, self.messages)

    def offered(self) -> Tools:
        """Return the tools."""
        functions: list[dict[str, Any]] = []
        for number, tool in enumerate(self.tools or ()):
            if tool.type not in (None, "custom") or tool.input_schema is None:
                told = (
                    f"tools[{number}] ({tool.name!r:.60}) is not a tool with an input_schema: tools of "
                    f"Anthropic's servers, such as {tool.type or 'web_search'!r:.60}, do not exist here"
                )
                raise BadRequest(told, code="tool_unsupported", param=f"tools[{number}]")
            function: dict[str, Any] = {"name": tool.name, "parameters": tool.input_schema}
            if tool.description:
                function["description"] = tool.description
            if tool.strict is not None:
                function["strict"] = tool.strict
            functions.append({"type": "function", "function": function})
        return read_tools(functions, self._choice())

    def _choice(self) -> object:
        choice = self.tool_choice
        if choice is None or (choice.type in ("auto", "none") and not self.tools):
            return None
        if not self.tools:
            raise BadRequest("tool_choice needs tools", param="tool_choice")
        if choice.type != "tool":
            return choice.type
        if choice.name is None:
            raise BadRequest("tool_choice.name is missing", param="tool_choice.name")
        return {"function": {"name": choice.name}}


class MessagesRequest(CountRequest):
    """The body of `POST /v1/messages`."""

    max_tokens: Annotated[int, Field(gt=0, lt=2**31)]
    stop_sequences: Annotated[list[str], Field(max_length=_MOST_STOPS)] | None = None
    temperature: Annotated[float, Field(ge=0, le=1)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    stream: bool | None = None
    thread: Thread | None = None
    """Ignored, if it is to be created: clients then send the whole conversation."""

    # Ignored, as above.
    metadata: dict[str, Any] | None = None
    service_tier: str | None = None
    inference_geo: str | None = None

    @property
    def shows_thinking(self) -> bool:
        """Whether the client wants to read thinking blocks."""
        thinking = self.thinking
        return thinking is not None and thinking.type != "disabled" and thinking.display != "omitted"

    def asked(self, idempotency_key: str | None, fingerprint: str) -> Asked:
        """Return the request in the words of Podium."""
        if self.thread is not None and self.thread.type == "continue":
            told = "this server holds no conversations: send all messages"
            raise BadRequest(told, status=404, code="thread_not_found", param="thread")
        return Asked(
            model=self.model,
            messages=self.chat_messages(),
            tools=self.offered(),
            sampling=self._sampling(),
            effort=self._effort(),
            stream=bool(self.stream),
            idempotency_key=idempotency_key,
            is_parallel=self.tool_choice is None or not self.tool_choice.disable_parallel_tool_use,
            fingerprint=fingerprint,
            user=str((self.metadata or {}).get("user_id") or ""),
        )

    def _effort(self) -> Effort | None:
        if self.output_config is not None and self.output_config.effort is not None:
            return self.output_config.effort
        budget = None if self.thinking is None else self.thinking.budget_tokens
        if budget is None:
            return None
        return next((effort for most, effort in _EFFORTS if budget < most), "max")

    def _sampling(self) -> Sampling:
        said: dict[str, Any] = {name: getattr(self, name) for name in ("temperature", "top_p", "max_tokens")}
        said["stop"] = self.stop_sequences
        form = self.output_format or (self.output_config.format if self.output_config else None)
        if form is not None:
            schema = {"name": "answer", "schema": form.schema_}
            said["response_format"] = {"type": "json_schema", "json_schema": schema}
        return read_sampling(said, of="this server")


_PER_MESSAGE = 4
_PER_ATTACHMENT = 1_600
"""Tokens of an image of 1.15 megapixels, Anthropic's largest; also counted for a file."""


def count_tokens(request: CountRequest) -> int:
    """Return an estimate of the tokens that one model reads for a request."""
    messages = request.chat_messages()
    parts = [part for message in messages if isinstance(message.content, tuple) for part in message.content]
    attached = len([part for part in parts if part["type"] != "text"])
    tools = request.offered().offered
    of_tools = estimate_tokens(json.dumps(tools, ensure_ascii=False)) if tools else 0
    of_frames = _PER_MESSAGE * len(messages) + _PER_ATTACHMENT * attached
    return estimate_usage(messages, "").input_tokens + of_tools + of_frames
