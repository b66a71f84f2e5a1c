"""Convert LlamaIndex's chat messages to Podium's, and back.

The module maps blocks to content parts.
"""

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from llama_index.core.base.llms.types import (
    AudioBlock,
    ChatMessage,
    CitableBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.memory import ChatMemoryBuffer

from podium.errors import QueryError
from podium.hosts import tool_call
from podium.hosts.results import tool_arguments
from podium.types import Message, Part
from podium.types.messages import Role

_ROLES: Final[Mapping[MessageRole, Role]] = {
    MessageRole.SYSTEM: "system",
    MessageRole.DEVELOPER: "developer",
    MessageRole.USER: "user",
    MessageRole.ASSISTANT: "assistant",
    MessageRole.CHATBOT: "assistant",
    MessageRole.MODEL: "assistant",
    MessageRole.TOOL: "tool",
    MessageRole.FUNCTION: "tool",
}


def whole_memory() -> ChatMemoryBuffer:
    """Return an empty memory with a limit so high that it never drops messages, as it would silently."""
    return ChatMemoryBuffer.from_defaults(token_limit=10**9)


def from_llama(messages: Sequence[ChatMessage]) -> tuple[Message, ...]:
    """Convert LlamaIndex's messages to Podium's messages, without the reasoning of models."""
    return tuple(map(_from_llama, messages))


def _from_llama(message: ChatMessage) -> Message:
    blocks = [block for block in message.blocks if not isinstance(block, ThinkingBlock | ToolCallBlock)]
    only_text = all(isinstance(block, TextBlock) for block in blocks)
    parts = [part for block in blocks for part in _parts(block)]
    answered = message.additional_kwargs.get("tool_call_id")
    return Message.from_wire(
        {
            "role": _ROLES[message.role],
            "content": (message.content or "") if only_text else parts,
            "tool_calls": list(calls_of(message)) or None,
            "tool_call_id": None if answered is None else str(answered),
        }
    )


def calls_of(message: ChatMessage) -> tuple[Part, ...]:
    """Return the tool calls of a message in OpenAI's format."""
    blocks = [block for block in message.blocks if isinstance(block, ToolCallBlock)]
    if blocks:
        return tuple(tool_call(b.tool_call_id, b.tool_name, b.tool_kwargs) for b in blocks)
    return tuple(map(_plain, message.additional_kwargs.get("tool_calls") or ()))


def to_llama(messages: Iterable[Message]) -> list[ChatMessage]:
    """Convert Podium's messages to LlamaIndex's messages."""
    return [_to_llama(message) for message in messages]


def _to_llama(message: Message) -> ChatMessage:
    if isinstance(message.content, str):
        blocks: list[ContentBlock] = [TextBlock(text=message.content)]
    else:
        blocks = [_block(part) for part in message.content]
    answered = {} if message.tool_call_id is None else {"tool_call_id": message.tool_call_id}
    blocks += call_blocks(message.tool_calls)
    return ChatMessage(role=MessageRole(message.role), blocks=blocks, additional_kwargs=answered)


def call_blocks(calls: Iterable[Part]) -> list[ToolCallBlock]:
    """Return tool calls in OpenAI's format as blocks; invalid arguments remain text."""
    return [
        ToolCallBlock(
            tool_call_id=call.get("id"),
            tool_name=call["function"].get("name", ""),
            tool_kwargs=call["function"]["arguments"] if arguments is None else arguments,
        )
        for call in calls
        for arguments in (tool_arguments(call),)
    ]


def _plain(call: Any) -> Part:
    """Return a tool call that an OpenAI client left in a message as plain data."""
    plain: Part = call if isinstance(call, Mapping) else call.model_dump()
    return plain


def _parts(block: object) -> list[Part]:
    if isinstance(block, CitableBlock):
        return [part for inner in block.content for part in _parts(inner)]
    write = _WRITE.get(type(block))
    if write is None:
        raise QueryError(f"a message has a {type(block).__name__}, which workers cannot read")
    return [write(block)]


def _image(block: ImageBlock) -> Part:
    url = str(block.url) if block.url else _data_url(block.image_mimetype or "image/png", block.resolve_image)
    return {
        "type": "image_url",
        "image_url": {"url": url} | ({"detail": block.detail} if block.detail else {}),
    }


def _audio(block: AudioBlock) -> Part:
    data = block.resolve_audio(as_base64=True).read().decode()
    return {"type": "input_audio", "input_audio": {"data": data, "format": block.format or "wav"}}


def _document(block: DocumentBlock) -> Part:
    data = base64.b64encode(block.resolve_document().read()).decode()
    kind = block.document_mimetype or "application/pdf"
    name = block.title or "document"
    return {"type": "file", "file": {"filename": name, "file_data": f"data:{kind};base64,{data}"}}


_WRITE: Final[Mapping[type, Callable[[Any], Part]]] = {
    TextBlock: lambda block: {"type": "text", "text": block.text},
    ImageBlock: _image,
    AudioBlock: _audio,
    DocumentBlock: _document,
}


def _data_url(kind: str, resolve: Callable[..., Any]) -> str:
    return f"data:{kind};base64,{resolve(as_base64=True).read().decode()}"


def _block(part: Part) -> ContentBlock:
    match part:
        case {"type": "text", "text": text}:
            return TextBlock(text=str(text))
        case {"type": "image_url", "image_url": {"url": str(url), **said}}:
            kind, data = _read_data(url)
            detail = _text(said.get("detail"))
            if data is None:
                return ImageBlock(url=url, detail=detail)
            return ImageBlock(image=data, image_mimetype=kind, detail=detail)
        case {"type": "input_audio", "input_audio": {"data": str(audio), **said}}:
            return AudioBlock(audio=base64.b64decode(audio), format=_text(said.get("format")))
        case {"type": "file", "file": {"file_data": str(url), **said}}:
            kind, data = _read_data(url)
            title = _text(said.get("filename"))
            return DocumentBlock(data=data, document_mimetype=kind, title=title)
    raise QueryError(f"LlamaIndex has no block for a content part of type {part.get('type')!r}")


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _read_data(url: str) -> tuple[str, bytes | None]:
    head, found, data = url.partition(";base64,")
    return (head.removeprefix("data:"), base64.b64decode(data)) if found else ("", None)
