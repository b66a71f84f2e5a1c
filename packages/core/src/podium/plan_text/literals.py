"""Reads literals from text that a model wrote, and the stems of words."""

import json
import re
import unicodedata
from math import isfinite
from typing import Any, Literal, NamedTuple, NoReturn

from podium.errors import PlanSyntaxError

MAX_DEPTH = 32
"""Maximum nesting depth of a plan's text; plans without blocks need four levels."""
MAX_EFFORT = 8_000
"""Maximum number of tokens that are read, over all attempts on one text."""
_CHARS_PER_TOKEN = 64
"""Number of skipped characters that count as one token."""


class Word(str):
    """A word without quotes."""

    __slots__ = ()


class Node(NamedTuple):
    """A literal and its start in the whole text, in characters."""

    start: int
    value: "int | str | list[Node] | dict[str, Node]"


def value_of(node: Node) -> Any:
    """Return a literal as JSON data; raise `ValueError` for a word that is none."""
    match node.value:
        case list(items):
            return [value_of(item) for item in items]
        case dict(fields):
            return {key: value_of(value) for key, value in fields.items()}
        case Word(word):
            value = json.loads({"True": "true", "False": "false", "None": "null"}.get(word, word))
            if isinstance(value, float) and not isfinite(value):
                raise ValueError(word)
            return value
    return node.value


class Unfinished(Exception):
    """The text ended inside a literal, which was read up to `reached`."""

    def __init__(self, reached: int) -> None:
        super().__init__(reached)
        self.reached = reached


_CLOSERS = dict.fromkeys("“”„", '“”"') | dict.fromkeys("‘’‚", "‘’'")
_CLOSERS |= {'"': '"', "'": "'", "«": "»", "「": "」"}
_QUOTES = "".join(_CLOSERS) + "»」"
_BRACKETS = {"[": "]", "(": ")"}

THOUGHT = "(?:think|thinking|thought|reasoning)"
"""The tags around reasoning."""
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
_NAME_NEXT = rf"[A-Za-z_]\w{{0,40}}+{_BLANK}=(?!=)"
_NAME = re.compile(rf"([A-Za-z_]\w{{0,40}}+){_BLANK}=(?!=){_BLANK}")
CALL_END = r"[ \t.;`]*+(?><END_OF_PLAN>|(?:#|//)[^\n]*+)?[ \t\r]*+(?:\n|\Z)"
"""The text that may follow a call on a line of its own."""
_ENTRY_NEXT = rf"[\])}}]|[{_QUOTES}\[({{]|{_BARE_NEXT}|{_COMMENT}"
_FOLLOWS = {
    "]": rf"{_BLANK}(?:\]|{_COMMA}{_BLANK}(?:{_ENTRY_NEXT}))",
    ")": rf"{_BLANK}(?:\)|{_COMMA}{_BLANK}(?:{_ENTRY_NEXT}))",
    "}": rf"{_BLANK}(?:\}}|{_KEY_NEXT}|{_COMMA}{_BLANK}(?:\}}|{_KEY_NEXT}|{_BARE_KEY_NEXT}|{_COMMENT}))",
    ":": "",
    "=": rf"{_BLANK}(?:\){CALL_END}|{_COMMA}{_BLANK}(?:{_ENTRY_NEXT}|{_NAME_NEXT}|\$[0-9]))",
}
"""The text that may follow a string, for each closing bracket of a list or object; the colon stands for keys,
the equals sign for arguments of a call. A key may follow without a comma, so that the error for a missing
comma has the right position.
"""
_JOINED = rf"|{_BLANK}{_COMMENT}|[ \t\r]*+\n\s*+[{_QUOTES}]"
_CLOSES = {end: re.compile(follows + _JOINED * (end != ":")) for end, follows in _FOLLOWS.items()}
_PLAIN = {
    (mark, end): re.compile(rf"{mark}([^{mark}\\]*+(?>(?:\\[\s\S][^{mark}\\]*+)*)){mark}(?={follows})")
    for end, follows in _FOLLOWS.items()
    for mark in "\"'"
}
"""Strings in JSON's form, read in one match, because most strings have that form."""
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
    """Reads literals from a text in pieces; the result does not depend on the pieces."""

    def __init__(self) -> None:
        self.text = ""
        self.offset = 0
        """Number of characters of the whole text before `text`."""
        self.effort = 0
        self._unclosed: dict[str, int] = {}
        """For each quote, the first position after which the text has no closing quote."""

    def load(self, text: str, offset: int) -> None:
        """Set the text, which starts at `offset` in the whole text."""
        self.text = text
        self.offset = offset
        self._unclosed.clear()

    def read(self, start: int) -> tuple[Node, int]:
        """Read the literal at `start`, and return it with the position after it."""
        return self._value(start, 0, "]")

    def read_call(self, start: int) -> tuple[list[Node], dict[str, Node], int]:
        """Read arguments in parentheses: those without and with a name, and the position after them."""
        plain, named = list[Node](), dict[str, Node]()
        position = self._space(start + 1)
        while self._char(position) != ")":
            name = _NAME.match(self.text, position)
            if name and name[1] in named:
                self.fail(
                    "duplicate_key", position, f"a call has the argument {name[1]!r} twice: write it once"
                )
            node, end = self._value(name.end() if name else position, 0, "=")
            if name:
                named[name[1]] = node
            else:
                plain.append(node)
            position, _ = self._next_item(end, ")")
        return plain, named, position + 1

    def spend(self, position: int, crossed: int = 0) -> None:
        """Count one token, and more tokens for skipped characters, up to `MAX_EFFORT`."""
        self.effort += 1 + crossed // _CHARS_PER_TOKEN
        if self.effort > MAX_EFFORT:
            message = "the text has too many brackets and quotes for a plan: write only the plan"
            self.fail("too_tangled", position, message)

    def fail(
        self,
        code: Literal["bad_value", "duplicate_key", "too_deep", "too_tangled"],
        position: int,
        message: str,
    ) -> NoReturn:
        """Raise a `PlanSyntaxError` for `position` in the current text."""
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
        """Read the literal at `start`, inside brackets that `end` closes."""
        self.spend(start)
        char = self._char(start)
        if char in _CLOSERS:
            return self._string(start, end)
        if char not in "[({":
            return self._word(start)
        if depth == MAX_DEPTH:
            self.fail(
                "too_deep", start, f"brackets are nested deeper than {MAX_DEPTH}; most plans need 4 levels"
            )
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
                message = f"an object has the key {key!r:.60} twice: write it once"
                self.fail("duplicate_key", position, message)
            items[key], position = self._value(after, depth, "}")
            position, _ = self._next_item(position, "}")
        return Node(self.offset + start, items), position + 1

    def _key(self, position: int, depth: int) -> tuple[str, int]:
        """Read a key and its colon, and return the key with the position of its value."""
        plain = _PLAIN_KEY.match(self.text, position)
        if plain:
            return plain[1], plain.end()
        key, after = self._value(position, depth, ":")
        if not isinstance(key.value, str):
            self.fail("bad_value", position, "the key of an object must be text: write it in quotes")
        colon = _COLON.match(self.text, after)
        if colon is None:
            after = self._space(after)
            self._char(after)
            self.fail("bad_value", after, f"a colon is missing after the key {key.value!r:.60}")
        return key.value, colon.end()

    def _next_item(self, position: int, closer: str) -> tuple[int, bool]:
        """Return the position of the next item or closing bracket, and whether a comma is before it."""
        gap = _GAP.match(self.text, position)
        assert gap is not None
        position, comma = gap.end(), gap["comma"] is not None
        char = self._char(position)
        if not comma and char != closer:
            message = f"expected ',' or {closer!r}, found {char!r}: write each text in one pair of quotes,"
            self.fail("bad_value", position, f"{message} and commas between entries")
        return position, comma

    def _word(self, start: int) -> tuple[Node, int]:
        match = _WORD.match(self.text, start)
        if match is None:
            message = f"expected a value, found {self.text[start]!r}: write a number or a quoted text"
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


_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_SPOKEN = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
_POSSESSIVE = re.compile(r"['’](?:s|re|ve|ll|d|t|m)\b")
_ENDING = re.compile(r"(?<=[a-z]{3})(?:ies|ied|y|(?:ing|ed|e)s?|(?<![sui])s)$")
_DOUBLED = re.compile(r"([bdgmnprt])\1$")
_STOP_WORDS = frozenset(
    """
    a about an and any are as at be but by can did do does for from had has have he her his how i if
    in into is it its me my no not of on or our please say says she should so some tell than that
    the their them then there these they this those to up us was we were what when where which
    why will with would you your
    """.split()  # noqa: SIM905 - as a list it is a page long
) | {f"who{ending}" for ending in ("", "m", "se")}


def words(text: str) -> list[str]:
    """Return the stems of the words of `text` in order, without stop words."""
    plain = _POSSESSIVE.sub("", unicodedata.normalize("NFKC", text).casefold())
    found = (word for word in _SPOKEN.findall(plain) if word not in _STOP_WORDS)
    return [_DOUBLED.sub(r"\1", _ENDING.sub("", word)) for word in found]
