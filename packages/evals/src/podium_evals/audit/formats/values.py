"""Reads values that are common to several formats: times, counts, texts in nested objects."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from podium.usage import MAX_COUNT, Usage

_MILLISECONDS = 1e11
"""A larger Unix time is read as milliseconds: as seconds, it would be after the year 5000."""


def mapping(value: object) -> dict[str, Any]:
    """Return a JSON object unchanged; an empty object for any other value."""
    return value if isinstance(value, dict) else {}


def text(value: object) -> str:
    """Return a text unchanged; an empty text for any other value."""
    return value if isinstance(value, str) else ""


def first_text(of: Mapping[str, Any], *keys: str) -> str:
    """Return the first text that is not empty; an empty text if there is none."""
    return next((found for key in keys if (found := text(of.get(key)))), "")


def number(value: object) -> float | None:
    """Return a finite number of 0 or more. Texts are parsed; `None` for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if 0 <= found < 1e21 else None  # false for nan


def count(value: object) -> int | None:
    """Return a count of tokens. Texts are parsed; `None` for any other value."""
    found = number(value)
    return None if found is None or found >= MAX_COUNT else int(found)


def first_count(of: Mapping[str, Any], *keys: str) -> int | None:
    """Return the first count of tokens among some fields of an object."""
    return next((found for key in keys if (found := count(of.get(key))) is not None), None)


def moment(value: object) -> float | None:
    """Return a Unix time in seconds. The value is ISO 8601 (default: UTC), seconds or milliseconds."""
    if isinstance(value, str) and not value.replace(".", "", 1).isdigit():
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            return None
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    found = number(value)
    if not found:
        return None
    return found / 1000 if found > _MILLISECONDS else found


def usage_of(
    read: int | None, written: int | None, cached: int | None, reasoning: int | None
) -> Usage | None:
    """Return the usage of a call; `None` if neither input nor output tokens are known.

    Anthropic's own counts leave cached tokens out of the input. If there are more cached tokens than input
    tokens, they are added to the input.
    """
    if read is None and written is None:
        return None
    read, written, cached, reasoning = read or 0, written or 0, cached or 0, reasoning or 0
    if cached > read:
        read += cached
    return Usage(read, max(written, reasoning), cached, reasoning)


def tier_of(said: object) -> str:
    """Return a service tier; empty for the standard tier."""
    told = text(said)
    return "" if told in ("default", "standard", "auto", "scale") else told
