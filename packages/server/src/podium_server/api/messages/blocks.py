"""The content blocks of a messages request, and the content parts that workers get for them.

Blocks and tools have fields that do not change an answer, such as `cache_control` and `citations`, and
clients add new ones. So unknown fields of blocks are ignored.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from podium.types import Part


class Block(BaseModel):
    """A content block, a part of one, or a tool. Types are not converted; unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, allow_inf_nan=False)


class TextBlock(Block):
    """Text."""

    type: Literal["text"]
    text: str

    def part(self) -> Part:
        """Return the content part."""
        return {"type": "text", "text": self.text}


class Base64Source(Block):
    """Data in base64."""

    type: Literal["base64"]
    media_type: str
    data: str

    @property
    def url(self) -> str:
        """The data as a URL."""
        return f"data:{self.media_type};base64,{self.data}"


class UrlSource(Block):
    """Data at a URL, which the worker's server fetches."""

    type: Literal["url"]
    url: str


class TextSource(Block):
    """The text of a document."""

    type: Literal["text"]
    data: str


class ImageBlock(Block):
    """An image."""

    type: Literal["image"]
    source: Annotated[Base64Source | UrlSource, Field(discriminator="type")]

    def part(self) -> Part:
        """Return the content part."""
        return {"type": "image_url", "image_url": {"url": self.source.url}}


class DocumentBlock(Block):
    """A document: text, or a file in base64."""

    type: Literal["document"]
    source: Annotated[Base64Source | TextSource, Field(discriminator="type")]
    title: str | None = None
    context: str | None = None

    def part(self) -> Part:
        """Return the content part."""
        if isinstance(self.source, TextSource):
            lines = [line for line in (self.title, self.context, self.source.data) if line]
            return {"type": "text", "text": "\n\n".join(lines)}
        file = {"filename": self.title or "document", "file_data": self.source.url}
        return {"type": "file", "file": file}


def as_blocks(content: object) -> object:
    """Return text as a list with a block."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


_Shown = Annotated[TextBlock | ImageBlock | DocumentBlock, Field(discriminator="type")]


class ToolResultBlock(Block):
    """The result of a tool call."""

    type: Literal["tool_result"]
    tool_use_id: str
    content: Annotated[list[_Shown], BeforeValidator(as_blocks)] = Field(default_factory=list)
    is_error: bool | None = None

    def parts(self) -> list[Part]:
        """Return the content parts; the first says so if the tool failed."""
        failed: list[Part] = [{"type": "text", "text": "The tool failed:"}] if self.is_error else []
        return failed + [block.part() for block in self.content]


class ToolUseBlock(Block):
    """A tool call of an assistant."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any]


class ThinkingBlock(Block):
    """Reasoning of an assistant. It is not sent to workers."""

    type: Literal["thinking", "redacted_thinking"]


AnyBlock = Annotated[
    TextBlock | ImageBlock | DocumentBlock | ToolResultBlock | ToolUseBlock | ThinkingBlock,
    Field(discriminator="type"),
]
Content = Annotated[list[AnyBlock], BeforeValidator(as_blocks)]
System = Annotated[list[TextBlock], BeforeValidator(as_blocks)]


def content_of(parts: Sequence[Part]) -> str | tuple[Part, ...]:
    """Return parts as the content of a message: as text, if all are text."""
    if all(part["type"] == "text" for part in parts):
        return "\n\n".join(part["text"] for part in parts)
    return tuple(parts)
