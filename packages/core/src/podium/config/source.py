"""The text files of a user: why they cannot be read or written, and the lines of their keys."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from podium.errors import ConfigError

KeyPath = tuple[str | int, ...]
"""Keys from the root, and indices into arrays."""
_SETTING = re.compile(r"\b(Limits|Retry|Policy)\.([a-z_]+)")
FIRST_KEY = re.compile(r"(?:[A-Z]\w*\.|limit |timeout )?'?([a-z_]+)\b'?")
"""The key at the beginning of an error message, alone or after a class, as in `Retry.fallbacks`."""
_PART = r"(?:[A-Za-z0-9_-]+|\"(?:[^\"\\]|\\.)*\"|'[^']*')"
_KEY = rf"\s*({_PART}(?:\s*\.\s*{_PART})*)\s*"
_HEADER, _PAIR = re.compile(rf"\s*\[\[?{_KEY}\]"), re.compile(rf"{_KEY}=")
_QUOTED = re.compile(
    r"#[^\n]*|(\"{3}(?:[^\\]|\\.)*?\"{3,5}(?!\")|'{3}.*?'{3,5}(?!'))|\"(?:[^\"\\]|\\.)*\"|'[^']*'", re.DOTALL
)
"""Comments and strings; the group matches multi-line strings."""
_UNREADABLE: Mapping[type[Exception], str] = {
    FileNotFoundError: "it does not exist: check its name",
    NotADirectoryError: "a part of its path is a file: check its name",
    IsADirectoryError: "it is a folder: name a file in it",
    PermissionError: "permission denied: change its permissions, or name another file",
    UnicodeDecodeError: "it is not UTF-8 text: name a text file",
}


def in_toml(text: str) -> str:
    """Return a message with the keys of `podium.toml`, as in `[limits] cost` for `Limits.cost`."""
    return _SETTING.sub(lambda found: f"[{found[1].lower()}] {found[2]}", text)


def lines_of(text: str) -> Mapping[KeyPath, int]:
    """Return the line, from 1, of each key and table that begins a line, where it first occurs.

    The path of a table in an array of tables has its number.
    """
    # Lines inside a string are not keys.
    text = _QUOTED.sub(lambda found: "\n" * found[0].count("\n") if found[1] else found[0], text)
    lines: dict[KeyPath, int] = {}
    latest: dict[KeyPath, int] = {}
    table: KeyPath = ()
    for number, line in enumerate(text.split("\n"), 1):
        header, pair = _HEADER.match(line), _PAIR.match(line)
        path, parts = () if header else table, list(_parts(header or pair))
        for place, key in enumerate(parts, 1):
            path = (*path, key)
            lines.setdefault(path, number)
            if header and line.lstrip().startswith("[[") and place == len(parts):
                latest[path] = latest.get(path, -1) + 1
            if header and path in latest:
                path = (*path, latest[path])
                lines.setdefault(path, number)
        table = path if header else table
    return lines


def _parts(found: re.Match[str] | None) -> Iterator[str]:
    """Yield the parts of a dotted key; nothing if there is no key."""
    node: object = tomllib.loads(f"{found[1]} = 0") if found else 0
    while isinstance(node, dict):
        [(key, node)] = node.items()
        yield key


def read_text(path: Path, most: int) -> str:
    """Return the text of a file in UTF-8, or raise `OSError` or, above `most` bytes, `ValueError`."""
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"it is longer than {most:,} bytes")
    return data.decode()


def why_unreadable(error: Exception) -> str:
    """Return why a file cannot be read, and the remedy, without the name of the file."""
    told = (told for kind, told in _UNREADABLE.items() if isinstance(error, kind))
    return next(told, None) or _system_error(error)


def why_unwritable(error: Exception) -> str:
    """Return why a file cannot be written, and the remedy, without the name of the file."""
    match error:
        case FileExistsError():
            return "it already exists: name another file"
        case FileNotFoundError() | NotADirectoryError():
            return "its folder does not exist: make the folder, or name another file"
        case IsADirectoryError():
            return _UNREADABLE[IsADirectoryError]
        case PermissionError():
            return "permission denied: name a file in another folder"
        case _:
            return _system_error(error)


def _system_error(error: Exception) -> str:
    return error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)


@dataclass(frozen=True, slots=True)
class Source:
    """The file of a config, and the line of each key."""

    path: Path
    lines: Mapping[KeyPath, int]

    def line(self, where: KeyPath) -> int:
        """Return the line of a key, from 1; for a missing key the line of its table."""
        while where and where not in self.lines:
            where = where[:-1]
        return self.lines.get(where, 1)

    def told(self, where: KeyPath, what: str) -> str:
        """Return `what` after the file and the line of a key."""
        return f"{self.path}:{self.line(where)}: {what}"

    def near(self, path: str) -> Path:
        """Resolve a path of the config relative to the config's folder."""
        return self.path.parent / Path(path).expanduser()

    @contextmanager
    def at(self, *where: str) -> Iterator[None]:
        """Put file and line before the `ConfigError`s of the block: the line of the key that begins one."""
        try:
            yield
        except ConfigError as error:
            named = FIRST_KEY.match(str(error))
            key = (*where, named[1]) if named else where
            raise ConfigError(self.told(key, in_toml(str(error)))) from error


@dataclass(slots=True)
class Findings:
    """Collects the `ConfigError`s of several blocks, to report all of them at once."""

    errors: list[ConfigError] = field(default_factory=list)

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Catch and keep a `ConfigError` of the block."""
        try:
            yield
        except ConfigError as error:
            self.errors.append(error)

    def raise_found(self) -> None:
        """Raise the collected errors as one, with one line for each distinct message; nothing without any."""
        if self.errors:
            raise ConfigError("\n".join(dict.fromkeys(map(str, self.errors)))) from self.errors[0]
