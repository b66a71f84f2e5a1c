"""Convert Agent Framework's messages and usage to Podium's, and back."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent_framework import Content, Message as FrameworkMessage, UsageDetails

from autogen_podium.agent_framework.approvals import is_own
from podium.hosts import result_metadata, tool_call
from podium.types import Message, Part, Result
from podium.types.messages import Role, storable
from podium.usage import Usage
from podium.workers.openai.chat_response import read_usage as read_counts


def from_framework(messages: Sequence[FrameworkMessage], own: str | None) -> tuple[Message, ...]:
    """Convert Agent Framework's messages to Podium's messages, without our requests and their answers.

    A message of another agent becomes a user message with the agent's name, because it is input to the run.
    The messages of the agent `own` remain assistant messages; with `None`, each message keeps its role.
    """
    return tuple(one for message in messages for one in _from_framework(message, own))


def _from_framework(message: FrameworkMessage, own: str | None) -> list[Message]:
    contents = [content for content in message.contents if not is_own(content)]
    results = [content for content in contents if content.type == "function_result"]
    if results:
        return [Message("tool", storable(str(one.result)), (), one.call_id) for one in results]
    calls = tuple(_call(content) for content in contents if content.type == "function_call")
    parts = tuple(part for content in contents if (part := _part(content)) is not None)
    author, is_assistant = message.author_name, message.role == "assistant"
    if calls or (is_assistant and (own is None or author in (own, None))):
        return [Message("assistant", _joined(parts), calls)] if calls or parts else []
    role: Role = "system" if message.role in ("system", "developer") else "user"
    if author is not None and is_assistant:
        parts = ({"type": "text", "text": f"{author}:"}, *parts)
    return [Message(role, _joined(parts))] if parts else []


def _joined(parts: tuple[Part, ...]) -> str | tuple[Part, ...]:
    is_text = all(part["type"] == "text" for part in parts)
    return " ".join(part["text"] for part in parts) if is_text else parts


def _part(content: Content) -> Part | None:
    """Return a content in OpenAI's format; `None` for kinds that no worker accepts."""
    if content.type == "text":
        return {"type": "text", "text": storable(content.text or "")}
    if content.type in ("data", "uri") and content.has_top_level_media_type("image"):
        return {"type": "image_url", "image_url": {"url": content.uri}}
    return None


def _call(content: Content) -> Part:
    return tool_call(content.call_id, content.name, content.arguments or {})


def write_calls(calls: Sequence[Part]) -> list[Content]:
    """Convert tool calls to Agent Framework's contents."""
    return [
        Content.from_function_call(
            str(call.get("id") or ""),
            call["function"]["name"],
            arguments=call["function"].get("arguments") or "{}",
        )
        for call in calls
    ]


def to_framework(messages: Sequence[Message]) -> list[FrameworkMessage]:
    """Convert Podium's messages to Agent Framework's messages."""
    return [_to_framework(message) for message in messages]


def _to_framework(message: Message) -> FrameworkMessage:
    if message.role == "tool":
        result = Content.from_function_result(message.tool_call_id or "", result=message.text)
        return FrameworkMessage("tool", [result])
    parts = (
        [{"type": "text", "text": message.content}] if isinstance(message.content, str) else message.content
    )
    contents = [_content(part) for part in parts]
    contents += write_calls(message.tool_calls)
    return FrameworkMessage("system" if message.role == "developer" else message.role, contents)


def _content(part: Mapping[str, Any]) -> Content:
    if part.get("type") == "image_url":
        return Content.from_uri(part["image_url"]["url"], media_type=_media_type(part["image_url"]["url"]))
    return Content.from_text(str(part.get("text", "")))


def _media_type(url: str) -> str:
    return url[5:].partition(";")[0] if url.startswith("data:") else "image/*"


def read_usage(details: UsageDetails | None) -> Usage | None:
    """Return the reported usage; `None` if none was reported."""
    if not details:
        return None
    return read_counts(
        {
            "prompt_tokens": details.get("input_token_count"),
            "completion_tokens": details.get("output_token_count"),
            "cached_tokens": details.get("cache_read_input_token_count"),
            "reasoning_tokens": details.get("reasoning_output_token_count"),
        }
    )


def write_usage(usage: Usage) -> UsageDetails:
    """Convert a usage to Agent Framework's, with the tokens of a hosted conductor's own workers."""
    details = UsageDetails(
        input_token_count=usage.total_input_tokens,
        output_token_count=usage.total_output_tokens,
        total_token_count=usage.total_tokens,
    )
    if cached := usage.total_cached_tokens:
        details["cache_read_input_token_count"] = cached
    if usage.reasoning_tokens:
        details["reasoning_output_token_count"] = usage.reasoning_tokens
    return details


def write_result(result: Result) -> dict[str, Any]:
    """Return the metadata of a response's run, without the answer."""
    return {"podium": result_metadata(result, usage=_details)}


def _details(usage: Usage) -> Mapping[str, Any]:
    return {**write_usage(usage), "estimated": usage.estimated}
