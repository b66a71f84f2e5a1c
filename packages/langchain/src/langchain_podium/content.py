"""Convert content of tools and of messages to the output of a step, which is text.

Content that is not text (images, audio, files) is mentioned in the output of a tool and in
`Completion.missing`, so the step is `partial`.
"""

from collections.abc import Mapping, Sequence
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


def missing_of(message: object) -> str | None:
    """Return a text that names a message's content other than text; `None` if there is none."""
    if not isinstance(message, AIMessage) or not isinstance(message.content, list):
        return None
    gaps = [
        _gap(block) for block in message.content if isinstance(block, dict) and block.get("type") in _NO_TEXT
    ]
    return gaps_told(gaps) if gaps else None


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
