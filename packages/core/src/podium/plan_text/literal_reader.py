r"""Reads one literal (list, object, string, number, word) out of text a model wrote.

Takes what JSON, Python and people write: single, double, triple and typographic quotes,
escapes, raw control characters in strings, trailing commas, tuples, comments, words
without quotes, full-width commas and colons. A quote after which nothing stands that may
follow a string there is part of the string, so `'don't'` reads as meant. Nothing is
evaluated, and nothing is known of plans.

Work is bounded: nesting to `MAX_DEPTH`, and `MAX_EFFORT` tokens over all attempts on one
text. Texts are crossed by possessive patterns, which never back up; a quote once seen to
be unclosed is not searched for again, and an attempt pays for the text it crossed.
Together that keeps time linear in the text.
"""

import re
from typing import Literal, NamedTuple, NoReturn

from podium.errors import PlanSyntaxError

MAX_DEPTH = 8
"""Deepest nesting a plan's text may have; the deepest plan needs four."""
MAX_EFFORT = 8_000
"""Tokens read, over all attempts on one text, before it is called too tangled."""
_CHARS_PER_TOKEN = 64
"""Characters whose crossing counts as one more token."""


class Word(str):
    """A word that stood without quotes."""

    __slots__ = ()


class Node(NamedTuple):
    """A literal and where it starts, in characters of the whole text."""

    start: int
    value: "int | str | list[Node] | dict[str, Node]"


class Unfinished(Exception):
    """The text ended inside a literal, which had been read up to `reached`."""

    def __init__(self, reached: int) -> None:
        super().__init__(reached)
        self.reached = reached


_CLOSERS = dict.fromkeys("“”„", '“”"') | dict.fromkeys("‘’‚", "‘’'")
_CLOSERS |= {'"': '"', "'": "'", "«": "»", "「": "」"}
_QUOTES = "".join(_CLOSERS) + "»」"
_BRACKETS = {"[": "]", "(": ")"}

_BLANK = r"[\s\ufeff\u200b]*+"
_COMMENT = r"(?:\#|//)[^\n\r]*+"
_COMMA = "[,，、]"
_SPACE = re.compile(rf"(?>(?:[\s\ufeff\u200b]++|{_COMMENT})*)")
_GAP = re.compile(rf"{_SPACE.pattern}(?>(?P<comma>{_COMMA}{_SPACE.pattern})?)")
_COLON = re.compile(rf"{_SPACE.pattern}[:：]{_SPACE.pattern}")
_WORD = re.compile(rf"[^\s,，、:：=\[\](){{}}{_QUOTES}]++")
_INTEGER = re.compile(r"[+-]?[0-9]{1,9}")

_BARE_NEXT = rf"(?:[+-]?[0-9]{{1,9}}+|(?i:all|none|null|true|false)){_BLANK}[,，、\])]"
_KEY_NEXT = rf"[{_QUOTES}][^{_QUOTES}\n]{{1,80}}+[{_QUOTES}]{_BLANK}[:：]"
_BARE_KEY_NEXT = rf"[A-Za-z_]\w{{0,40}}+{_BLANK}[:：]"
_ENTRY_NEXT = rf"[\])}}]|[{_QUOTES}\[({{]|{_BARE_NEXT}|{_COMMENT}"
_FOLLOWS = {
    "]": rf"{_BLANK}(?:\]|{_COMMA}{_BLANK}(?:{_ENTRY_NEXT}))",
    ")": rf"{_BLANK}(?:\)|{_COMMA}{_BLANK}(?:{_ENTRY_NEXT}))",
    "}": rf"{_BLANK}(?:\}}|{_KEY_NEXT}|{_COMMA}{_BLANK}(?:\}}|{_KEY_NEXT}|{_BARE_KEY_NEXT}|{_COMMENT}))",
    ":": "",
}
"""What stands after a string, by the bracket that closes what it is in; a colon for keys.

A key follows without a comma too, so that a comma left out is seen where it is missing.
"""
_JOINED = rf"|{_BLANK}{_COMMENT}|[ \t\r]*+\n\s*+[{_QUOTES}]"
_CLOSES = {end: re.compile(follows + _JOINED * (end != ":")) for end, follows in _FOLLOWS.items()}
_PLAIN = {
    (mark, end): re.compile(rf"{mark}([^{mark}\\]*+(?>(?:\\[\s\S][^{mark}\\]*+)*)){mark}(?={follows})")
    for end, follows in _FOLLOWS.items()
    for mark in "\"'"
}
"""Strings as a machine would write them, which are nearly all: read in one match."""
_PLAIN_KEY = re.compile(rf'"([^"\\]{{1,40}}+)"{_COLON.pattern}')
_TO_CLOSER = {
    closers: re.compile(rf"[^{closers}\\]*+(?>(?:\\[\s\S][^{closers}\\]*+)*)[{closers}]")
    for closers in _CLOSERS.values()
}
_TO_TRIPLE = {
    mark * 3: re.compile(rf"[^{mark}\\]*+(?>(?:(?:\\[\s\S]|{mark}(?!{mark * 2}))[^{mark}\\]*+)*){mark * 3}")
    for mark in "\"'"
}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|U([0-9a-fA-F]{8})|([\s\S]))")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0", "\n": ""}
_ESCAPED |= {mark: mark for mark in _QUOTES + "\\/`"}


class LiteralReader:
    """Reads literals out of one text that may still be arriving.

    `effort` and positions carry over from one text to its continuation, so that a text
    is judged alike however it was cut into pieces.
    """

    def __init__(self) -> None:
        self.text = ""
        self.offset = 0
        """Characters of the whole text that came before `text`."""
        self.effort = 0
        self._unclosed: dict[str, int] = {}
        """For each quote, the first position after which it is known not to close."""

    def load(self, text: str, offset: int) -> None:
        """Take `text`, which starts `offset` characters into the whole."""
        self.text = text
        self.offset = offset
        self._unclosed.clear()

    def read(self, start: int) -> tuple[Node, int]:
        """Read the literal at `start` and return it with the position after it.

        Raises:
            Unfinished: the text ends first.
            PlanSyntaxError: what stands there is no literal, or too much of one.
        """
        return self._value(start, 0, "]")

    def spend(self, position: int, crossed: int = 0) -> None:
        """Book one unit of work, and more for the characters that were crossed.

        Raises:
            PlanSyntaxError: the text has taken all it may.
        """
        self.effort += 1 + crossed // _CHARS_PER_TOKEN
        if self.effort > MAX_EFFORT:
            message = "the text holds too many brackets and quotes to be a plan: write the plan alone"
            self.fail("too_tangled", position, message)

    def fail(
        self,
        code: Literal["bad_value", "duplicate_key", "too_deep", "too_tangled"],
        position: int,
        message: str,
    ) -> NoReturn:
        """Raise the error of something at `position` of the text at hand."""
        raise PlanSyntaxError(code, message, position=self.offset + position)

    def _space(self, position: int) -> int:
        match = _SPACE.match(self.text, position)
        assert match is not None
        return match.end()

    def _char(self, position: int) -> str:
        if position >= len(self.text):
            raise Unfinished(position)
        return self.text[position]

    def _value(self, start: int, depth: int, end: str) -> tuple[Node, int]:
        """Read what stands at `start` inside of brackets that `end` closes."""
        self.spend(start)
        char = self._char(start)
        if char in _CLOSERS:
            return self._string(start, end)
        if char not in "[({":
            return self._word(start)
        if depth == MAX_DEPTH:
            self.fail("too_deep", start, f"brackets nest deeper than {MAX_DEPTH}: a plan needs four levels")
        return self._object(start, depth + 1) if char == "{" else self._list(start, depth + 1)

    def _list(self, start: int, depth: int) -> tuple[Node, int]:
        closer, items, comma = _BRACKETS[self.text[start]], list[Node](), False
        position = self._space(start + 1)
        while self._char(position) != closer:
            node, position = self._value(position, depth, closer)
            items.append(node)
            position, comma = self._next_item(position, closer)
        if closer == ")" and len(items) == 1 and not comma:
            return items[0], position + 1
        return Node(self.offset + start, items), position + 1

    def _object(self, start: int, depth: int) -> tuple[Node, int]:
        items: dict[str, Node] = {}
        position = self._space(start + 1)
        while self._char(position) != "}":
            key, after = self._key(position, depth)
            if key in items:
                message = f"the key {key!r:.60} stands twice in one object: write it once"
                self.fail("duplicate_key", position, message)
            items[key], position = self._value(after, depth, "}")
            position, _ = self._next_item(position, "}")
        return Node(self.offset + start, items), position + 1

    def _key(self, position: int, depth: int) -> tuple[str, int]:
        """Read a key with its colon and return it with the position of its value."""
        plain = _PLAIN_KEY.match(self.text, position)
        if plain:
            return plain[1], plain.end()
        key, after = self._value(position, depth, ":")
        if not isinstance(key.value, str):
            self.fail("bad_value", position, "an object's key must be text: write it in quotes")
        colon = _COLON.match(self.text, after)
        if colon is None:
            after = self._space(after)
            self._char(after)
            self.fail("bad_value", after, f"there is no colon after the key {key.value!r:.60}: write one")
        return key.value, colon.end()

    def _next_item(self, position: int, closer: str) -> tuple[int, bool]:
        """Return where the next item or the closer stands, and whether a comma came before."""
        gap = _GAP.match(self.text, position)
        assert gap is not None
        position, comma = gap.end(), gap["comma"] is not None
        char = self._char(position)
        if not comma and char != closer:
            message = f"found {char!r} where ',' or {closer!r} was due: put each text in one pair of quotes,"
            self.fail("bad_value", position, f"{message} and a comma between entries")
        return position, comma

    def _word(self, start: int) -> tuple[Node, int]:
        match = _WORD.match(self.text, start)
        if match is None:
            message = f"found {self.text[start]!r} where a value was due: write a number or a quoted text"
            self.fail("bad_value", start, message)
        if match.end() == len(self.text):
            raise Unfinished(match.end())
        word = match.group()
        return Node(self.offset + start, int(word) if _INTEGER.fullmatch(word) else Word(word)), match.end()

    def _string(self, start: int, end: str) -> tuple[Node, int]:
        plain = _PLAIN.get((self.text[start], end))
        match = plain and plain.match(self.text, start)
        if match:
            return Node(self.offset + start, _unescape(match[1])), match.end()
        text, position = self._one_string(start, end)
        pieces, following = [text], self._space(position)
        while end != ":" and self.text[following : following + 1] in _CLOSERS:
            text, position = self._one_string(following, end)
            pieces.append(text)
            following = self._space(position)
        return Node(self.offset + start, "".join(pieces)), position

    def _one_string(self, start: int, end: str) -> tuple[str, int]:
        self.spend(start)
        mark = self.text[start : start + 3]
        if mark in _TO_TRIPLE:
            position = self._cross(_TO_TRIPLE[mark], mark, start + 3)
            return _unescape(self.text[start + 3 : position - 3]), position
        closers, closes = _CLOSERS[self.text[start]], _CLOSES[end]
        position = self._cross(_TO_CLOSER[closers], closers, start + 1)
        while not closes.match(self.text, position):
            self.spend(position)
            position = self._cross(_TO_CLOSER[closers], closers, position)
        return _unescape(self.text[start + 1 : position - 1]), position

    def _cross(self, pattern: re.Pattern[str], mark: str, position: int) -> int:
        known = self._unclosed.get(mark)
        if known is not None and position >= known:
            raise Unfinished(position)
        match = pattern.match(self.text, position)
        if match is None:
            self._unclosed[mark] = position
            raise Unfinished(len(self.text))
        return match.end()


def _unescape(raw: str) -> str:
    return _ESCAPE.sub(_unescape_one, raw) if "\\" in raw else raw


def _unescape_one(match: re.Match[str]) -> str:
    short, hexadecimal, long, char = match.groups()
    if char is not None:
        return _ESCAPED.get(char, "\\" + char)
    code = int(short or hexadecimal or long, 16)
    return chr(code) if code <= 0x10FFFF else "\N{REPLACEMENT CHARACTER}"
