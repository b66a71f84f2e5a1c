"""Converts Inspect's messages to Podium's, and results of runs to Inspect's outputs."""

from collections.abc import Sequence
from typing import Any

from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageTool,
    ContentImage,
    ContentReasoning,
    ContentText,
    GenerateConfig,
    ModelOutput,
    ModelUsage,
    StopReason,
)
from inspect_ai.tool import ToolCall, ToolChoice, ToolFunction, ToolInfo

from podium.errors import ConfigError, QueryError
from podium.hosts import ChatAnswer, read_sampling, result_metadata, tool_call
from podium.hosts.results import lack_of, tool_arguments
from podium.types import Message, Part, Sampling, Tools
from podium.types.messages import storable
from podium.usage import Usage

METADATA = "podium"
"""The key under which the metadata of outputs and samples has the facts of a run."""
_SUBMIT = "submit"
"""The tool with which an agent of `react()` ends, which only the last step may call."""
_READ = ("temperature", "top_p", "max_tokens", "seed", "reasoning_effort")
_HANDLED = (
    "stop_seqs",
    "cache",
    "system_message",
    "timeout",
    "attempt_timeout",
    "max_retries",
    "max_connections",
)
"""Settings that are converted under another name, or that Inspect handles itself."""
_TOOL = {"name", "description", "parameters"}
_DEFAULTS = GenerateConfig().model_dump()


def from_inspect(messages: Sequence[ChatMessage]) -> tuple[Message, ...]:
    """Convert a conversation of Inspect, without the reasoning of models."""
    return tuple(_message(each) for each in messages)


def _message(message: ChatMessage) -> Message:
    if isinstance(message, ChatMessageTool):
        told = message.text if message.error is None else message.error.message
        return Message("tool", storable(told), tool_call_id=message.tool_call_id)
    asked = message.tool_calls or () if isinstance(message, ChatMessageAssistant) else ()
    calls = tuple(tool_call(call.id, call.function, call.arguments) for call in asked)
    if isinstance(message.content, str):
        return Message(message.role, storable(message.content), calls)
    parts = tuple(_part(each) for each in message.content if not isinstance(each, ContentReasoning))
    if all(part["type"] == "text" for part in parts):
        return Message(message.role, "\n".join(part["text"] for part in parts), calls)
    return Message(message.role, parts, calls)


def _part(content: object) -> Part:
    if isinstance(content, ContentText):
        return {"type": "text", "text": storable(content.text)}
    if isinstance(content, ContentImage):
        return {"type": "image_url", "image_url": {"url": content.image, "detail": content.detail}}
    told = getattr(content, "type", type(content).__name__)
    raise QueryError(f"a conductor does not accept content of the type {told!r}: only text and images")


def offered(tools: Sequence[ToolInfo], choice: ToolChoice) -> Tools:
    """Return Inspect's tools as functions, in the form of OpenAI's chat completions."""
    functions = tuple(
        {"type": "function", "function": tool.model_dump(exclude_none=True, include=_TOOL)} for tool in tools
    )
    if not tools:
        return Tools(())
    if isinstance(choice, ToolFunction):
        return Tools(functions, {"type": "function", "function": {"name": choice.name}})
    return Tools(functions, "required" if choice == "any" else choice, last=(_SUBMIT,))


def sampling_of(config: GenerateConfig) -> Sampling:
    """Return the sampling settings for the worker that writes the answer."""
    said = config.model_dump()
    unknown = [
        name
        for name, value in said.items()
        if value is not None and value != _DEFAULTS[name] and name not in (*_READ, *_HANDLED)
    ]
    if unknown:
        told = ", ".join([*_READ, "stop_seqs"])
        raise ConfigError(f"a conductor does not accept {', '.join(unknown)}: it accepts {told}")
    options: dict[str, Any] = {name: said[name] for name in _READ}
    return read_sampling(options | {"stop": config.stop_seqs}, of="GenerateConfig")


def output_of(answer: ChatAnswer, model: str, *, may_call: bool = False) -> ModelOutput:
    """Return the result of a run as an output. Its metadata has the plan, the steps, cost and problems.

    The output of an incomplete answer has the stop reason `max_tokens` and the `error` `(Not complete: …)`.
    Its text is unchanged, because scorers compare it.
    """
    result, finish = answer.result, answer.host_finish_reason
    calls = [_tool_call(call) for call in answer.tool_calls] or None
    message = ChatMessageAssistant(content=result.answer, tool_calls=calls, model=model, source="generate")
    reason: StopReason = "max_tokens" if finish == "length" else finish
    if may_call and reason == "max_tokens" and answer.finish_reason != "length":
        # its worker sees a gap, so it was offered no tools: `react()` would ask for a call until its limit
        reason = "model_length"
    return ModelOutput(
        model=model,
        choices=[ChatCompletionChoice(message=message, stop_reason=reason)],
        usage=usage_of(answer.usage, result.cost),
        time=result.seconds,
        metadata={METADATA: result_metadata(result, outputs=True)},
        error=None if result.problem is None else lack_of(result.problem),
    )


def _tool_call(call: Part) -> ToolCall:
    """Return a tool call in Inspect's form, which tells the model if its arguments cannot be read."""
    function, arguments = call["function"], tool_arguments(call)
    problem = None if arguments is not None else f"not a JSON object: {function['arguments']!r:.200}"
    return ToolCall(call["id"], function["name"], arguments or {}, problem)


def usage_of(usage: Usage, cost: float | None) -> ModelUsage:
    """Return a usage in Inspect's form, which counts cached tokens separately from other input tokens."""
    cached = usage.total_cached_tokens
    return ModelUsage(
        input_tokens=usage.total_input_tokens - cached,
        output_tokens=usage.total_output_tokens,
        total_tokens=usage.total_tokens,
        input_tokens_cache_read=cached or None,
        reasoning_tokens=usage.reasoning_tokens or None,
        total_cost=cost,
    )
