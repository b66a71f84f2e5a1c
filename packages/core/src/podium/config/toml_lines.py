"""Tells on which line of a TOML text each key stands, which `tomllib` does not.

Reads line by line a text that `tomllib` has taken already. An entry of an array and a key of
an inline table have no line of their own: theirs is that of the key they belong to.
"""

import re
import tomllib
from collections.abc import Mapping

KeyPath = tuple[str | int, ...]
"""Keys from the root, and indices into arrays."""

_PART = r"(?:[A-Za-z0-9_-]+|\"(?:[^\"\\]|\\.)*\"|'[^']*')"
_KEY = rf"\s*({_PART}(?:\s*\.\s*{_PART})*)\s*"
_HEADER, _PAIR = re.compile(rf"\s*\[\[?{_KEY}\]"), re.compile(rf"{_KEY}=")
_QUOTED = re.compile(
    r"#[^\n]*|(\"{3}(?:[^\\]|\\.)*?\"{3,5}(?!\")|'{3}.*?'{3,5}(?!'))|\"(?:[^\"\\]|\\.)*\"|'[^']*'", re.DOTALL
)
"""Comments and strings; one of several lines is its group."""


def lines_of(text: str) -> Mapping[KeyPath, int]:
    """Return the line, from 1, of every key and table that begins one.

    One that is written in several places counts where it is first.
    """
    # What stands in a string of several lines is no key.
    text = _QUOTED.sub(lambda found: "\n" * found[0].count("\n") if found[1] else found[0], text)
    lines: dict[KeyPath, int] = {}
    table: KeyPath = ()
    for number, line in enumerate(text.split("\n"), 1):
        header, pair = _HEADER.match(line), _PAIR.match(line)
        path = () if header else table
        for key in _parts(header or pair):
            path = (*path, key)
            lines.setdefault(path, number)
        table = path if header else table
    return lines


def _parts(found: re.Match[str] | None) -> list[str]:
    """Return the parts of a dotted key; none where none was found."""
    parts = list[str]()
    node: object = tomllib.loads(f"{found[1]} = 0") if found else 0
    while isinstance(node, dict):
        [(key, node)] = node.items()
        parts.append(key)
    return parts
