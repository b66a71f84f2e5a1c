"""Control characters: C0 without tab and line feed, DEL, and C1. A terminal obeys them.

Marks of the direction of writing are none: texts in Arabic and Hebrew need them.
"""

import re

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """Return text with U+FFFD in place of each control character; lines end in line feeds alone."""
    if text.isascii() and text.replace("\n", "").isprintable():  # most texts; much faster
        return text
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def escaped(text: str) -> str:
    """Return JSON with an escape in place of each control character."""
    if text.isascii() and text.isprintable():  # most records; much faster
        return text
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
