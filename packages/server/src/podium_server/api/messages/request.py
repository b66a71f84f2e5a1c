"""The body of a messages request."""

from typing import Annotated, Any, Literal

from pydantic import Field

from podium.hosts import read_sampling, read_tools
from podium.hosts.completions import Body
from podium.types import Message, Sampling, Tools
from podium_server.api.messages.blocks import Block, System
from podium_server.api.messages.conversation import Turn, read_turns
from podium_server.http import BadRequest
from podium_server.settings import Effort
from podium_server.turn import Asked

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
        """Return the conversation.

        Raises:
            BadRequest: it is invalid.
        """
        return read_turns(self.system, self.messages)

    def offered(self) -> Tools:
        """Return the tools.

        Raises:
            BadRequest: a tool has no schema, or there are no tools to choose from.
            ConfigError: the chosen tool does not exist.
        """
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
        """Return the request in the words of Podium.

        Args:
            idempotency_key: names the run; `None` for a new run.
            fingerprint: hash of the request.

        Raises:
            BadRequest: a message or a tool is invalid, or the conversation is not sent.
            ConfigError: the tool choice is invalid.
        """
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
