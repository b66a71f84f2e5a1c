"""The texts in which a secret value turns up."""

import json
from base64 import b64encode
from collections.abc import Iterator
from html import escape
from urllib.parse import quote, quote_plus

SHORTEST = 8
"""Shorter values than this many characters are no secrets, and would blot out plain words."""


def forms_of(value: str) -> tuple[str, ...]:
    """Return the texts that give `value` away, the longest first."""
    forms = {
        value,
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        quote(value, safe=""),
        quote_plus(value),
        escape(value),
        *_in_base64(value.encode("utf-8", "surrogatepass")),
    }
    return tuple(sorted(forms, key=len, reverse=True))


def _in_base64(value: bytes) -> Iterator[str]:
    """Yield what base64 makes of `value`, wherever in the encoded bytes it begins."""
    for before in range(3):
        whole = b64encode(bytes(before) + value).decode()
        shared = -(-before * 4 // 3)  # letters that say something of what stands before it as well
        end = len(whole) - (4 - (before + len(value)) % 3 if (before + len(value)) % 3 else 0)
        core = whole[shared:end]
        if len(core) >= SHORTEST:
            yield core
            yield core.replace("+", "-").replace("/", "_")
