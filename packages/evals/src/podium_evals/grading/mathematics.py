r"""Grades mathematical answers: numbers, expressions, intervals, sets and matrices, in LaTeX or plain text.

This module compares answers as text and as numbers. Other expressions are compared by the library
`math-verify`, in a separate process.
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from podium.errors import ConfigError
from podium_evals.grading.answers import final_answer
from podium_evals.grading.grader import Grader
from podium_evals.grading.math_checker import shared_checker
from podium_evals.grading.numbers import numbers_in

LONGEST = 500
"""Maximum number of characters of an answer that is compared as an expression."""
_MARKS = re.compile(r"\\left(?![a-z])|\\right(?![a-z])|\\[,;:! ]|\\quad|\$|\\\(|\\\)|\\\[|\\\]|~")
_TEXT = re.compile(
    r"\\(?:text|textbf|textit|mathrm|mathbf|operatorname|mbox)\s*\{([^{}]*)\}(\s*\^\s*\{?\s*-?[23]\s*\}?)?"
)
_SPELT = (
    (re.compile(r"(?<![\\a-zA-Z])pi\b|π"), r"\\pi "),
    (re.compile(r"(?<![\\a-zA-Z])sqrt\s*\(([^()]*)\)|√\s*\(([^()]*)\)|√\s*(\d+)"), r"\\sqrt{\1\2\3}"),
    (re.compile(r"<=|≤"), r"\\le "),
    (re.compile(r">=|≥"), r"\\ge "),
    (re.compile(r"∞"), r"\\infty "),
)
"""The LaTeX for some plain spellings."""
_MIXED = re.compile(r"(\d+) (\d+/\d+)")
_JOINING = {"and", "or", "to", "if", "mod"}
_DEGREES = re.compile(r"\s*(?:\^\s*\{?\s*\\circ\s*\}?|°|\bdegrees?\b)")
_UNIT = re.compile(
    r"(?<=[\d)}])\s+(?!and\b|or\b|to\b|pi\b|sqrt|times)"
    r"(?:[A-Za-zµΩ]{2,}(?:[/^][A-Za-z\d]+)*(?: [a-z]{2,})*|[A-Za-z](?:/[A-Za-z]+(?:\^?[23])?))$"
)
"""A unit after a number: a word, or letters with a slash. A single letter may be a variable."""
_WORDS = re.compile(r"[^\W\d_]{2,}(?:[ '-][^\W\d_]+)*")
_NUMBER = re.compile(r"[-+\u2212]?\s*[$€£]?\s*(?:[\d.,]|\\frac|[ {}/]|\\?%)+")


def _is_equal(row: Mapping[str, Any], answer: str) -> float:
    expected = row.get("answer")
    if expected is None or not str(expected).strip():
        raise ConfigError(
            f"the question {str(row.get('question'))[:80]!r} has no right answer, which the grader needs"
        )
    right, given = plain_math(str(expected)), plain_math(answer)
    if not given:
        return 0.0
    if _compact(right) == _compact(given):
        return 1.0
    if _WORDS.fullmatch(right) or len(given) > LONGEST:
        return 0.0  # the library reads a word as a product of its letters
    numbers = _number(right), _number(given)
    if None not in numbers:
        return float(_same_number(*numbers, right, given))  # type: ignore[arg-type]
    return float(shared_checker().equal(right, given))


math = Grader(final_answer, _is_equal, is_slow=True)
"""Scores 1 if the final answer equals the right one: as text, as a number, or as an expression.

This grader needs the extra `math`. Units, degrees and the left side of `x = …` are ignored; so is a percent
sign if the digits are the same. Decimals are exact: 0.333 is not 1/3. A comparison that takes longer than ten
seconds scores 0, and so does an answer of more than 500 characters.
"""


def plain_math(text: str) -> str:
    r"""Return an answer without its typesetting: `$`, `\left`, `\text{…}`, degrees, a full stop."""
    text = text.strip().strip("*`").strip()
    text = _MARKS.sub(" ", text.replace("\\$", " ").replace("{,}", ","))
    for _ in range(3):  # texts in texts
        text = _TEXT.sub(_untypeset, text)
    text = re.sub(r"\\[dtc]frac", r"\\frac", text).replace("\u2212", "-")
    for spelling, latex in _SPELT:
        text = spelling.sub(latex, text)
    text = _DEGREES.sub("", " ".join(text.split()))
    return text.removesuffix(".").strip()


def _untypeset(match: re.Match[str]) -> str:
    """Return typeset text as plain text, without a unit after a number."""
    text, exponent = match[1], match[2] or ""
    before = match.string[: match.start()].rstrip(" \\,;~")[-1:]
    is_unit = bool(before) and (before.isdigit() or before in ")}%") and text.strip().lower() not in _JOINING
    return "" if is_unit and not re.search(r"\d", text) else f" {text} {exponent}"


def _compact(text: str) -> str:
    return re.sub(r"\s+", "", text).casefold()


def _number(text: str) -> Fraction | None:
    """Return the value of a text that is a number, with or without a unit; `None` for other texts."""
    bare = _UNIT.sub("", re.sub(r"^[a-zA-Z]\s*=\s*", "", text))
    if not _NUMBER.fullmatch(bare):
        return None
    if mixed := _MIXED.fullmatch(bare):
        return int(mixed[1]) + numbers_in(mixed[2])[0]
    found = numbers_in(bare)
    return found[0] if len(found) == 1 else None


def _same_number(right: Fraction, given: Fraction, *texts: str) -> bool:
    if right == given:
        return True
    percents = ["%" in text for text in texts]
    if percents == [True, False]:
        return right * 100 == given
    return percents == [False, True] and right == given * 100
