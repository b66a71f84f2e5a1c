"""Graders read hard outputs of models as a person would."""

import pytest
from evals.grading_outputs import CHOICES, CODE, MATH
from hypothesis import given, strategies as st

from podium_evals.grading import choice, final_choice, math, mathematics as math_checker
from podium_evals.grading.code import code_in
from podium_evals.grading.mathematics import WAIT_LIMIT_S, plain_math

OPTIONS = ["ape", "bear", "zebra", "A dog"]


def test_mathematics() -> None:
    """In LaTeX and plain text: fractions, units, degrees, intervals, sets, matrices."""
    for right, answer, score in MATH:
        assert math({"answer": right}, f"So the answer is $\\boxed{{{answer}}}$.") == score, (right, answer)


@pytest.mark.long
@pytest.mark.parametrize(("right", "limit"), [("3", 0.2), ("10^{9^{9^9}}", WAIT_LIMIT_S)])
def test_a_comparison_that_takes_too_long_scores_0(
    right: str, limit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(math_checker, "WAIT_LIMIT_S", limit)
        assert math({"answer": right}, r"\boxed{9^{9^{9^{9}}}}") == 0
    assert math({"answer": r"2\sqrt{3}"}, r"\boxed{\sqrt{12}}") == 1


def test_choices() -> None:
    """By letter, in sentences, with marks; an answer that names several letters has chosen none."""
    for right, text, score in CHOICES:
        assert choice({"answer": right, "options": OPTIONS}, text) == score, text


def test_programs() -> None:
    """In fences of all kinds, among other blocks, or bare."""
    for text, program in CODE:
        assert code_in(text).strip() == program, text


@given(st.text(max_size=200))
def test_any_text_is_read(text: str) -> None:
    for read in (final_choice, plain_math, code_in):
        assert isinstance(read(text), str)


MARKS = ("{}", "({})", "**{}**", "**({})**", "{}.", "{}) it", "`{}`")
FORMS = (*MARKS, r"\boxed{{{}}}", r"\text{{{}}}", "Answer: {}")


@given(
    st.sampled_from("ABCDEFGHJ"),
    st.sampled_from(FORMS),
    st.sampled_from(["", "I compare the options.\n\n", "B is wrong, as A is. So:\n\nThe answer is "]),
)
def test_a_letter_is_read_in_any_dress(letter: str, form: str, before: str) -> None:
    assert final_choice(before + form.format(letter)) == letter


@given(st.integers(-(10**9), 10**9), st.integers(1, 10**4))
def test_a_fraction_equals_itself_in_other_forms(above: int, below: int) -> None:
    """In LaTeX, with a slash, and with other digits."""
    row = {"answer": f"\\frac{{{above}}}{{{below}}}"}
    assert math(row, f"\\boxed{{{above}/{below}}}") == 1
    assert math(row, f"\\boxed{{\\dfrac{{{above * 3}}}{{{below * 3}}}}}") == 1
    assert math(row, f"\\boxed{{{above + below}/{below}}}") == 0
