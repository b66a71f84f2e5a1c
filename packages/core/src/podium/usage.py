"""Token counts, and estimates of token counts from text."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TypeGuard


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one or more calls."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """The part of `input_tokens` served from the provider's prompt cache."""
    reasoning_tokens: int = 0
    """The part of `output_tokens` spent on hidden reasoning."""
    orchestration_input_tokens: int = 0
    """Tokens that a hosted conductor's own workers read, in addition to `input_tokens`."""
    orchestration_output_tokens: int = 0
    """Tokens that a hosted conductor's own workers wrote, in addition to `output_tokens`."""
    orchestration_cached_tokens: int = 0
    """The part of `orchestration_input_tokens` served from a prompt cache."""
    estimated: bool = False
    """Whether Podium estimated any of the counts from text, because the server did not report them."""

    @property
    def total_tokens(self) -> int:
        """All tokens read and written."""
        return self.total_input_tokens + self.total_output_tokens

    @property
    def total_input_tokens(self) -> int:
        """All tokens read, including those of a hosted conductor's own workers."""
        return self.input_tokens + self.orchestration_input_tokens

    @property
    def total_output_tokens(self) -> int:
        """All tokens written, including those of a hosted conductor's own workers."""
        return self.output_tokens + self.orchestration_output_tokens

    @property
    def total_cached_tokens(self) -> int:
        """The part of `total_input_tokens` served from a prompt cache."""
        return self.cached_tokens + self.orchestration_cached_tokens

    def __add__(self, other: "Usage") -> "Usage":
        if other == Usage():
            return self
        counts = {name: getattr(self, name) + getattr(other, name) for name in _COUNTS}
        return Usage(**counts, estimated=self.estimated or other.estimated)

    def beyond(self, seen: "Usage") -> "Usage":
        """Return these counts minus the counts of `seen`; no count falls below 0."""
        left = {name: max(0, getattr(self, name) - getattr(seen, name)) for name in _COUNTS}
        return Usage(**left, estimated=self.estimated)

    @classmethod
    def total(cls, usages: Iterable["Usage"]) -> "Usage":
        """Add up any number of usages."""
        return sum(usages, cls())


_COUNTS = tuple(f.name for f in fields(Usage) if f.name != "estimated")
MAX_COUNT = 2**53
"""The lowest count that is invalid: counts this large do not fit a database column."""
_WORDS = re.compile(r"[A-Za-z\s]+", re.ASCII)


def estimate_tokens(text: str) -> int:
    """Return an estimate of the number of tokens of a text.

    Four ASCII letters or spaces count as one token, five other ASCII characters as four tokens, and
    each UTF-8 byte of other characters as one token. A byte-level tokenizer makes at most one token
    per byte, so the estimate is never too low for scripts other than Latin.
    """
    rest = _WORDS.sub("", text)
    ascii_rest = len(rest) if rest.isascii() else len(rest.encode("ascii", "ignore"))
    other_bytes = len(rest.encode("utf-8", "surrogatepass")) - ascii_rest
    return -(-(5 * (len(text) - len(rest)) + 16 * ascii_rest + 20 * other_bytes) // 20)


def is_well_formed(usage: object) -> TypeGuard[Usage]:
    """Return whether `usage` is a `Usage` whose counts are integers from 0 to `MAX_COUNT` - 1."""
    if not isinstance(usage, Usage):
        return False
    counts: list[object] = [getattr(usage, name) for name in _COUNTS]
    return all(type(count) is int and 0 <= count < MAX_COUNT for count in counts)
