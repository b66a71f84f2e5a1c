"""Reads the messages of JSON-RPC that the SDKs for MCP and A2A answer."""

import json
from collections.abc import Mapping
from typing import Any

from podium_server.http import BadRequest


def read_message(raw: bytes) -> Mapping[str, Any]:
    """Return the message of a request; empty if it is not one message, which the SDK refuses.

    Raises:
        BadRequest: the message is nested too deeply, which the SDKs do not expect.
    """
    try:
        message = json.loads(raw)
    except ValueError:
        return {}
    except RecursionError as error:
        raise BadRequest("the body is nested too deeply") from error
    return message if isinstance(message, dict) else {}


def part_of(message: Mapping[str, Any], *path: str) -> Any:
    """Return the value at a path of keys; `None` if there is none."""
    value: Any = message
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
