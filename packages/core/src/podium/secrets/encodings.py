"""The encodings in which a secret value may appear."""

import json
from base64 import b64encode
from collections.abc import Iterator
from html import escape
from urllib.parse import quote, quote_plus

SHORTEST = 8
"""Minimum length of a secret, in characters. Redacting shorter values would remove ordinary words."""


def forms_of(value: str) -> tuple[str, ...]:
    """Return the encodings of `value`, longest first."""
    forms = {
        value,
        *_in_json(value, levels=2),
        quote(value),
        quote(value, safe=""),
        quote_plus(value),
        escape(value),
        *_in_base64(value.encode("utf-8", "surrogatepass")),
    }
    return tuple(sorted(forms, key=len, reverse=True))


def _in_json(value: str, levels: int) -> Iterator[str]:
    """Yield the value as a part of a text in JSON, and of JSON in this text, to a depth."""
    for is_ascii in (True, False):
        inner = json.dumps(value, ensure_ascii=is_ascii)[1:-1]
        yield inner
        if levels > 1:
            yield from _in_json(inner, levels - 1)


def _in_base64(value: bytes) -> Iterator[str]:
    """Yield the base64 encodings of `value` for each alignment in the encoded bytes."""
    for before in range(3):
        whole = b64encode(bytes(before) + value).decode()
        shared = -(-before * 4 // 3)  # letters that also encode the bytes before it
        end = len(whole) - (4 - (before + len(value)) % 3 if (before + len(value)) % 3 else 0)
        core = whole[shared:end]
        if len(core) >= SHORTEST:
            yield core
            yield core.replace("+", "-").replace("/", "_")
