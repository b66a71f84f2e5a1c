"""Replaces control characters: C0 without tab and line feed, DEL, and C1. Terminals obey such characters.

Marks of the writing direction stay, because texts in Arabic and Hebrew need them.
"""

import re

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """Replace each control character with U+FFFD, and each CRLF with a line feed."""
    if text.isascii() and text.replace("\n", "").isprintable():  # most texts; much faster
        return text
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def escaped(text: str) -> str:
    """Replace each control character in JSON with its escape."""
    if text.isascii() and text.isprintable():  # most records; much faster
        return text
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
