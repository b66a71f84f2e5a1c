"""Convert items of the Responses API to Podium's messages and back, and usage both ways.

The SDK's own converter for chat models reads the conversation.
"""

from collections.abc import Sequence
from typing import Any, cast

from agents import TResponseInputItem, Usage as AgentsUsage
from agents.items import TResponseOutputItem
from agents.models.fake_id import FAKE_RESPONSES_ID
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails

from podium.errors import WorkerRefused
from podium.hosts import tool_call
from podium.types import Message, Part
from podium.usage import Usage
from podium.workers.openai.chat_response import read_usage as read_counts


def to_items(messages: Sequence[Message]) -> list[TResponseInputItem]:
    """Convert Podium's messages to items of the Responses API."""
    return [cast("TResponseInputItem", item) for message in messages for item in _to_items(message)]


def _to_items(message: Message) -> list[dict[str, Any]]:
    if message.role == "tool":
        call_id = message.tool_call_id or ""
        return [{"type": "function_call_output", "call_id": call_id, "output": message.text}]
    if message.role != "assistant":
        content = message.content
        parts = content if isinstance(content, str) else [_part(part) for part in content]
        return [{"role": message.role, "content": parts}]
    said: list[dict[str, Any]] = []
    if message.text:
        said.append({"role": "assistant", "content": message.text})
    if message.text and message.tool_calls:  # the SDK sends text and calls together only in this form
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


def text_and_refusal(output: Sequence[TResponseOutputItem]) -> tuple[str, str | None]:
    """Return the text of a model's output, and the text of its refusal if it refused."""
    parts = [part for item in output if isinstance(item, ResponseOutputMessage) for part in item.content]
    text = "".join(part.text or "" for part in parts if part.type == "output_text")
    refusal = "".join(part.refusal for part in parts if part.type == "refusal")
    return text, refusal or None


def calls_of(output: Sequence[TResponseOutputItem]) -> list[Part]:
    """Return the function calls in a model's output, in the format of OpenAI's chat completions."""
    calls = [item for item in output if isinstance(item, ResponseFunctionToolCall)]
    return [tool_call(call.call_id, call.name, call.arguments) for call in calls]


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


def write_usage(usage: Usage) -> AgentsUsage:
    """Convert a usage to the SDK's class, as one request, with a hosted conductor's own workers."""
    return AgentsUsage(
        requests=1,
        input_tokens=usage.total_input_tokens,
        output_tokens=usage.total_output_tokens,
        total_tokens=usage.total_tokens,
        input_tokens_details=InputTokensDetails.model_validate(
            {"cached_tokens": usage.total_cached_tokens, "cache_write_tokens": 0}
        ),
        output_tokens_details=OutputTokensDetails(reasoning_tokens=usage.reasoning_tokens),
    )
