"""Amounts of calls, tokens and cost."""

from dataclasses import dataclass
from typing import Self, TypeGuard

from podium.usage import Usage

MAX_COST = 1e9
"""The lowest cost or price, in USD, that is invalid."""


def is_cost(value: object) -> TypeGuard[float]:
    """Return whether `value` is a valid cost in USD: a number from 0 to below `MAX_COST`."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < MAX_COST


@dataclass(frozen=True, slots=True)
class Spend:
    """The spending of one or more calls, actual or maximum."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0
    """In USD; `None` when unknown."""

    @classmethod
    def of(cls, usage: Usage, cost: float | None, *, calls: int = 1) -> Self:
        """Return the spending of a call, including a hosted conductor's own tokens."""
        read = usage.input_tokens + usage.orchestration_input_tokens
        return cls(calls, read, usage.output_tokens + usage.orchestration_output_tokens, cost)


NOTHING = Spend()


@dataclass(frozen=True, slots=True)
class Remaining:
    """What a run may still spend. `None` means no limit."""

    steps: int | None = None
    calls: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    """In USD."""

    @property
    def rounded(self) -> "Remaining":
        """The amounts rounded down to one significant digit."""
        return Remaining(
            steps=None if self.steps is None else _rounded(self.steps),
            calls=None if self.calls is None else _rounded(self.calls),
            input_tokens=None if self.input_tokens is None else _rounded(self.input_tokens),
            output_tokens=None if self.output_tokens is None else _rounded(self.output_tokens),
            cost=None if self.cost is None else _rounded(round(self.cost * _BILLION)) / _BILLION,
        )


_BILLION = 1_000_000_000


def _rounded(count: int) -> int:
    digits = str(count)
    return int(digits[0].ljust(len(digits), "0"))
