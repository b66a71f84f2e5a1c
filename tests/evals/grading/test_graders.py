"""Graders read answers as models write them; questions of Reasoning Gym."""

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from typer.testing import Result

from podium.errors import ConfigError
from podium_evals.grading import choice, exact, final_answer, number, reasoning_gym, tagged_answer
from podium_evals.grading.answers import numbers_in
from podium_evals.recording import read_questions
from podium_evals.tasks import gym_rows

ANSWERS = [
    ("I think <answer> 41 </answer>, no: <answer>42</answer>", "42"),
    ("<answer>42", "42"),
    ("<think>The answer is 7.</think>42", "42"),
    (r"\boxed{1}, better \boxed{\frac{3}{4}}", r"\frac{3}{4}"),
    (r"\boxed{cut", r"\boxed{cut"),
    ("First I add.\nThe answer is 42.", "42"),
    ("The final answer is: **42**.\nI am sure.", "42"),
    ("", ""),
]
NUMBERS: list[tuple[str, list[float | Fraction]]] = [
    ("-3.5", [-3.5]),
    ("\u22127", [-7]),
    ("$1,234,567.89", [Fraction("1234567.89")]),
    (r"1{,}000 and 2\,000", [1000, 2000]),
    ("12 345", [12345]),
    ("3/4", [Fraction(3, 4)]),
    (r"-\dfrac{1}{2}", [Fraction(-1, 2)]),
    (r"\frac12", [Fraction(1, 2)]),
    (r"12.5\%", [Fraction(1, 8)]),
    ("1.5e3 m", [1500]),
    ("10-3", [10, 3]),
    ("from 3 to -4", [3, -4]),
    ("x2 and H2O", []),
    ("1/0", []),
]
SCORES = [
    (exact, "Paris", "The answer is **paris**.", 1),
    (exact, "Paris", "Paris, Texas", 0),
    (number, "1234", "It costs $1,234.00 in total", 1),
    (number, "75%", "0.75", 1),
    (number, "42", "6 times 7 is 42", 1),
    (number, "42", "42 is 6 times 7", 0),
    (number, "42", "<answer>42</answer> since 6 times 7", 1),
    (number, "42", "", 0),
]


def test_answers_are_read() -> None:
    """The last that is marked, by a tag, a box or a sentence; numbers in prose and in LaTeX; their scores."""
    for text, answer in ANSWERS:
        assert final_answer(text) == answer, text
    for text, numbers in NUMBERS:
        assert numbers_in(text) == numbers, text
    for grader, right, text, score in SCORES:
        assert grader({"answer": right}, text) == score, text


@given(st.integers(-(10**12), 10**12))
def test_a_grouped_number_is_the_number(value: int) -> None:
    assert numbers_in(f"It is {value:,}.") == [value]


@given(st.text(max_size=200))
def test_no_text_breaks_a_grader(text: str) -> None:
    """A score is 0 or 1 for whatever a model wrote."""
    assert exact({"answer": "no such thing at all"}, text) == 0.0
    assert number({"answer": "987654321"}, text) in (0.0, 1.0)
    assert choice({"answer": "Q"}, text) in (0.0, 1.0)


@pytest.mark.parametrize(
    ("grader", "row", "told"),
    [
        (exact, {"question": "q", "answer": " "}, "no right answer"),
        (number, {"answer": "many"}, "not a number"),
        (choice, {"answer": "zebra"}, "not a letter"),
        (reasoning_gym, {"answer": "1"}, "source_dataset"),
    ],
)
def test_a_question_that_cannot_be_graded_is_told(grader: Any, row: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        grader(row, "1")


def test_answers_of_several_lines_are_kept() -> None:
    grid = "The answer is:\n1 2\n3 4"
    assert tagged_answer(grid) == grid
    assert tagged_answer("I turn it.<answer>\n1 2\n3 4\n</answer>") == "1 2\n3 4"
    assert final_answer(grid) == "1 2"


SYNTAX = pytest.mark.filterwarnings("ignore::SyntaxWarning")
"""Of a library that reasoning-gym imports, when Python compiles it for the first time."""


@pytest.mark.long
@SYNTAX
@pytest.mark.parametrize(
    ("kind", "settings", "told"),
    [
        ("unlisted", {}, "not a kind of Reasoning Gym"),
        ("leg_counting", {"min_animals": 0}, "does not make"),
        ("leg_counting", {"shape": "round"}, "does not make"),
    ],
)
def test_questions_that_cannot_be_made_are_told(kind: str, settings: dict[str, Any], told: str) -> None:
    """Kinds that are held back are not made either."""
    with pytest.raises(ConfigError, match=told):
        gym_rows(kind, 1, seed=1, **settings)


@pytest.mark.long
@SYNTAX
def test_questions_of_a_file_are_the_questions(tmp_path: Path) -> None:
    """With their kind, their id, and what their grader needs."""
    path = tmp_path / "q.jsonl"
    made = gym_rows("leg_counting", 3, seed=5)
    path.write_text("".join(json.dumps(row) + "\n" for row in made))
    rows = read_questions(path)
    assert [row.row for row in rows] == made
    assert {row.row["grader"] for row in rows} == {"reasoning-gym"}
    assert reasoning_gym(rows[0].row, str(rows[0].question.expected)) == 1.0


@pytest.mark.long
@SYNTAX
def test_kinds_that_json_changes_are_refused() -> None:
    """Their graders would reject each answer."""
    with pytest.raises(ConfigError, match="rejects the question's right answer"):
        gym_rows("rearc", 1, seed=7)


@pytest.mark.long
@SYNTAX
def test_questions_are_written_by_a_command(podium: Callable[..., Result], tmp_path: Path) -> None:
    """Of some kinds, with settings; an existing file, and a setting without JSON, are refused."""
    path = tmp_path / "q.jsonl"
    options = ("--kind", "leg_counting", "--count", "2", "--setting", "min_animals=3")
    result = podium("evals", "questions", "--out", str(path), *options)
    assert result.exit_code == 0, result.stderr
    assert [row.question.kind for row in read_questions(path)] == ["leg_counting"] * 2
    assert "already exists" in podium("evals", "questions", "--out", str(path)).stderr
    wrong = podium("evals", "questions", "--out", str(tmp_path / "r"), "--setting", "min_animals")
    assert "write NAME=JSON" in wrong.stderr
