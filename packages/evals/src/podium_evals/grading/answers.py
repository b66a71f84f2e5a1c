"""Reads models' texts: the final answer, the chosen option, the numbers. A grader scores what it reads."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from string import ascii_uppercase
from typing import Any

import anyio.to_thread
from anyio import CapacityLimiter
from anyio.lowlevel import RunVar

from podium.errors import ConfigError

_TAG = re.compile(r"<answer>(.*?)(?:</answer>|\Z)", re.DOTALL | re.IGNORECASE)
_THOUGHT = re.compile(r"\A.*</think>", re.DOTALL)
_SAID = re.compile(
    r"(?:final answer|the answer|answer|result)\s*(?:\*\*)?\s*(?:is|:|=)\s*:?\s*(?:\*\*)?\s*([^\n]+)",
    re.IGNORECASE,
)


def final_answer(text: str) -> str:
    r"""Return the final answer in a text: the last marked answer; without a mark, the whole text.

    The marks, by precedence: `<answer>…</answer>`, `\boxed{…}`, and a line such as
    `The answer is …` or `Answer: …`. Text before `</think>` is left out.
    """
    if _TAG.search(text):
        return tagged_answer(text)
    text = without_thoughts(text)
    if (boxed := _last_boxed(text)) is not None:
        return boxed.strip()
    said = _SAID.findall(text)
    return _bare(said[-1]) if said else text


def is_marked(text: str) -> bool:
    """Return whether a text has an answer in a tag or in a box."""
    return _TAG.search(text) is not None or _last_boxed(without_thoughts(text)) is not None


def without_thoughts(text: str) -> str:
    """Return a text without the part before `</think>`."""
    return _THOUGHT.sub("", text).strip()


def tagged_answer(text: str) -> str:
    """Return the content of the last `<answer>…</answer>` in a text; without such a tag, the whole text.

    Use this function for answers of several lines, such as grids. `final_answer` may return only their first
    line.
    """
    text = without_thoughts(text)
    tags = _TAG.findall(text)
    return str(tags[-1]).strip() if tags else text


def _last_boxed(text: str) -> str | None:
    r"""Return the content of the last `\boxed{…}`, including inner braces; `None` if there is no such box."""
    start = max(text.rfind("\\boxed{"), text.rfind("\\fbox{"))
    if start < 0:
        return None
    begin = text.index("{", start) + 1
    depth = 1
    for at in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if not depth:
            return text[begin:at]
    return None


def _bare(said: str) -> str:
    """Return an answer from a sentence, without the marks around the answer."""
    return said.strip().strip("*`").removesuffix(".").strip("*` ")


_OPEN, _CLOSE = r"[*_`(\[{$\\\"']*(?:(?:text|textbf|mathrm|mathbf|boxed)\{)?[(\[]*", r"[)\]}*_`$\"']*"
_LETTER = rf"{_OPEN}(?-i:([A-Z]))(?![A-Za-z0-9'’])"
_NOUN = r"(?:option|choice|answer|letter)"
_NAMED = re.compile(
    rf"\b(?:answer|option|choice)\b{_CLOSE}\s*(?:\b(?:is|(?:would|must|should) be)\b|:|=|-|\u2013|\n)"
    rf"\s*{_CLOSE}:?{_CLOSE}\s*(?:{_NOUN}\s*:?\s*)?{_LETTER}"
    rf"|\b(?:choose|pick|select|chose|picked|selected|go with|going with|opt for)\s+(?:{_NOUN}\s+)?{_LETTER}"
    rf"|(?:\b{_NOUN}\s+)?(?<![A-Za-z0-9]){_LETTER}{_CLOSE}"
    r"\s+(?:is|must be|would be)\s+(?:the\s+)?(?:\w+\s+)?(?:correct|right|best|answer)\b",
    re.IGNORECASE,
)
"""Sentences that name the chosen option."""
_ANOTHER = re.compile(
    rf"{_CLOSE}\s*(?:,|/|&|\+|\band\b|\bor\b)\s*(?:(?:and|or|{_NOUN})\s+)?{_LETTER}", re.IGNORECASE
)
"""Matches a second option after the first."""
_ARTICLE = re.compile(r"\s+(?!is\b|was\b|because\b|since\b|as\b|and\b|or\b|fits\b|holds\b)[a-z]")
"""Matches text after the article `A` or the pronoun `I`, which are not options here."""
_AROUND = "*_`$()[]{}.:\"' \n"
_ANY = re.compile(r"(?<![A-Za-z0-9'’])\(?([A-Z])\)?(?![A-Za-z0-9'’])")


def final_choice(text: str) -> str:
    """Return the letter of the option that a text chooses. Without one clear option, return the final answer.

    A letter in a tag or a box takes precedence over sentences such as `The correct option is C`. Of several
    such sentences, the last one counts.
    """
    final, text = final_answer(text), without_thoughts(text)
    if not is_marked(text):
        named = [match for match in _NAMED.finditer(text) if not _is_article(text, match)]
        if named:
            return _one_letter(text[named[-1].start(named[-1].lastindex or 0) :]) or final
    return _letter(final) or final


def _is_article(text: str, match: re.Match[str]) -> bool:
    group = match.lastindex or 0
    return match[group] in "AI" and _ARTICLE.match(text, match.end(group)) is not None


def _letter(said: str) -> str | None:
    """Return the letter that a text chooses; `None` if the text chooses no letter, or several."""
    bare = said.strip(_AROUND)
    if len(bare) == 1 and bare.isalpha():
        return bare.upper()
    if re.match(rf"{_OPEN}[A-Z](?:{_CLOSE}[).\]:*]|[)\]}}*_`]+)(?=[\s*]|$)", said) or re.match(
        rf"{_OPEN}(?:{_NOUN}\s+)?{_OPEN}[A-Z]{_CLOSE}\s*(?:,|;|\u2013|-|because|since|as)\s", said
    ):
        start = re.search(r"(?<![A-Za-z])[A-Z](?![A-Za-z])", said)
        assert start is not None
        return _one_letter(said[start.start() :])
    lines = said.strip().splitlines() or [""]
    alone = {line.strip(_AROUND) for line in (lines[0], lines[-1])} & set(ascii_uppercase)
    if len(alone) == 1:
        return alone.pop()
    letters = {
        match[1]
        for match in _ANY.finditer(said)
        if not (match[0] in "AI" and _ARTICLE.match(said, match.end()))
    }
    return letters.pop() if len(letters) == 1 else None


def _one_letter(said: str) -> str | None:
    """Return the letter at the beginning of a text; `None` if another option follows."""
    return None if _ANOTHER.match(said, 1) else said[0]


_LATEX_FRACTION = re.compile(r"\\[dt]?frac\s*(?:\{\s*(-?[\d.,]+)\s*\}|(\d))\s*(?:\{\s*(-?[\d.,]+)\s*\}|(\d))")
_MIXED = re.compile(r"(?<![\d.,])(\d+)\s*\\[dt]?frac\s*\{\s*(\d+)\s*\}\s*\{\s*(\d+)\s*\}")
_GROUPED = re.compile(r"(?<=\d)(?:,|\\,|\{,\}|[\u00a0\u202f\u2009' ])(?=\d{3}(?!\d))")
_ANY_NUMBER = re.compile(
    r"(?P<sign>[-+\u2212])?\s*(?P<currency>[$€£])?\s*(?P<whole>\d+)?(?P<rest>\.\d+)?(?:[eE](?P<exponent>[-+]?\d{1,4}))?"
    r"(?:\s*/\s*(?P<divisor>\d+(?:\.\d+)?))?(?P<percent>\s*\\?%)?"
)


def numbers_in(text: str) -> list[Fraction]:
    r"""Return the numbers in a text in their order, as exact fractions; `50%` is one half.

    Separators of thousands are ignored, `\frac{3}{4}` and `3/4` are fractions, `3\frac{1}{2}` is 7/2, and
    U+2212 is a minus. A comma is never a decimal point. Digits inside a word (`x2`) are not a number.
    """
    text = _MIXED.sub(_whole_fraction, text)
    text = _LATEX_FRACTION.sub(_plain_fraction, text).replace("\\$", "$")
    text = _GROUPED.sub("", text)
    found = []
    for match in _ANY_NUMBER.finditer(text):
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


@dataclass(frozen=True, slots=True)
class Grader:
    """Scores the text of a worker. It may be called as a function."""

    read: Callable[[str], str]
    """Finds the final answer in a text; returns an empty text if there is none."""
    compare: Callable[[Mapping[str, Any], str], float]
    """Scores a final answer from 0 to 1. The arguments are the answer, and the question's row with the right
    answer under `answer`."""
    is_slow: bool = False
    """Whether the grader waits for another process. Such a grader is run in a thread."""

    def __call__(self, row: Mapping[str, Any], text: str) -> float:
        """Return the score of a text, 0 to 1."""
        return self.compare(row, self.read(text))


def right_answer(row: Mapping[str, Any]) -> str:
    """Return the right answer of a question's row, or raise `ConfigError`."""
    expected = row.get("answer")
    if expected is None or not str(expected).strip():
        told = "has no right answer, which the grader needs"
        raise ConfigError(f"the question {str(row.get('question'))[:80]!r} {told}")
    return str(expected)


GraderOf = Callable[[Mapping[str, Any]], Grader | None]
"""Chooses the grader of a question's row. `None` leaves the answers to this question without a score."""


def grader_of(grader: Grader | GraderOf | None) -> GraderOf:
    """Return a function that returns `grader` for each row; `grader` itself if it is such a function."""
    if grader is None or isinstance(grader, Grader):
        return lambda _row: grader
    return grader


async def grade(grader: Grader, row: Mapping[str, Any], text: str) -> tuple[str, float]:
    """Return the final answer in a text, and the score. A slow grader runs in a thread.

    Raises:
        ConfigError: the row cannot be graded by this grader.
    """
    if not grader.is_slow:
        return grader.read(text), grader(row, text)
    limiter = _slots()
    return await anyio.to_thread.run_sync(lambda: (grader.read(text), grader(row, text)), limiter=limiter)


_LIMITER: RunVar[CapacityLimiter] = RunVar("podium_evals_grading")


def _slots() -> CapacityLimiter:
    """Return the limiter of slow graders of this event loop: one for each core."""
    try:
        return _LIMITER.get()
    except LookupError:
        limiter = CapacityLimiter(os.cpu_count() or 1)
        _LIMITER.set(limiter)
        return limiter
