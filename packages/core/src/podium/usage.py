"""Token counts, and estimates of them from text. Everything that has a cost refers to them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TypeGuard


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call or of many. Parts of a whole are counted in the whole, once."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """The part of `input_tokens` served from the provider's prompt cache."""
    reasoning_tokens: int = 0
    """The part of `output_tokens` spent on reasoning nobody is shown."""
    orchestration_input_tokens: int = 0
    """What a hosted conductor's own workers read, on top of `input_tokens`."""
    orchestration_output_tokens: int = 0
    """What a hosted conductor's own workers wrote, on top of `output_tokens`."""
    orchestration_cached_tokens: int = 0
    """The part of `orchestration_input_tokens` served from a prompt cache."""
    estimated: bool = False
    """Whether any of it was counted by us from text instead of reported by the server."""

    @property
    def total_tokens(self) -> int:
        """All tokens read and written."""
        return self.total_input_tokens + self.total_output_tokens

    @property
    def total_input_tokens(self) -> int:
        """All tokens read, those of a hosted conductor's own workers included."""
        return self.input_tokens + self.orchestration_input_tokens

    @property
    def total_output_tokens(self) -> int:
        """All tokens written, those of a hosted conductor's own workers included."""
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

    def __sub__(self, other: "Usage") -> "Usage":
        counts = {name: getattr(self, name) - getattr(other, name) for name in _COUNTS}
        return Usage(**counts, estimated=self.estimated)

    def beyond(self, seen: "Usage") -> "Usage":
        """Return what of these tokens is not in `seen`; no count falls below 0."""
        left = {name: max(0, getattr(self, name) - getattr(seen, name)) for name in _COUNTS}
        return Usage(**left, estimated=self.estimated)

    @classmethod
    def total(cls, usages: Iterable["Usage"]) -> "Usage":
        """Add up any number of usages."""
        return sum(usages, cls())


_COUNTS = tuple(f.name for f in fields(Usage) if f.name != "estimated")
MAX_COUNT = 2**53
"""Counts from here on are impossible, and too large for a database column."""
_LONGEST_TOKEN = 32
"""Characters that a token has at most on average, spaces aside: generous, since it is 4 in English."""
_SLACK = 256
"""Characters by which a text may exceed that, as rules and drawings of a few long tokens do."""
_WORDS = re.compile(r"[A-Za-z\s]+", re.ASCII)


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text has.

    Four ASCII letters or spaces count as one token, five other ASCII characters as four, and each
    UTF-8 byte of any other character as one. A byte-level tokenizer makes at most one token of a
    byte, so scripts other than Latin are never undercounted.
    """
    rest = _WORDS.sub("", text)
    ascii_rest = len(rest) if rest.isascii() else len(rest.encode("ascii", "ignore"))
    other_bytes = len(rest.encode("utf-8", "surrogatepass")) - ascii_rest
    return -(-(5 * (len(text) - len(rest)) + 16 * ascii_rest + 20 * other_bytes) // 20)


def is_well_formed(usage: object) -> TypeGuard[Usage]:
    """Say whether it is a `Usage`, and its counts are whole numbers of 0 or more."""
    if not isinstance(usage, Usage):
        return False
    counts: list[object] = [getattr(usage, name) for name in _COUNTS]
    return all(type(count) is int and 0 <= count < MAX_COUNT for count in counts)


def is_plausible(usage: object, read: Iterable[str], written: str) -> bool:
    """Say whether a reported usage can be that of a call which read and wrote these texts.

    It is not where a count is missing, negative or not a whole number, where a part is larger than
    its whole, where nothing was read, or where too few tokens were read or written for the text.

    Args:
        usage: what was reported, of any type.
        read: the texts that were sent.
        written: the text of the answer, with the tool calls in it.
    """
    if not is_well_formed(usage):
        return False
    parts_fit = (
        usage.cached_tokens <= usage.input_tokens
        and usage.reasoning_tokens <= usage.output_tokens
        and usage.orchestration_cached_tokens <= usage.orchestration_input_tokens
    )
    if not parts_fit or not usage.total_input_tokens or (written.strip() and not usage.total_output_tokens):
        return False
    return _can_have((written,), usage.total_output_tokens) and _can_have(read, usage.total_input_tokens)


def _can_have(texts: Iterable[str], tokens: int) -> bool:
    """Say whether texts can have as few tokens as this."""
    return sum(len(text) - text.count(" ") for text in texts) <= _LONGEST_TOKEN * tokens + _SLACK


def text_usage(reported: Usage | None, read: str, written: str) -> Usage:
    """Return the usage that was reported for a call, or an estimate where it cannot be right.

    Args:
        reported: what was reported; `None` where nothing was.
        read: the text that was read.
        written: the text that was written.
    """
    if reported is not None and is_plausible(reported, (read,), written):
        return reported
    return Usage(estimate_tokens(read), estimate_tokens(written), estimated=True)
