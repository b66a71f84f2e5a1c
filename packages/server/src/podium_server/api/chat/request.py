"""The body of a chat completions request."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from podium.hosts import read_sampling, read_tools
from podium.types import Sampling, Tools
from podium_server.api.bodies import Body, read_messages
from podium_server.http import BadRequest
from podium_server.settings import Effort
from podium_server.turn import Asked

_MOST_MESSAGES = 10_000
_MOST_TOOLS = 1_000
_MOST_STOPS = 16


class StreamOptions(Body):
    """Options of a stream."""

    include_usage: bool = False
    """Whether the last chunk has the usage."""
    include_obfuscation: bool | None = None
    """Ignored: this server adds no random text."""


class ChatRequest(Body):
    """The body of `POST /v1/chat/completions`."""

    model: Annotated[str, Field(min_length=1, max_length=200)]
    messages: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=_MOST_MESSAGES)]
    tools: Annotated[list[dict[str, Any]], Field(max_length=_MOST_TOOLS)] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    response_format: dict[str, Any] | None = None
    stop: str | Annotated[list[str], Field(max_length=_MOST_STOPS)] | None = None
    max_tokens: Annotated[int, Field(gt=0, lt=2**31)] | None = None
    max_completion_tokens: Annotated[int, Field(gt=0, lt=2**31)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    reasoning_effort: Effort | None = None
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

    @property
    def includes_usage(self) -> bool:
        """Whether the last chunk of a stream has the usage."""
        return self.stream_options is not None and self.stream_options.include_usage

    def asked(self, idempotency_key: str | None, fingerprint: str) -> Asked:
        """Return the request in the words of Podium.

        Args:
            idempotency_key: names the run; `None` for a new run.
            fingerprint: hash of the request.

        Raises:
            BadRequest: a message, a tool or the response format is invalid.
            ConfigError: the tool choice is invalid.
        """
        if self.stream_options is not None and not self.stream:
            raise BadRequest("stream_options needs stream", param="stream_options")
        return Asked(
            model=self.model,
            messages=read_messages("messages", self.messages),
            tools=self._tools(),
            sampling=self._sampling(),
            effort=self.reasoning_effort,
            stream=bool(self.stream),
            idempotency_key=idempotency_key,
            is_parallel=self.parallel_tool_calls is not False,
            fingerprint=fingerprint,
        )

    def _tools(self) -> Tools:
        for number, tool in enumerate(self.tools or ()):
            function = tool.get("function")
            if tool.get("type") != "function" or not isinstance(function, Mapping):
                told = f'tools[{number}] is not a function: write {{"type": "function", "function": …}}'
                raise BadRequest(told, param=f"tools[{number}]")
            if not isinstance(function.get("name"), str) or not function["name"]:
                raise BadRequest(f"tools[{number}].function has no name", param=f"tools[{number}]")
        if not self.tools and self.tool_choice not in (None, "none", "auto"):
            raise BadRequest("tool_choice needs tools", param="tool_choice")
        return read_tools(self.tools, self.tool_choice)

    def _sampling(self) -> Sampling:
        said = {name: getattr(self, name) for name in ("temperature", "top_p", "seed", "stop")}
        said["max_tokens"] = self.max_completion_tokens or self.max_tokens
        said["response_format"] = self._format()
        return read_sampling(said, of="this server")

    def _format(self) -> dict[str, Any] | None:
        match self.response_format:
            case None | {"type": "text"}:
                return None
            case {"type": "json_object"}:
                return {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}}
            case {"type": "json_schema", "json_schema": {"schema": dict()}}:
                return self.response_format
        told = 'response_format must be {"type": "json_object"} or {"type": "json_schema", "json_schema": …}'
        raise BadRequest(told, param="response_format")
