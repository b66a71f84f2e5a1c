"""Formats numbers for tables; rounding never favours an arm."""

from math import ceil, floor

from podium_evals.statistics import Interval

_EXACT = 1e-9
"""The rounding error of binary fractions, which is ignored."""
UNKNOWN = "—"


def score(value: float | None) -> str:
    """Format a score with three decimals, rounded down."""
    return UNKNOWN if value is None else _short(f"{_down(value):.3f}")


def gain(value: float) -> str:
    """Format a difference to the base with its sign, rounded down."""
    return _signed(_down(value))


def interval(of: Interval) -> str:
    """Format the ends of an interval with their signs, rounded outwards."""
    return f"{_signed(_down(of.low))} {_signed(_up(of.high))}"


def count(value: float | None) -> str:
    """Format a mean number of calls, rounded up."""
    return UNKNOWN if value is None else f"{ceil(value * 100 - _EXACT) / 100:.2f}"


def whole(value: float | None) -> str:
    """Format a mean number of tokens, rounded up."""
    return UNKNOWN if value is None else f"{ceil(value - _EXACT):,}"


def per_thousand(cost: float | None) -> str:
    """Format the cost of a thousand questions in USD, rounded up."""
    return UNKNOWN if cost is None else f"{ceil(cost * 1000 * 100 - _EXACT) / 100:,.2f}"


def seconds(value: float | None) -> str:
    """Format seconds, rounded up."""
    return UNKNOWN if value is None else f"{ceil(value * 10 - _EXACT) / 10:,.1f}"


def percent(share: float | None) -> str:
    """Format a share in per cent, rounded up."""
    return UNKNOWN if share is None else f"{ceil(share * 100 - _EXACT)}"


def _down(value: float) -> float:
    return floor(value * 1000 + _EXACT) / 1000


def _up(value: float) -> float:
    return ceil(value * 1000 - _EXACT) / 1000


def _signed(value: float) -> str:
    return _short(f"{value + 0.0:+.3f}")


def _short(text: str) -> str:
    """Remove the zero before the decimal point."""
    return text.replace("0.", ".", 1) if text.lstrip("+-").startswith("0.") else text
