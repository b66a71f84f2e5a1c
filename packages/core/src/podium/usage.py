"""Tokens, counted. Pure data, which everything that costs refers to."""

from collections.abc import Iterable
from dataclasses import dataclass, fields


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
