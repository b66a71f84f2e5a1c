"""Finds the line of each key of a TOML text.

Without it an error in `podium.toml` would name the key and not the line, as in `podium.toml:7: …`.
`tomllib` and pydantic know no lines. `tomlkit`, which keeps comments and layout, has no positions either,
and takes 60 ms to import.

It reads line by line a text that `tomllib` has accepted. An entry of an array and a key of an inline
table have no line of their own: they have the line of the key they belong to.
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
"""Comments and strings; the group is a string of several lines."""


def lines_of(text: str) -> Mapping[KeyPath, int]:
    """Return the line, from 1, of each key and table that stands at the beginning of a line.

    A table that is written in several places has the line of the first.
    """
    # Lines within a string hold no keys.
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
    """Return the parts of a dotted key; none when there is no key."""
    parts = list[str]()
    node: object = tomllib.loads(f"{found[1]} = 0") if found else 0
    while isinstance(node, dict):
        [(key, node)] = node.items()
        parts.append(key)
    return parts
