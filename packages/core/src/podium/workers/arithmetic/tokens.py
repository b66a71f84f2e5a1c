"""Cuts a text into what arithmetic is made of: numbers, operators, and the words between them.

English numbers only: `1,234.5` is one number and `1.234,5` is not. Dates, times, versions,
ordinals and ranges of pages or years are words, as are names with digits in them. Knows no
grammar.
"""

import re
import unicodedata
from typing import Literal, NamedTuple

from podium.workers.arithmetic.numerals import PATTERN, SCALES, numeral

Kind = Literal["number", "operator", "postfix", "prefix", "list", "verb", "back", "mark", "word", "end"]

MAX_DIGITS = 300
"""Longest number that is taken for one, in characters."""


class Token(NamedTuple):
    """A piece of a text, and what it means."""

    kind: Kind
    text: str
    """In one spelling for all that mean the same: `+` for "plus"; a number as it was written."""
    spelled: bool = False
    """Whether it was a word and not a sign."""


_SIGNS = str.maketrans(
    {
        **dict.fromkeys("×✕✖·⋅∙", " * "),
        **dict.fromkeys("÷∕⁄", " / "),
        **dict.fromkeys("−–‒", "-"),
        **dict.fromkeys("—…", " ; "),
        **dict.fromkeys("$€£¥₹", " "),
        "√": " sqrt ",
        "∛": " cbrt ",
        "’": "'",
    }
)
_VULGAR = {"½": ".5", "¼": ".25", "¾": ".75"}
_SUPERSCRIPT = re.compile("⁻?[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_SUPERSCRIPT_DIGITS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")

_BACK = (
    r"(?:the|that|this) (?:result|answer|total|sum|product|difference|number|value)(?! of| between)"
    r"|that|it|this"
)

# Tried in this order. A function's bare name counts only before what it is applied to.
_MEANINGS: tuple[tuple[Kind, str, str], ...] = (
    ("list", "sum", r"(?:sum|total) of"),
    ("list", "average", r"(?:average|mean) of|average(?= [0-9])"),
    ("list", "product", r"product of"),
    ("list", "difference", r"difference (?:between|of)"),
    ("list", "max", r"(?:maximum|largest|greatest|highest) of|max(?= ?\()"),
    ("list", "min", r"(?:minimum|smallest|least|lowest) of|min(?= ?\()"),
    ("list", "gcd", r"(?:gcd|greatest common divisor) of|gcd(?= ?\()"),
    ("list", "lcm", r"(?:lcm|least common multiple) of|lcm(?= ?\()"),
    ("prefix", "sqrt", r"square root of|sqrt"),
    ("prefix", "cbrt", r"cube root of|cbrt"),
    ("prefix", "square", r"square of|square(?= [0-9(])"),
    ("prefix", "cube", r"cube of"),
    ("prefix", "factorial", r"factorial of"),
    ("prefix", "abs", r"absolute value of|abs(?= ?\()"),
    ("prefix", "half", r"half of|half(?= [0-9(])|halve"),
    ("prefix", "third", r"third of"),
    ("prefix", "quarter", r"quarter of"),
    ("prefix", "double", r"double|twice"),
    ("prefix", "triple", r"triple"),
    ("prefix", "log10", r"log10|log(?= ?\()"),
    ("prefix", "log2", r"log2"),
    ("prefix", "ln", r"ln(?= ?[(0-9])"),
    ("prefix", "exp", r"exp(?= ?\()"),
    ("prefix", "sin", r"sin(?= ?[(0-9])"),
    ("prefix", "cos", r"cos(?= ?[(0-9])"),
    ("prefix", "tan", r"tan(?= ?[(0-9])"),
    ("prefix", "round", r"round(?= ?\()"),
    ("prefix", "floor", r"floor(?= ?\()"),
    ("prefix", "ceil", r"ceil(?= ?\()"),
    ("verb", "sum", r"add up|sum up|total up|sum(?= [0-9])"),
    ("verb", "add", r"add"),
    ("verb", "subtract", r"subtract|deduct"),
    ("verb", "multiply", r"multiply"),
    ("verb", "divide", r"divide"),
    ("verb", "increase", r"increase|raise"),
    ("verb", "decrease", r"decrease|reduce|lower"),
    ("operator", "+", r"plus|added to|increased by"),
    ("operator", "-", r"minus|less(?= [0-9])|decreased by|reduced by"),
    ("operator", "*", r"times|multiplied by|x(?= [0-9(])"),
    ("operator", "/", r"divided by|over(?= [0-9(])"),
    ("operator", "mod", r"modulo|mod"),
    ("operator", "^", r"(?:raised )?to the power(?: of)?"),
    ("postfix", "squared", r"squared"),
    ("postfix", "cubed", r"cubed"),
    ("postfix", "!", r"factorial"),
    ("postfix", "%", r"percent|per cent|pct"),
    ("back", "that", _BACK),
)
_WORDS = "|".join(f"(?P<m{i}>(?:{pattern})\\b)" for i, (_, _, pattern) in enumerate(_MEANINGS))
_OPAQUE = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}\b|[0-9]{1,2}/[0-9]{1,2}/[0-9]{4}\b|[0-9]+(?:\.[0-9]+){2,}"
    r"|[0-9]{1,2}:[0-9]{2}\b|24/7\b|9/11\b|[0-9]+(?:st|nd|rd|th)\b|0x[0-9a-f]+\b"
)
_NUMBER = r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?(?:e[+-]?[0-9]{1,3}(?!\w))?|\.[0-9]+"
_TOKEN = re.compile(
    rf"(?P<opaque>{_OPAQUE})"
    r"|(?P<range>(?<![0-9)])(?P<low>[0-9]{1,9})-(?P<high>[0-9]{1,9})(?![0-9.,]*[0-9])"
    r"(?P<noun> (?!(?:plus|minus|times|divided|multiplied|squared|and|or|is|equals|to)\b)[^\W\d])?)"
    rf"|(?P<number>{_NUMBER})"
    r"|(?P<power>\*\*)|(?P<modulo>(?<= )%(?= ?[0-9(]))|(?P<cross>(?<=[0-9])x(?=[0-9]))"
    r"|(?P<sign>[-+*/^%!()])|(?P<comma>,)|(?P<end>[.?;:=\n\"])"
    rf"|(?<![^\W_])(?:(?P<spelled>{PATTERN})|{_WORDS})"
    r"|(?P<word>[^\W\d](?:\w|'\w)*(?:-[0-9]\w*)*)"
)
_FIXED: dict[str, Token] = {
    "power": Token("operator", "^"),
    "modulo": Token("operator", "mod"),
    "cross": Token("operator", "*"),
    "comma": Token("mark", ","),
    "(": Token("mark", "("),
    ")": Token("mark", ")"),
    "%": Token("postfix", "%"),
    "!": Token("postfix", "!"),
    **{sign: Token("operator", sign) for sign in "+-*/^"},
    **{scale: Token("postfix", scale) for scale in SCALES},
}


def tokens(text: str) -> list[Token]:
    """Cut `text` in one pass; characters that mean nothing here are left out."""
    plain, found, position = _plain(text), [], 0
    while match := _TOKEN.search(plain, position):
        position = match.end()
        if match.lastgroup in ("range", "noun"):
            if _is_range(match):
                found.append(Token("word", match[0]))
            else:
                position = match.end("high")
                found += [
                    Token("number", match["low"]),
                    Token("operator", "-"),
                    Token("number", match["high"]),
                ]
        else:
            found.append(_token(match))
    return found


def _plain(text: str) -> str:
    """Return `text` in lower case, with one sign for each operation and one space for many."""
    text = _SUPERSCRIPT.sub(lambda m: f"^({m[0].translate(_SUPERSCRIPT_DIGITS)})", text)
    text = re.sub("([0-9]?)([½¼¾])", lambda m: (m[1] or " 0") + _VULGAR[m[2]], text)
    text = unicodedata.normalize("NFKC", text.translate(_SIGNS)).lower()
    return "\n".join(" ".join(line.split()) for line in text.splitlines())


def _is_range(match: re.Match[str]) -> bool:
    """Say whether a pair such as `2019-2021` or `3-5 pages` is a range and no subtraction."""
    low, high = int(match["low"]), int(match["high"])
    return low < high and (bool(match["noun"]) or 1000 <= low <= high < 3000)


def _token(match: re.Match[str]) -> Token:
    kind, found = match.lastgroup or "", match[0]
    if kind in ("number", "end"):
        return Token("number" if kind == "number" else "end", found)
    if kind == "spelled":
        value = numeral(found)
        return Token("word", found) if value is None else Token("number", str(value))
    if kind in _FIXED or found in _FIXED:
        return _FIXED.get(kind) or _FIXED[found]
    if kind.startswith("m") and kind[1:].isdigit():
        return Token(*_MEANINGS[int(kind[1:])][:2], spelled=True)
    return Token("word", found)
