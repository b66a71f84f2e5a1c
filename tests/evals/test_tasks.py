"""Questions of Reasoning Gym in a file."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from core.cli.conftest import podium
from typer.testing import Result

from podium.errors import ConfigError
from podium_evals.grading import reasoning_gym
from podium_evals.recording import read_questions
from podium_evals.tasks import gym_rows

__all__ = ["podium"]
pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore::SyntaxWarning")]  # of Reasoning Gym


def test_questions_of_a_file_are_the_questions(tmp_path: Path) -> None:
    """With their kind, their id, and what their grader needs."""
    path = tmp_path / "q.jsonl"
    made = gym_rows("leg_counting", 3, seed=5)
    path.write_text("".join(json.dumps(row) + "\n" for row in made))
    rows = read_questions(path)
    assert [row.row for row in rows] == made
    assert {row.row["grader"] for row in rows} == {"reasoning-gym"}
    assert reasoning_gym(rows[0].row, str(rows[0].question.expected)) == 1.0


def test_kinds_that_json_changes_are_refused() -> None:
    """Their graders would reject each answer."""
    with pytest.raises(ConfigError, match="rejects the question's right answer"):
        gym_rows("rearc", 1, seed=7)


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
