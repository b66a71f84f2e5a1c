"""The body of a request for a response."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from podium.hosts import read_sampling, read_tools
from podium.hosts.completions import Body
from podium.types import Message, Sampling, Tools
from podium_server.api.responses.items import LEFT_OUT, OfferedTool, read_tools as offered_tools
from podium_server.http import BadRequest
from podium_server.settings import Effort
from podium_server.turn import Asked

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
