"""The names of workers and the labels of data: which texts they may be, and which are alike."""

from collections.abc import Iterable
from difflib import get_close_matches
from unicodedata import category, is_normalized, name, normalize

from podium.errors import ConfigError

MOST_CHARS = 100
"""Maximum characters of a name or label."""
_EAST_ASIAN = {"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO"}
"""Scripts that are written together, and together with Latin letters."""
_LETTERS = ("Lu", "Ll", "Lt", "Lo")
"""Unicode categories; the first word of the Unicode name of such a letter is its script."""
_INVISIBLE = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
    + "".join(map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
)
"""Characters without a width that `str.isprintable` accepts: fillers and variation selectors."""


def check_name(text: str, what: str) -> str:
    """Return a name or label.

    Args:
        text: the name or label.
        what: what it is, for the error message, as in "a worker's name".

    Raises:
        ConfigError: it is not a name.
    """
    if fault := _fault(text):
        raise ConfigError(f"{what} is {text[:MOST_CHARS]!r}: {fault}")
    return text


def _fault(text: str) -> str:
    if not text or text != text.strip():
        return "write at least one character, and no spaces at the ends"
    if not text.isprintable() or not _INVISIBLE.isdisjoint(text):
        return "use printable characters, without control characters and characters of no width"
    if len(text) > MOST_CHARS:
        return f"write at most {MOST_CHARS} characters"
    if text.isascii():
        return ""
    if not is_normalized("NFC", text):
        return f"write it in the Unicode form NFC, as {normalize('NFC', text)!r}"
    return _mixture(text)


def _mixture(text: str) -> str:
    letters = [char for char in normalize("NFKC", text) if category(char) in _LETTERS]
    found = {name(letter, "UNKNOWN").partition(" ")[0] for letter in letters}
    if len(found) < 2 or (found & _EAST_ASIAN and found <= {*_EAST_ASIAN, "LATIN"}):
        return ""
    return f"its letters are of several scripts ({', '.join(sorted(found))}): use one script"


def folded(text: str) -> str:
    """Return a form that is equal for names that differ only in case or Unicode form."""
    return normalize("NFKC", normalize("NFKC", text).casefold())


def check_unlike(names: Iterable[str], what: str) -> None:
    """Raise `ConfigError` if two of the names are equal after NFKC and case folding."""
    met: dict[str, str] = {}
    for each in names:
        if (before := met.setdefault(folded(each), each)) != each:
            raise ConfigError(f"the {what} {before!r} and {each!r} differ only in case or form: rename one")


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the known name that is most similar to `word`; empty if none is similar."""
    forms = {folded(each): each for each in known}
    close = get_close_matches(folded(word), forms, n=1)
    return forms[close[0]] if close else ""
