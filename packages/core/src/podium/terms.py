"""The terms of a text: what is left of its words when two texts are compared by them.

English words lose their endings, so that "discounts" meets "discount" and "planner" meets
"planning". Scripts that put no spaces between words (Han, kana, Hangul) are cut into
characters and pairs of them; Thai, Lao and Khmer are not cut and match whole runs only.
Knows no index and no card.
"""

import re
import unicodedata
from functools import lru_cache

_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_POSSESSIVE = re.compile(r"['’](?:s|re|ve|ll|d|t|m)\b", re.IGNORECASE)

STOP_WORDS = frozenset(
    """
    a about above after again all also am an and any are as at be because been before being below
    between both but by can cannot could did do does doing don down during each else ever every
    few for from further get got had has have having he her here hers him his how i if in into is
    it its itself just let ll like many may me might more most much must my no nor not now of off
    on once one only or other our ours out over own please say says said shall she should so some
    such tell than that the their theirs them then there these they thing things this those
    through to too under until up upon us use very was we were what when where whether which while
    who whom whose why will with would yes yet you your yours
    """.split()  # noqa: SIM905 - as a list it is a page long
)
"""Words that say nothing of what a text is about."""

_SUFFIXES: tuple[tuple[str, int], ...] = (
    ("isation", 4),
    ("ization", 4),
    ("ational", 4),
    ("ation", 4),
    ("ating", 4),
    ("ator", 4),
    ("ated", 4),
    ("ment", 4),
    ("ness", 4),
    ("ate", 4),
    ("ing", 3),
    ("ion", 4),
    ("ed", 3),
    ("er", 4),
    ("or", 4),
    ("ly", 4),
    ("al", 4),
)
"""Endings, longest first, and how many letters they must leave."""

_VOWEL = re.compile("[aeiouy]")


def terms(text: str) -> list[str]:
    """Return the terms of `text` in order, repeats and all, stop words left out."""
    return [stem(word) for word in words(text)]


def words(text: str) -> list[str]:
    """Return the words of `text` in order, in lower case without accents, stop words left out.

    A name in camel case is given whole and in its parts.
    """
    found: list[str] = []
    for match in _WORD.finditer(_POSSESSIVE.sub("", _plain(text))):
        word = match[0]
        if not word.isascii() and _UNSPACED.search(word):
            found += _unspaced(word)
            continue
        parts = _HUMP.split(word) if not word.islower() else []
        found += [part.casefold() for part in ([word, *parts] if len(parts) > 1 else [word])]
    return [word for word in found if word not in STOP_WORDS]


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Take the ending off an English word in lower case; other words are returned as they are."""
    if len(word) < 4 or not (word.isascii() and word.isalpha()):
        return word
    word = _singular(word)
    for suffix, least in _SUFFIXES:
        root = word.removesuffix(suffix)
        if root != word and len(root) >= least and _VOWEL.search(root):
            word = root
            if suffix in ("ing", "ed", "er") and root[-1] == root[-2] and root[-1] not in "lsz":
                word = root[:-1]
            break
    if len(word) > 3 and word[-1] == "e":
        return word[:-1]
    return word[:-1] + "i" if len(word) > 3 and word[-1] == "y" else word


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _plain(text: str) -> str:
    """Return `text` without accents and in one of its many equivalent writings."""
    if text.isascii():
        return text
    apart = unicodedata.normalize("NFKD", text)
    kept = "".join(char for char in apart if unicodedata.category(char) != "Mn")
    return unicodedata.normalize("NFC", kept)


def _unspaced(word: str) -> list[str]:
    found: list[str] = []
    position = 0
    for match in _UNSPACED.finditer(word):
        run = match[0]
        found += [word[position : match.start()].casefold()] if match.start() > position else []
        found += [*run, *(run[i : i + 2] for i in range(len(run) - 1))]
        position = match.end()
    return found + ([word[position:].casefold()] if position < len(word) else [])
