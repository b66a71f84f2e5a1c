"""Reads numbers in prose, with separators, fractions, percent signs, LaTeX or units."""

import re
from fractions import Fraction

_LATEX_FRACTION = re.compile(r"\\[dt]?frac\s*(?:\{\s*(-?[\d.,]+)\s*\}|(\d))\s*(?:\{\s*(-?[\d.,]+)\s*\}|(\d))")
_MIXED = re.compile(r"(?<![\d.,])(\d+)\s*\\[dt]?frac\s*\{\s*(\d+)\s*\}\s*\{\s*(\d+)\s*\}")
_GROUPED = re.compile(r"(?<=\d)(?:,|\\,|\{,\}|[\u00a0\u202f\u2009' ])(?=\d{3}(?!\d))")
_NUMBER = re.compile(
    r"(?P<sign>[-+\u2212])?\s*(?P<currency>[$€£])?\s*(?P<whole>\d+)?(?P<rest>\.\d+)?(?:[eE](?P<exponent>[-+]?\d{1,4}))?"
    r"(?:\s*/\s*(?P<divisor>\d+(?:\.\d+)?))?(?P<percent>\s*\\?%)?"
)


def numbers_in(text: str) -> list[Fraction]:
    r"""Return the numbers in a text in their order, as exact fractions; `50%` is one half.

    Separators of thousands are ignored, `\frac{3}{4}` and `3/4` are fractions, `3\frac{1}{2}` is 7/2, and
    U+2212 is a minus.
    A comma is never a decimal point. Digits inside a word (`x2`) are not a number.
    """
    text = _MIXED.sub(_whole_fraction, text)
    text = _LATEX_FRACTION.sub(_plain_fraction, text).replace("\\$", "$")
    text = _GROUPED.sub("", text)
    found = []
    for match in _NUMBER.finditer(text):
        if match["whole"] is None and match["rest"] is None:
            continue
        before = text[max(match.start() - 1, 0) : match.start()]
        subtracts = before.isalnum()  # otherwise a dash between words
        digits = match.start("whole") if match["whole"] is not None else match.start("rest")
        if digits and text[digits - 1].isalpha():
            continue
        value = _value(match, negative=match["sign"] in ("-", "\u2212") and not subtracts)
        if value is not None:
            found.append(value)
    return found


def _value(match: re.Match[str], *, negative: bool) -> Fraction | None:
    value = Fraction((match["whole"] or "0") + (match["rest"] or ""))
    if match["exponent"]:
        value *= Fraction(10) ** int(match["exponent"])
    if match["divisor"]:
        divisor = Fraction(match["divisor"])
        if not divisor:
            return None
        value /= divisor
    if match["percent"]:
        value /= 100
    return -value if negative else value


def _plain_fraction(match: re.Match[str]) -> str:
    above, below = match[1] or match[2], match[3] or match[4]
    return f"{above}/{below}"


def _whole_fraction(match: re.Match[str]) -> str:
    whole, above, below = map(int, match.groups())
    return f"{whole * below + above}/{below}"
