"""The graders that `podium record` offers, by name.

A grader is given the question's row, which has the right answer under `answer`, and what the worker wrote. It
returns a score from 0 to 1. The empty text scores 0 with each.
"""

import re
from collections.abc import Callable, Mapping
from string import ascii_uppercase
from typing import Any

from podium.errors import ConfigError
from podium_evals.grading.answers import final_answer
from podium_evals.grading.numbers import numbers_in
from podium_evals.grading.reasoning_gym_grader import reasoning_gym

Grader = Callable[[Mapping[str, Any], str], float]
_WORD = re.compile(r"\s+(?!is\b|was\b)[a-z]")
"""What follows the article or the pronoun, and not an option."""
_LETTER = re.compile(r"(?<![A-Za-z0-9'])\(?([A-Z])\)?(?![A-Za-z0-9'])")


def exact(row: Mapping[str, Any], text: str) -> float:
    """Return 1 where the final answer is the right one: case, white space and a full stop do not count."""
    return float(_plain(final_answer(text)) == _plain(_expected(row)) != "")


def number(row: Mapping[str, Any], text: str) -> float:
    """Return 1 where the last number of the final answer is the right one, to one part in a million.

    Raises:
        ConfigError: the right answer of the row is not a number.
    """
    right, given = numbers_in(_expected(row)), numbers_in(final_answer(text))
    if not right:
        raise ConfigError(f"the answer {row['answer']!r:.80} is not a number: choose another grader")
    return float(bool(given) and abs(given[-1] - right[-1]) <= abs(right[-1]) / 1_000_000)


def choice(row: Mapping[str, Any], text: str) -> float:
    """Return 1 where the final answer names the right option, by its letter or by its whole text.

    A text that names several letters has chosen nothing, unless it marks one as its answer. The article `A`
    and the pronoun `I` do not count.

    Raises:
        ConfigError: the right answer of the row is not a letter.
    """
    right = _expected(row).strip("(). ").upper()
    if len(right) != 1 or right not in ascii_uppercase:
        raise ConfigError(f"the answer {row['answer']!r:.80} is not a letter: choose another grader")
    said = final_answer(text).strip()
    options = [_plain(str(option)) for option in row.get("options", ())]
    if _plain(said) in options:
        return float(options.index(_plain(said)) == ascii_uppercase.index(right))
    return float(_letter(said) == right)


GRADERS: Mapping[str, Grader] = {
    "exact": exact,
    "number": number,
    "choice": choice,
    "reasoning-gym": reasoning_gym,
}
"""The graders by the name that the command line has for them."""


def _letter(said: str) -> str | None:
    """Return the letter that a text chooses; `None` where it chooses none, or several."""
    bare = said.strip("*_`$()[]{}.: \n")
    if len(bare) == 1:
        return bare.upper()
    leading = re.match(r"[*_`(\[]*([A-Z])[)\].:*]+(?=\s|$)", said)
    if leading:
        return leading[1]
    letters = {
        match[1]
        for match in _LETTER.finditer(said)
        if not (match[0] in "AI" and _WORD.match(said, match.end()))
    }
    return letters.pop() if len(letters) == 1 else None


def _expected(row: Mapping[str, Any]) -> str:
    expected = row.get("answer")
    if expected is None:
        raise ConfigError(f"the question {str(row.get('question'))[:80]!r} has no right answer to grade by")
    return str(expected)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip("*`\"' ").removesuffix(".")
