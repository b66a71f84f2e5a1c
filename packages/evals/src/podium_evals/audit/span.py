"""The common form of records in exports: a span is a model call, a tool call or another step of a query.

A span stores digests of its prompt and answer, not the texts, so that spans are small.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Self

from podium.usage import Usage

Kind = Literal["call", "tool", "agent", "step"]
DIGEST_BYTES = 8
"""Length of the digest of one message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A model call, a tool call, an agent or another step of a query."""

    trace: str
    """The id of the query."""
    id: str
    """The id of the span, unique in its query."""
    parent: str = ""
    """The id of the parent span; empty for the outermost span."""
    continues: str = ""
    """In exports without query ids: the id of the call whose conversation this call continues."""
    is_local_id: bool = False
    """Whether ids are unique in their file only, as in batch files."""
    name: str = ""
    kind: Kind = "step"
    step: str = ""
    """The name of the call's step, if the export has it."""
    started: float | None = None
    """Unix time in seconds; `None` if it is unknown."""
    ended: float | None = None
    is_open: bool = False
    """Whether the export has no end of this span."""
    model: str = ""
    provider: str = ""
    base_url: str = ""
    tier: str = ""
    """The service tier, such as `batch`, whose prices differ from standard prices; empty for standard."""
    usage: Usage | None = None
    """`None` if the export has no token counts."""
    cache_writes: int = 0
    """The part of the input tokens that was written to a cache."""
    cost: float | None = None
    """The cost in the export, in USD."""
    error: str = ""
    """The type or code of the error; empty if there was no error."""
    error_text: str = ""
    """The first line of the error, without secrets."""
    finish: str = ""
    """Why the model stopped: `stop`, `length`, `content_filter`, `tool_calls`; empty if it is unknown."""
    prompt: str = ""
    """The digests of the prompt's messages in order, in hex; empty if the export has no prompts."""
    question: str = ""
    """The beginning of the user's last message, without secrets."""
    answer: str = ""
    """The digest of the answer in hex; empty if the export has no answers."""
    is_empty: bool = False
    """Whether the answer has neither text nor tool calls."""
    is_refusal: bool = False

    @property
    def seconds(self) -> float | None:
        """The duration; `None` if it is unknown, or if the end is before the start."""
        if self.started is None or self.ended is None or self.ended < self.started:
            return None
        return self.ended - self.started

    @property
    def messages(self) -> tuple[str, ...]:
        """The digests of the prompt's messages."""
        length = 2 * DIGEST_BYTES
        return tuple(self.prompt[at : at + length] for at in range(0, len(self.prompt), length))

    def merged(self, other: Self) -> Self:
        """Return this span, completed by another record of it. A record with an end takes precedence."""
        first, second = (other, self) if self.is_open else (self, other)
        facts = {}
        for each in fields(self):
            value = getattr(first, each.name)
            facts[each.name] = getattr(second, each.name) if value == each.default else value
        return type(self)(**facts | {"is_open": self.is_open and other.is_open})

    def to_json(self) -> str:
        """Return the span as JSON, without default values."""
        facts = {
            each.name: value for each in fields(self) if (value := getattr(self, each.name)) != each.default
        }
        if self.usage is not None:
            facts["usage"] = {name: count for name, count in asdict(self.usage).items() if count}
        return json.dumps(facts)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote."""
        facts: Mapping[str, Any] = json.loads(text)
        return cls(**dict(facts) | ({"usage": Usage(**facts["usage"])} if "usage" in facts else {}))
