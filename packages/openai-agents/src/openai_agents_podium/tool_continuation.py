"""Where an item holds what the turn after its tool calls continues from.

The SDK keeps what a model adds to its items as `provider_data`: in the run, in sessions and in
saved states. It takes it out of what is sent to OpenAI.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

PODIUM: Final = "podium"
_CONTINUATION: Final = "podium_continuation"


def put_continuation(continuation: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the `provider_data` of the first call in an answer."""
    return {} if continuation is None else {_CONTINUATION: dict(continuation)}


def find_continuation(items: str | Iterable[Any]) -> object:
    """Return what the latest call of a conversation holds; `None` where it holds nothing."""
    if isinstance(items, str):
        return None
    for item in reversed(list(items)):
        data = item.get("provider_data") if isinstance(item, Mapping) else None
        if isinstance(data, Mapping) and _CONTINUATION in data:
            return data[_CONTINUATION]
    return None
