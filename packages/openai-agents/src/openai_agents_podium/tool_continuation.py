"""Store the continuation of a run in the item of its first tool call.

The SDK keeps `provider_data` of items in the run, in sessions and in saved states. The SDK removes
`provider_data` from requests to OpenAI.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

PODIUM: Final = "podium"
_CONTINUATION: Final = "podium_continuation"


def put_continuation(continuation: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the `provider_data` of the first tool call in an answer."""
    return {} if continuation is None else {_CONTINUATION: dict(continuation)}


def find_continuation(items: str | Iterable[Any]) -> object:
    """Return the continuation in the tool calls after the model's last text; `None` if there is none."""
    if isinstance(items, str):
        return None
    for item in reversed(list(items)):
        data = item.get("provider_data") if isinstance(item, Mapping) else None
        if isinstance(data, Mapping) and _CONTINUATION in data:
            return data[_CONTINUATION]
        if isinstance(item, Mapping) and item.get("role") == "assistant":
            return None
    return None
