"""The words of a text, as far as two texts are compared by them.

English words lose their endings ("discounts" meets "discount"); Chinese and Japanese
characters and Korean syllables are a word each. Other scripts that put no spaces between
words match whole runs only. Knows no index and no card.
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
    the their them then there these they this those to up us was we were what when where which who
    whom whose why will with would you your
    """.split()  # noqa: SIM905 - as a list it is a page long
)


def words(text: str) -> list[str]:
    """Return the stems of the words of `text` in order, without those that say nothing of its matter."""
    plain = _POSSESSIVE.sub("", unicodedata.normalize("NFKC", text).casefold())
    return [stem(word) for word in _WORD.findall(plain) if word not in _STOP_WORDS]


def stem(word: str) -> str:
    """Take the ending off an English word in lower case; other words are returned as they are."""
    return _DOUBLED.sub(r"\1", _ENDING.sub("", word))
