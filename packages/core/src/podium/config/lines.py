"""Tells on which line of a TOML text each key stands, which `tomllib` does not.

Reads text that `tomllib` has taken already, and so meets nothing that is not TOML. It
knows no key by name.
"""

import re
import tomllib
from collections.abc import Mapping

KeyPath = tuple[str | int, ...]
"""Keys from the root, and indices into arrays."""

_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*+")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_BASIC = re.compile(r'"(?:[^"\\]|\\.)*+"')
_LITERAL = re.compile(r"'[^']*'")
_LONG = re.compile(r'"""(?:[^\\]|\\.)*?"{3,5}(?!")' + r"|'''.*?'{3,5}(?!')", re.DOTALL)
_ATOM = re.compile(r"[^,\]}#\n]+")


def lines_of(text: str) -> Mapping[KeyPath, int]:
    """Return the line, from 1, of every key, table and array entry of a TOML text.

    A table written in several places counts where it is first named.
    """
    return _Scanner(text).scan()


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text.replace("\r\n", "\n")
        self._at = 0
        self._counted, self._line = 0, 1
        self._lines: dict[KeyPath, int] = {}
        self._arrays: dict[KeyPath, int] = {}

    def scan(self) -> Mapping[KeyPath, int]:
        table: KeyPath = ()
        while self._skip() < len(self._text):
            if self._text.startswith("[", self._at):
                table = self._header()
            else:
                self._pair(table)
        return self._lines

    def _header(self) -> KeyPath:
        is_array = self._text.startswith("[[", self._at)
        line = self._here()
        self._at += 2 if is_array else 1
        keys = self._keys()
        self._skip()
        self._at += 2 if is_array else 1
        path: KeyPath = ()
        for depth, key in enumerate(keys, 1):
            path = (*path, key)
            self._lines.setdefault(path, line)
            if is_array and depth == len(keys):
                self._arrays[path] = self._arrays.get(path, -1) + 1
            if path in self._arrays:
                path = (*path, self._arrays[path])
                self._lines.setdefault(path, line)
        return path

    def _pair(self, table: KeyPath) -> None:
        line, path = self._here(), table
        for key in self._keys():
            path = (*path, key)
            self._lines.setdefault(path, line)
        self._skip()
        self._at += 1  # the equals sign
        self._value(path)

    def _keys(self) -> list[str]:
        keys = [self._key()]
        while self._text.startswith(".", self._skip()):
            self._at += 1
            keys.append(self._key())
        return keys

    def _key(self) -> str:
        self._skip()
        for pattern in (_BASIC, _LITERAL, _BARE):
            if found := pattern.match(self._text, self._at):
                self._at = found.end()
                return found[0] if pattern is _BARE else str(tomllib.loads(f"k = {found[0]}")["k"])
        raise AssertionError("tomllib took a key that is none")

    def _value(self, path: KeyPath) -> None:
        self._skip()
        opening = self._text[self._at : self._at + 1]
        if opening == "[":
            self._array(path)
        elif opening == "{":
            self._inline_table(path)
        else:
            self._at = self._end_of_scalar()

    def _array(self, path: KeyPath) -> None:
        self._at += 1
        index = 0
        while not self._text.startswith("]", self._skip()):
            self._lines.setdefault((*path, index), self._here())
            self._value((*path, index))
            self._past_comma()
            index += 1
        self._at += 1

    def _inline_table(self, path: KeyPath) -> None:
        self._at += 1
        while not self._text.startswith("}", self._skip()):
            self._pair(path)
            self._past_comma()
        self._at += 1

    def _past_comma(self) -> None:
        if self._text.startswith(",", self._skip()):
            self._at += 1

    def _end_of_scalar(self) -> int:
        for pattern in (_LONG, _BASIC, _LITERAL, _ATOM):
            if found := pattern.match(self._text, self._at):
                return found.end()
        raise AssertionError("tomllib took a value that is none")

    def _skip(self) -> int:
        """Pass over blanks, line ends and comments, and return where that led."""
        found = _BLANK.match(self._text, self._at)
        assert found is not None
        self._at = found.end()
        return self._at

    def _here(self) -> int:
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line
