"""Convert AutoGen's messages, function calls, images, usage and metadata to Podium's, and back."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from autogen_agentchat.messages import BaseChatMessage, HandoffMessage, MultiModalMessage, TextMessage
from autogen_core import FunctionCall, Image
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    RequestUsage,
    SystemMessage,
    UserMessage,
)

from podium.errors import WorkerRefused
from podium.hosts import result_metadata, tool_call
from podium.types import Message, Part, Result
from podium.types.messages import storable
from podium.usage import Usage
from podium.workers.openai.chat_response import read_usage as read_counts

USER: Final = "user"
"""AutoGen's name for the user; messages of agents have the agents' names."""


def to_context(messages: Sequence[BaseChatMessage]) -> list[LLMMessage]:
    """Return messages between agents in the form of an agent's memory."""
    remembered: list[LLMMessage] = []
    for message in messages:
        if isinstance(message, HandoffMessage):
            remembered += message.context
        remembered.append(message.to_model_message())
    return remembered


def with_question_last(remembered: Sequence[LLMMessage], agent: str) -> list[LLMMessage]:
    """Return a conversation between agents that ends with its question, the user's last message.

    If agents have spoken since, the question is repeated after their messages. A conversation that ends with
    the agent's answer, or has no user's message, is returned unchanged.
    """
    conversation = list(remembered)
    asked = [m for m in conversation if isinstance(m, UserMessage) and m.source == USER]
    last = conversation[-1] if conversation else None
    is_answered = isinstance(last, AssistantMessage) and last.source == agent
    return conversation if not asked or last is asked[-1] or is_answered else [*conversation, asked[-1]]


def from_autogen(messages: Sequence[LLMMessage]) -> tuple[Message, ...]:
    """Convert the messages for a model to Podium's messages, without the reasoning of models."""
    return tuple(one for message in messages for one in _from_autogen(message))


def _from_autogen(message: LLMMessage) -> list[Message]:
    match message:
        case SystemMessage():
            return [Message("system", message.content)]
        case UserMessage():
            return [Message("user", _attributed(message))]
        case AssistantMessage():
            if isinstance(message.content, str):
                return [Message("assistant", storable(message.content))]
            return [Message("assistant", "", read_calls(message.content))]
        case FunctionExecutionResultMessage():
            return [Message("tool", storable(one.content), (), one.call_id) for one in message.content]


def _attributed(message: UserMessage) -> str | tuple[Part, ...]:
    """Return the content, preceded by the speaker's name if the speaker is an agent with the role `user`."""
    who = "" if message.source == USER else f"{message.source}: "
    if isinstance(message.content, str):
        return storable(who + message.content)
    parts = [_part(part) for part in message.content]
    return ({"type": "text", "text": who}, *parts) if who else tuple(parts)


def _part(part: str | Image) -> Part:
    if isinstance(part, str):
        return {"type": "text", "text": storable(part)}
    return {"type": "image_url", "image_url": {"url": part.data_uri}}


def to_autogen(messages: Sequence[Message]) -> list[LLMMessage]:
    """Convert Podium's messages to AutoGen's messages for a model."""
    written: list[LLMMessage] = []
    names: dict[str, str] = {}
    for message in messages:
        names |= {call.get("id", ""): call["function"]["name"] for call in message.tool_calls}
        last = written[-1] if written else None
        if message.role != "tool":
            written.append(_to_autogen(message))
            continue
        called = message.tool_call_id or ""
        result = FunctionExecutionResult(content=message.text, name=names.get(called, ""), call_id=called)
        if isinstance(last, FunctionExecutionResultMessage):
            last.content.append(result)
        else:
            written.append(FunctionExecutionResultMessage(content=[result]))
    return written


def _to_autogen(message: Message) -> LLMMessage:
    if message.role == "assistant":
        calls = write_calls(message.tool_calls)
        return AssistantMessage(content=calls or message.text, source="assistant")
    if message.role in ("system", "developer"):
        return SystemMessage(content=message.text)
    return UserMessage(content=_content(message), source=USER)


def to_chat(messages: Sequence[Message]) -> list[BaseChatMessage]:
    """Convert Podium's messages to AutoGen's messages for an agent."""
    told: list[BaseChatMessage] = []
    for message in messages:
        content = _content(message)
        if isinstance(content, str):
            told.append(TextMessage(content=content, source=message.role))
        else:
            told.append(MultiModalMessage(content=content, source=message.role))
    return told


def _content(message: Message) -> str | list[str | Image]:
    if isinstance(message.content, str):
        return message.content
    if all(part.get("type") == "text" for part in message.content):
        return message.text
    return [_unpart(part) for part in message.content]


def _unpart(part: Part) -> str | Image:
    if part.get("type") == "text":
        return str(part.get("text", ""))
    url = part.get("image_url", {}).get("url", "")
    if not isinstance(url, str) or not url.startswith("data:image/"):
        told = f"parts of type {part.get('type')!r} without a data: URL"
        raise WorkerRefused(f"AutoGen's messages cannot contain {told}: give images as data: URLs")
    return Image.from_uri(url)


def read_calls(calls: Sequence[FunctionCall]) -> tuple[Part, ...]:
    """Return function calls in OpenAI's format."""
    return tuple(tool_call(call.id, call.name, call.arguments) for call in calls)


def write_calls(calls: Sequence[Part]) -> list[FunctionCall]:
    """Convert tool calls in OpenAI's format to AutoGen's function calls."""
    return [
        FunctionCall(
            id=call.get("id") or "",
            name=call["function"].get("name", ""),
            arguments=call["function"].get("arguments") or "{}",
        )
        for call in calls
    ]


def read_usage(usage: RequestUsage | None) -> Usage | None:
    """Return the usage that a model client reported; `None` if it reported none."""
    if usage is None:
        return None
    return read_counts({"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens})


def write_usage(usage: Usage) -> RequestUsage:
    """Convert a usage to AutoGen's class, with the tokens of a hosted conductor's own workers."""
    return RequestUsage(prompt_tokens=usage.total_input_tokens, completion_tokens=usage.total_output_tokens)


def message_metadata(result: Result) -> dict[str, str]:
    """Return `podium.hosts.result_metadata` with the prefix `podium_`, and all values except text as JSON."""
    facts = result_metadata(result, usage=_usage)
    return {
        f"podium_{name}": fact if isinstance(fact, str) else json.dumps(fact) for name, fact in facts.items()
    }


def _usage(usage: Usage) -> dict[str, Any]:
    return {**asdict(write_usage(usage)), "estimated": usage.estimated}
