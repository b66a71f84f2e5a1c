"""The graders of `podium evals record`, by name.

Every grader scores the empty text 0.
"""

from collections.abc import Mapping
from string import ascii_uppercase
from typing import Any

from podium.errors import ConfigError
from podium_evals.grading.answers import final_answer, tagged_answer
from podium_evals.grading.choices import final_choice
from podium_evals.grading.grader import Grader
from podium_evals.grading.mathematics import math
from podium_evals.grading.numbers import numbers_in
from podium_evals.grading.reasoning_gym_grader import score_by_kind


def _is_exact(row: Mapping[str, Any], answer: str) -> float:
    return float(_plain(answer) == _plain(_expected(row)) != "")


def _is_number(row: Mapping[str, Any], answer: str) -> float:
    right, given = numbers_in(_expected(row)), numbers_in(answer)
    if not right:
        raise ConfigError(f"the answer {row['answer']!r:.80} is not a number: choose another grader")
    return float(bool(given) and abs(given[-1] - right[-1]) <= abs(right[-1]) / 1_000_000)


def _is_choice(row: Mapping[str, Any], answer: str) -> float:
    right = _expected(row).strip("(). ").upper()
    if len(right) != 1 or right not in ascii_uppercase:
        raise ConfigError(f"the answer {row['answer']!r:.80} is not a letter: choose another grader")
    said = answer.strip()
    options = [_plain(str(option)) for option in row.get("options", ())]
    if (
        len(said) > 1 and _plain(said) in options
    ):  # a single letter is an option's letter, not an option's text
        return float(options.index(_plain(said)) == ascii_uppercase.index(right))
    return float(said.upper() == right)


exact = Grader(final_answer, _is_exact)
"""Scores 1 if the final answer equals the right one, apart from case, white space and a full stop."""
number = Grader(final_answer, _is_number)
"""Scores 1 if the last number in the final answer equals the right one, with a relative error of at most one
millionth."""
choice = Grader(final_choice, _is_choice)
"""Scores 1 if the final answer names the right option, by its letter or by its whole text.

An answer with several letters scores 0. The article `A` and the pronoun `I` are not read as letters.
"""
reasoning_gym = Grader(tagged_answer, score_by_kind)
"""Scores with the grader that Reasoning Gym has for the question's kind."""
GRADERS: Mapping[str, Grader] = {
    "exact": exact,
    "number": number,
    "choice": choice,
    "math": math,
    "reasoning-gym": reasoning_gym,
}
"""The graders, by their name on the command line."""


def _expected(row: Mapping[str, Any]) -> str:
    expected = row.get("answer")
    if expected is None:
        raise ConfigError(
            f"the question {str(row.get('question'))[:80]!r} has no right answer, which the grader needs"
        )
    return str(expected)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip("*`\"' ").removesuffix(".")
