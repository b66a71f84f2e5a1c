"""Converts Inspect's messages to Podium's, and results of runs to Inspect's outputs."""

from collections.abc import Sequence
from typing import Any

from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessage,
    ChatMessageAssistant,
    ContentImage,
    ContentReasoning,
    ContentText,
    GenerateConfig,
    ModelOutput,
    ModelUsage,
    StopReason,
)

from podium.errors import ConfigError, QueryError
from podium.hosts import ChatAnswer, read_sampling, result_metadata
from podium.types import Message, Part, Sampling, storable
from podium.usage import Usage

METADATA = "podium"
"""The key under which the metadata of outputs and samples has the facts of a run."""
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
_DEFAULTS = GenerateConfig().model_dump()


def from_inspect(messages: Sequence[ChatMessage]) -> tuple[Message, ...]:
    """Convert a conversation of Inspect, without the reasoning of models.

    Raises:
        QueryError: a message has tool calls, or content other than text and images.
    """
    return tuple(_message(each) for each in messages)


def _message(message: ChatMessage) -> Message:
    if message.role == "tool" or (isinstance(message, ChatMessageAssistant) and message.tool_calls):
        raise QueryError("a conductor does not accept calls of Inspect's tools: give tools to its workers")
    if isinstance(message.content, str):
        return Message(message.role, storable(message.content))
    parts = tuple(_part(each) for each in message.content if not isinstance(each, ContentReasoning))
    if all(part["type"] == "text" for part in parts):
        return Message(message.role, "\n".join(part["text"] for part in parts))
    return Message(message.role, parts)


def _part(content: object) -> Part:
    if isinstance(content, ContentText):
        return {"type": "text", "text": storable(content.text)}
    if isinstance(content, ContentImage):
        return {"type": "image_url", "image_url": {"url": content.image, "detail": content.detail}}
    told = getattr(content, "type", type(content).__name__)
    raise QueryError(f"a conductor does not accept content of the type {told!r}: only text and images")


def sampling_of(config: GenerateConfig) -> Sampling:
    """Return the sampling settings for the worker that writes the answer.

    Raises:
        ConfigError: a setting is not supported.
    """
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


def output_of(answer: ChatAnswer, model: str) -> ModelOutput:
    """Return the result of a run as an output. Its metadata has the plan, the steps, cost and problems."""
    message = ChatMessageAssistant(content=answer.text, model=model, source="generate")
    reason: StopReason = "max_tokens" if answer.finish_reason == "length" else "stop"
    return ModelOutput(
        model=model,
        choices=[ChatCompletionChoice(message=message, stop_reason=reason)],
        usage=_usage(answer.usage, answer.result.cost),
        time=answer.result.seconds,
        metadata={METADATA: result_metadata(answer.result, outputs=True)},
    )


def _usage(usage: Usage, cost: float | None) -> ModelUsage:
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
