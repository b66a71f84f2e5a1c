"""Chooses the grader of each question: from the command's options, or from the question's field `grader`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from podium.errors import ConfigError
from podium_evals.grading.code import code_grader
from podium_evals.grading.grader import Grader, GraderOf
from podium_evals.grading.graders import GRADERS
from podium_evals.grading.named_grader import find_grader

if TYPE_CHECKING:
    from podium_evals.recording import QuestionRow


def choose_graders(rows: Sequence["QuestionRow"], name: str | None, python: str | None) -> GraderOf:
    """Return the function that chooses the grader of a row.

    Args:
        rows: the questions.
        name: the grader of all rows: a name of `GRADERS`, `code`, `none`, or `MODULE:FUNCTION`; `None` uses
            each row's field `grader`, which must be a name and not a function.
        python: the interpreter that runs code in answers; `None` allows no code.

    Raises:
        ConfigError: there is no such grader, or answers are code and `python` is `None`.
    """
    if name is not None:
        chosen = _grader(name, python)
        return lambda _row: chosen
    named = dict.fromkeys(_named(each.row) for each in rows)
    if unknown := next((each for each in named if each not in (*GRADERS, "code", "none")), None):
        raise ConfigError(f"`grader` of a question is {unknown!r}: write {', '.join(GRADERS)}, code or none")
    graders = {each: _grader(each, python) for each in named}
    return lambda row: graders[_named(row)]


def _named(row: Mapping[str, Any]) -> str:
    return str(row.get("grader", "none"))


def _grader(name: str, python: str | None) -> Grader | None:
    if name == "none":
        return None
    if name == "code":
        if python is None:
            raise ConfigError(
                "the grader `code` runs the code in answers: allow it with --run-code python3, "
                "or record answers without a score with --grader none"
            )
        return code_grader(python)
    return find_grader(name)
