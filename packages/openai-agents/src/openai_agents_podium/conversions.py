"""Convert messages, usage, settings and errors between Podium and the SDK.

The SDK's own converter for chat models reads the conversation.
"""

import json
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, Final, cast

from agents import (
    AgentOutputSchemaBase,
    InputGuardrailTripwireTriggered,
    MaxTurnsExceeded,
    ModelBehaviorError,
    ModelRefusalError,
    ModelSettings,
    OutputGuardrailTripwireTriggered,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
    TResponseInputItem,
    Usage as AgentsUsage,
    UserError,
)
from agents.models.fake_id import FAKE_RESPONSES_ID
from agents.strict_schema import ensure_strict_json_schema
from openai.types.shared import Reasoning
from typing_extensions import override

from podium.errors import (
    AnswerRefused,
    AnswerToolCalls,
    WorkerBroken,
    WorkerError,
    WorkerFailed,
    WorkerRefused,
)
from podium.hosts import GuardrailTripped, sampling_arguments
from podium.types import Constraint, Message, Part, Sampling
from podium.types.messages import storable
from podium.usage import Usage
from podium.workers.openai.chat_response import read_usage as read_counts
from podium.workers.openai.errors import ASK_URL

_EXTRA: Final = ("seed", "stop")
"""Options without an SDK setting; the SDK's chat completions models pass them on."""
_UNKNOWN_TOOL: Final = re.compile(r"^Tool (\S+) not found in agent")
_MAX_QUOTE: Final = 300


def to_items(messages: Sequence[Message]) -> list[TResponseInputItem]:
    """Convert Podium's messages to items of the Responses API."""
    return [cast("TResponseInputItem", item) for message in messages for item in _items(message)]


def _items(message: Message) -> list[dict[str, Any]]:
    if message.role == "tool":
        call_id = message.tool_call_id or ""
        return [{"type": "function_call_output", "call_id": call_id, "output": message.text}]
    if message.role != "assistant":
        content = message.content
        parts = content if isinstance(content, str) else [_part(part) for part in content]
        return [{"role": message.role, "content": parts}]
    said: list[dict[str, Any]] = []
    if message.text:  # in the only form in which the SDK sends text and calls together
        text = {"type": "output_text", "text": message.text, "annotations": []}
        whole = {"type": "message", "id": FAKE_RESPONSES_ID, "status": "completed"}
        said = [{**whole, "role": "assistant", "content": [text]}]
    for call in message.tool_calls:
        function = call["function"]
        arguments = function.get("arguments") or "{}"
        called = {"call_id": call.get("id") or "", "name": function["name"], "arguments": arguments}
        said.append({"type": "function_call", **called})
    return said


def _part(part: Part) -> dict[str, Any]:
    match part.get("type"):
        case "text":
            return {"type": "input_text", "text": str(part.get("text", ""))}
        case "image_url":
            image = part["image_url"]
            detail = image.get("detail", "auto")
            return {"type": "input_image", "image_url": image.get("url"), "detail": detail}
        case "file":
            return {"type": "input_file", **part["file"]}
        case "input_audio":
            return dict(part)
    raise WorkerRefused(f"the OpenAI Agents SDK does not accept content parts of type {part.get('type')!r}")


def read_usage(usage: AgentsUsage) -> Usage | None:
    """Return the SDK's usage of one or more requests.

    `None` if a request did not report its tokens; `Usage()` if there were no requests.
    """
    if not usage.requests:
        return Usage()
    if usage.requests > max(1, len(usage.request_usage_entries)):
        return None
    return read_counts(
        {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "cached_tokens": usage.input_tokens_details.cached_tokens,
            "reasoning_tokens": usage.output_tokens_details.reasoning_tokens,
        }
    )


def model_settings(sampling: Sampling, beside: ModelSettings | None = None) -> ModelSettings:
    """Return the settings for a step."""
    said = sampling_arguments(sampling)
    extra: dict[str, Any] = {name: said.pop(name) for name in _EXTRA if name in said}
    settings = ModelSettings(include_usage=True).resolve(beside).resolve(ModelSettings(**said))
    if sampling.effort is not None:
        settings = replace(settings, reasoning=Reasoning.model_validate({"effort": sampling.effort}))
    return replace(settings, extra_args={**(settings.extra_args or {}), **extra}) if extra else settings


class SchemaOutput(AgentOutputSchemaBase):
    """An output type that is a JSON schema."""

    def __init__(self, constraint: Constraint) -> None:
        assert isinstance(constraint.value, Mapping)  # a grammar is not a JSON schema
        self._schema = dict(constraint.value)

    @override
    def is_plain_text(self) -> bool:
        return False

    @override
    def name(self) -> str:
        return "answer"

    @override
    def json_schema(self) -> dict[str, Any]:
        return self._schema

    @override
    def is_strict_json_schema(self) -> bool:
        try:
            return ensure_strict_json_schema(deepcopy(self._schema)) == self._schema
        except UserError:
            return False

    @override
    def validate_json(self, json_str: str) -> Any:
        return json.loads(json_str)


def read_agents_error(error: BaseException) -> WorkerError | None:
    """Return the worker error for an exception of the SDK; `None` for other exceptions."""
    kind: type[WorkerError]
    match error:
        case InputGuardrailTripwireTriggered() | OutputGuardrailTripwireTriggered():
            result = error.guardrail_result
            kind, told = GuardrailTripped, tripped(result.guardrail.get_name(), result.output.output_info)
        case ToolInputGuardrailTripwireTriggered() | ToolOutputGuardrailTripwireTriggered():
            kind, told = GuardrailTripped, tripped(error.guardrail.get_name(), error.output.output_info)
        case ModelRefusalError():
            kind, told = AnswerRefused, f"the model of the agent refused to answer: {_quote(error.refusal)}"
        case MaxTurnsExceeded():
            kind, told = WorkerFailed, f"the agent needed too many turns (max_turns): {_quote(error.message)}"
        case ModelBehaviorError() if unknown := _UNKNOWN_TOOL.match(error.message):
            kind, told = AnswerToolCalls, f"the agent called tools that nobody offered: {unknown[1]}"
        case ModelBehaviorError():
            kind, told = WorkerBroken, f"the answer of a model is broken: {_quote(error.message)}"
            told += f"; {ASK_URL}" if "no choices" in error.message else ""
        case UserError() if error.__cause__ is None:  # otherwise the runner wraps an exception of a tool
            kind, told = WorkerRefused, f"the SDK cannot run it: {_quote(error.message)}"
        case _:
            return None
    return kind(told, maybe_paid=True)


def tripped(guardrail: str, info: object) -> str:
    """Return that a guardrail has tripped, and why."""
    told = f"guardrail {guardrail!r} tripped"
    return told if info is None else f"{told}: {_quote(str(info))}"


def _quote(text: str) -> str:
    return storable(text)[:_MAX_QUOTE]
