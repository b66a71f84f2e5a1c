"""Convert LangChain's messages, content, tool calls, usage and values to Podium's, and back.

The module also defines the types of input that a conductor accepts from LangChain. The output of a step is
text: content that is not text (images, audio, files) is mentioned in the output of a tool and in
`Completion.missing`, so the step is `partial`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    InvalidToolCall,
    MessageLikeRepresentation,
    ToolCall,
    convert_to_messages,
    convert_to_openai_messages,
)
from langchain_core.messages.ai import InputTokenDetails, OutputTokenDetails, UsageMetadata
from langchain_core.prompt_values import PromptValue

from podium.errors import QueryError
from podium.hosts import text_of as plain_text, tool_call
from podium.hosts.chat import gaps_told, text_completion
from podium.hosts.results import tool_arguments
from podium.types import Completion, Message, Part, Plan
from podium.usage import Usage
from podium.workers.openai.chat_response import read_usage as read_counts

ConductorInput = (
    str | PromptValue | BaseMessage | Sequence[MessageLikeRepresentation] | Mapping[str, Any] | Plan
)
"""The input of a conductor: text, a prompt, a message, a conversation, a dict of these, or a plan."""

PROVIDER: Final = "podium"
"""The `model_provider` of messages that a conductor has answered."""
_QUESTION: Final = ("question", "input", "query")
_HISTORY: Final = ("chat_history", "history")
_INNER: Final = frozenset(
    {"thinking", "reasoning", "redacted_thinking", "tool_use", "tool_call", "function_call", "non_standard"}
)
"""Content blocks that are not passed on; tool calls are in `tool_calls`."""


def to_query(asked: ConductorInput) -> tuple[Message, ...] | Plan:
    """Return the input as a conversation whose last message is the question; a plan is returned unchanged."""
    if isinstance(asked, Plan):
        return asked
    if isinstance(asked, str):
        return (Message("user", asked),)
    if isinstance(asked, PromptValue):
        return from_langchain(asked.to_messages())
    if isinstance(asked, BaseMessage):
        return _asking(asked)
    if isinstance(asked, Mapping):
        return _of_mapping(asked)
    return from_langchain(asked)


def _asking(message: BaseMessage) -> tuple[Message, ...]:
    """Return one message as a question; in a chain, a model's answer may be the next question."""
    return (Message("user", from_langchain([message])[0].content),)


def _of_mapping(asked: Mapping[str, Any]) -> tuple[Message, ...]:
    if "messages" in asked:
        return from_langchain(asked["messages"])
    question = next((asked[key] for key in _QUESTION if key in asked), None)
    if question is None:
        raise QueryError(
            f"a dict with {', '.join(map(repr, asked)) or 'no keys'} has no question: "
            "put messages under 'messages', or text under 'question' or 'input'"
        )
    history = next((asked[key] for key in _HISTORY if key in asked), ())
    last = to_query(question)
    if isinstance(last, Plan):
        raise QueryError("a plan contains its question: pass the plan alone")
    return (*from_langchain(history), *last)


def from_langchain(messages: Sequence[MessageLikeRepresentation]) -> tuple[Message, ...]:
    """Convert LangChain's messages to Podium's messages, without the reasoning of models."""
    if isinstance(messages, bytes | Mapping) or not isinstance(messages, Sequence):
        raise QueryError(f"a conversation is a list of messages, not {type(messages).__name__}")
    try:
        wires = convert_to_openai_messages(messages)
    except (ValueError, TypeError, NotImplementedError) as error:
        raise QueryError(f"invalid chat messages: {error}") from error
    read = [Message.from_wire(_without_inner(wire)) for wire in wires]
    if len(read) != len(messages):  # of some formats, one message becomes several
        return tuple(read)
    return tuple(replace(one, labels=_labels(message)) for one, message in zip(read, messages, strict=True))


def _labels(message: MessageLikeRepresentation) -> frozenset[str] | None:
    """Return the labels of an answer of a conductor; `None` for other messages."""
    facts = message.response_metadata if isinstance(message, AIMessage) else {}
    labels = facts.get("podium_labels", (facts.get("podium") or {}).get("labels"))
    return None if labels is None else frozenset(map(str, labels))


def _without_inner(wire: dict[str, Any]) -> dict[str, Any]:
    content = wire.get("content")
    if isinstance(content, list):
        content = [part for part in content if part.get("type") not in _INNER]
    return {**wire, "content": content or ""}


def to_langchain(messages: Sequence[Message]) -> list[BaseMessage]:
    """Convert Podium's messages to LangChain's messages."""
    return [_to_langchain(message) for message in messages]


def _to_langchain(message: Message) -> BaseMessage:
    (found,) = convert_to_messages([replace(message, tool_calls=()).to_wire()])
    if isinstance(found, AIMessage):
        found.tool_calls, found.invalid_tool_calls = read_calls(message.tool_calls)
    return found


def read_calls(calls: Sequence[Part]) -> tuple[list[ToolCall], list[InvalidToolCall]]:
    """Convert tool calls in OpenAI's format to LangChain's; invalid calls are returned separately."""
    good, broken = list[ToolCall](), list[InvalidToolCall]()
    for call in calls:
        name, call_id, arguments = call["function"].get("name", ""), call.get("id"), tool_arguments(call)
        if arguments is not None:
            good.append(ToolCall(name=name, args=arguments, id=call_id, type="tool_call"))
            continue
        broken.append(
            InvalidToolCall(
                name=name,
                args=call["function"]["arguments"],
                id=call_id,
                error="the arguments are not a JSON object",
                type="invalid_tool_call",
            )
        )
    return good, broken


def write_calls(message: AIMessage) -> tuple[Part, ...]:
    """Return the tool calls of a message in OpenAI's format, also with invalid arguments."""
    if isinstance(message, AIMessageChunk) and message.tool_call_chunks:
        # If the stream was cut inside the arguments, `tool_calls` has the arguments as if they were complete.
        return tuple(tool_call(c["id"], c["name"], c["args"] or "") for c in message.tool_call_chunks)
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    return tuple(tool_call(c["id"], c["name"], c["args"]) for c in calls)


def read_usage(metadata: Mapping[str, Any] | None) -> Usage | None:
    """Convert a message's `usage_metadata` to a usage; `None` if it has no usable counts."""
    return read_counts(usage_counts(metadata))


def usage_counts(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a message's `usage_metadata` in the format of chat completions; empty if there is none."""
    if not metadata:
        return {}
    read, written = metadata.get("input_token_details") or {}, metadata.get("output_token_details") or {}
    return {
        "prompt_tokens": metadata.get("input_tokens"),
        "completion_tokens": metadata.get("output_tokens"),
        "cached_tokens": read.get("cache_read"),
        "reasoning_tokens": written.get("reasoning"),
    }


def write_usage(usage: Usage) -> UsageMetadata:
    """Convert a usage to LangChain's `usage_metadata`, with the tokens of a hosted conductor's workers."""
    metadata = UsageMetadata(
        input_tokens=usage.total_input_tokens,
        output_tokens=usage.total_output_tokens,
        total_tokens=usage.total_tokens,
    )
    if cached := usage.total_cached_tokens:
        metadata["input_token_details"] = InputTokenDetails(cache_read=cached)
    if usage.reasoning_tokens:
        metadata["output_token_details"] = OutputTokenDetails(reasoning=usage.reasoning_tokens)
    return metadata


def text_of(value: object) -> str:
    """Return a Runnable's output as text: the text of the last message, or JSON for other values."""
    if isinstance(value, dict) and "messages" in value:
        value = value["messages"]
    if isinstance(value, list | tuple) and value and isinstance(value[-1], BaseMessage):
        value = value[-1]
    if isinstance(value, BaseMessage):
        return str(value.text)
    if isinstance(value, list) and value and all(isinstance(each, Document) for each in value):
        return cited(value)
    return plain_text(value)


def cited(documents: Sequence[Document]) -> str:
    """Return the documents' texts, each with its source if known."""
    return "\n\n".join(map(_cited, documents))


def _cited(document: Document) -> str:
    facts = document.metadata
    source = next((str(facts[key]) for key in ("source", "url", "title") if facts.get(key)), document.id)
    if not source:
        return document.page_content
    page = f", page {facts['page']}" if "page" in facts else ""
    return f"[{source}{page}]\n{document.page_content}"


_NO_TEXT: Final[Mapping[str, str]] = {
    "image": "an image",
    "image_url": "an image",
    "audio": "a sound",
    "input_audio": "a sound",
    "video": "a video",
    "file": "a file",
    "media": "a file",
}
"""Names for the types of content blocks that are not text."""
_TEXT: Final = ("text", "text-plain")


_REFUSALS: Final = ("refusal", "non_standard")
_FINISHES: Final = ("finish_reason", "stop_reason", "stopReason", "done_reason")


def is_content(returned: object) -> bool:
    """Return whether a tool's return value is a list of content blocks."""
    known = {*_TEXT, *_NO_TEXT, "non_standard"}
    if not isinstance(returned, list) or not any(isinstance(block, dict) for block in returned):
        return False
    blocks = [block for block in returned if not isinstance(block, str)]
    return all(isinstance(block, dict) and block.get("type") in known for block in blocks)


def content_completion(blocks: Sequence[Any], artifact: object, worker: str) -> Completion:
    """Return the content blocks of a tool's result as the output of a step."""
    texts, gaps = _read(blocks)
    if not "".join(texts).strip() and not gaps and artifact is not None:
        texts = [text_of(artifact)]
    nothing = Completion("The tool succeeded and returned nothing.")
    return text_completion(texts, gaps, worker) or nothing


def with_missing(completion: Completion, message: AIMessage | None) -> Completion:
    """Return an answer that also names the content of its message that is not text."""
    blocks = message.content if message is not None and isinstance(message.content, list) else []
    gaps = [_gap(each) for each in blocks if isinstance(each, dict) and each.get("type") in _NO_TEXT]
    return replace(completion, missing=gaps_told(gaps)) if gaps and not completion.missing else completion


def _read(blocks: Sequence[Any]) -> tuple[list[str], list[str]]:
    """Return the texts of content blocks, and names of the blocks that are not text."""
    texts: list[str] = []
    gaps: list[str] = []
    for block in blocks:
        if isinstance(block, str):
            texts.append(block)
        elif block["type"] in _TEXT:
            texts.append(str(block.get("text", "")))
        elif block["type"] == "file" and str(block.get("url", "")).startswith(("http:", "https:", "file:")):
            texts.append(f"file: {block['url']}")  # a link is text
        else:
            gaps.append(_gap(block))
    return texts, gaps


def _gap(block: Mapping[str, Any]) -> str:
    kind = _NO_TEXT.get(block["type"], f"content of type {block['type']!r}")
    mime_type = block.get("mime_type") or block.get("mimeType")
    return f"{kind} ({mime_type})" if mime_type else kind


def finish_of(answer: object) -> str | None:
    """Return the provider's finish reason; `None` if the message has none."""
    if not isinstance(answer, AIMessage):
        return None
    metadata: dict[str, Any] = answer.response_metadata
    # OpenAI's Responses API; its status is the finish reason of a complete answer
    cut = metadata.get("incomplete_details") or {}
    said = next((metadata[key] for key in _FINISHES if metadata.get(key)), None)
    return said or cut.get("reason") or metadata.get("status")


def refusal_of(answer: AIMessage) -> str | None:
    """Return the text of a refusal, from Chat Completions or from a content block."""
    blocks = [block for block in answer.content if isinstance(block, dict)]
    found = [block.get("value", block).get("refusal") for block in blocks if block.get("type") in _REFUSALS]
    return answer.additional_kwargs.get("refusal") or "".join(map(str, filter(None, found))) or None
