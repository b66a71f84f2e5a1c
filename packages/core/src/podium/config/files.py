"""Reads text files, finds the lines of keys in them, and names settings as their keys."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

_SETTING = re.compile(r"\b(Limits|Retry|Policy)\.([a-z_]+)")


def in_toml(text: str) -> str:
    """Return a message with the keys of `podium.toml`, as in `[limits] cost` for `Limits.cost`."""
    return _SETTING.sub(lambda found: f"[{found[1].lower()}] {found[2]}", text)


KeyPath = tuple[str | int, ...]
"""Keys from the root, and indices into arrays."""

_PART = r"(?:[A-Za-z0-9_-]+|\"(?:[^\"\\]|\\.)*\"|'[^']*')"
_KEY = rf"\s*({_PART}(?:\s*\.\s*{_PART})*)\s*"
_HEADER, _PAIR = re.compile(rf"\s*\[\[?{_KEY}\]"), re.compile(rf"{_KEY}=")
_QUOTED = re.compile(
    r"#[^\n]*|(\"{3}(?:[^\\]|\\.)*?\"{3,5}(?!\")|'{3}.*?'{3,5}(?!'))|\"(?:[^\"\\]|\\.)*\"|'[^']*'", re.DOTALL
)
"""Comments and strings; the group matches multi-line strings."""


def lines_of(text: str) -> Mapping[KeyPath, int]:
    """Return the line, from 1, of each key and table at the beginning of a line.

    A table that occurs several times has the line of its first occurrence.
    """
    # Lines inside a string are not keys.
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
    """Return the parts of a dotted key; an empty list if there is no key."""
    parts = list[str]()
    node: object = tomllib.loads(f"{found[1]} = 0") if found else 0
    while isinstance(node, dict):
        [(key, node)] = node.items()
        parts.append(key)
    return parts


_UNREADABLE: Mapping[type[Exception], str] = {
    FileNotFoundError: "it does not exist: check its name",
    NotADirectoryError: "a part of its path is a file: check its name",
    IsADirectoryError: "it is a folder: name a file in it",
    PermissionError: "permission denied: change its permissions, or name another file",
    UnicodeDecodeError: "it is not UTF-8 text: name a text file",
}


def read_text(path: Path, most: int) -> str:
    """Return the text of a file in UTF-8.

    Args:
        path: the file.
        most: the maximum size in bytes.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is too large, is not UTF-8 (a `UnicodeDecodeError`), or `path` is invalid.
    """
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"it is longer than {most:,} bytes")
    return data.decode()


def why_unreadable(error: Exception) -> str:
    """Return why a file cannot be read, and the remedy, without the name of the file."""
    for kind, told in _UNREADABLE.items():
        if isinstance(error, kind):
            return told
    return _system_error(error)


def why_unwritable(error: Exception) -> str:
    """Return why a file cannot be written, and the remedy, without the name of the file."""
    match error:
        case FileNotFoundError() | NotADirectoryError():
            return "its folder does not exist: make the folder, or name another file"
        case IsADirectoryError():
            return "it is a folder: name a file in it"
        case PermissionError():
            return "permission denied: name a file in another folder"
        case _:
            return _system_error(error)


def _system_error(error: Exception) -> str:
    return error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
