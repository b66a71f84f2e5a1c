"""Splits texts into stems of words, to compare texts.

English words lose their endings ("discounts" and "discount" are the same). Each Chinese or Japanese
character and each Korean syllable is a word. In other scripts without spaces, a whole run of
characters is a word.
"""

import re
import unicodedata

_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
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
    return [stem(word) for word in _WORD.findall(plain) if word not in _STOP_WORDS]


def stem(word: str) -> str:
    """Return an English word in lower case without its ending; other words stay unchanged."""
    return _DOUBLED.sub(r"\1", _ENDING.sub("", word))
