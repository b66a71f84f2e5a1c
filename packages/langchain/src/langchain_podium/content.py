"""Read the content of tools and of messages, and how messages end. The output of a step is text.

Content that is not text (images, audio, files) is mentioned in the output of a tool and in
`Completion.missing`, so the step is `partial`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from langchain_core.messages import AIMessage

from langchain_podium.messages import text_of
from podium.hosts.chat import gaps_told, text_completion
from podium.types import Completion

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
