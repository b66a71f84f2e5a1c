"""Reads and writes the JSON of lines: no line is misread, and none is changed."""

import json
import re
from collections.abc import Sequence
from typing import Any

from podium_server.http import BadRequest

_HALF = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair: JSON can have it as a code, and UTF-8 cannot write it."""


def read_object(text: str) -> dict[str, Any]:
    """Return a line as JSON."""
    try:
        given = json.loads(text, object_pairs_hook=_fields)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the line is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise BadRequest("the line is not a JSON object")
    return given


def _fields(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    given = dict(pairs)
    if len(given) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise BadRequest(f"the line has the field {twice!r:.80} twice in one object: remove one of them")
    return given


def json_text(given: object) -> str:
    """Return a value as JSON that UTF-8 can write; half of a surrogate pair is written as its code."""
    text = json.dumps(given, ensure_ascii=False)
    return json.dumps(given) if _HALF.search(text) else text


def json_bytes(given: object) -> bytes:
    """Return a line as JSON."""
    text = json.dumps(given, ensure_ascii=False)
    if half := _HALF.search(text):
        told = f"the line has \\u{ord(half[0]):04x}, which is only half of a character"
        raise BadRequest(f"{told}: write both halves, or the character itself")
    return text.encode()
