"""Reads files of questions: JSON lines with a question, and fields for its grader."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podium.config.source import why_unreadable
from podium_evals.errors import RecordingInvalid
from podium_evals.recorded import Question, with_options


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """A question, and its whole row in the file."""

    question: Question
    row: Mapping[str, Any]
    """The row of the file, which graders read."""


def read_questions(path: Path | str) -> Sequence[QuestionRow]:
    """Read a file with a JSON object on each line.

    The field `question` is required. `answer`, `kind`, `level` and `id` are optional. So are `options` (of a
    multiple-choice question, in the order of their letters) and `grader` (the name of a grader). Graders may
    need further fields, such as `tests`. Of questions with the same content, only the first is used.

    Raises:
        RecordingInvalid: the file cannot be read, or a line is not a question.
    """
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8").split("\n")  # JSON texts may contain other line separators
    except (OSError, ValueError) as error:
        raise RecordingInvalid(f"{path} cannot be read: {why_unreadable(error)}") from error
    rows = [
        _read(line, f"{path.stem}/{number}", path) for number, line in enumerate(lines, 1) if line.strip()
    ]
    found = dict[str, QuestionRow]()
    for each in rows:
        found.setdefault(each.question.key, each)
    return tuple(found.values())


def _read(line: str, name: str, path: Path) -> QuestionRow:
    where = f"{path}, line {name.rpartition('/')[2]}"
    try:
        row = json.loads(line)
    except ValueError as error:
        raise RecordingInvalid(f"{where} is not JSON: {error}") from error
    if not isinstance(row, dict) or not isinstance(text := row.get("question"), str) or not text.strip():
        raise RecordingInvalid(f"{where} has no text under `question`")
    options, answer = row.get("options"), row.get("answer")
    question = Question(
        id=str(row.get("id", name)),
        kind=str(row.get("kind", path.stem)),
        level=str(row.get("level", "")),
        text=with_options(text, options) if isinstance(options, list) else text,
        expected=None if answer is None else str(answer),
    )
    return QuestionRow(question, row)
