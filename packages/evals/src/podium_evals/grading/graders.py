"""The graders by name. Each scores by a rule and without a model; each scores the empty text 0."""

import sys
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

from podium.errors import ConfigError, install_hint
from podium_evals.grading.answers import (
    Grader,
    GraderOf,
    final_answer,
    final_choice,
    numbers_in,
    right_answer,
    tagged_answer,
)
from podium_evals.grading.code import code_grader
from podium_evals.grading.mathematics import math

if TYPE_CHECKING:
    from podium_evals.recording import QuestionRow


def score_by_kind(row: Mapping[str, Any], answer: str) -> float:
    """Return the score by the grader of the question's kind, 0 to 1."""
    metadata = row.get("metadata")
    if not isinstance(metadata, Mapping) or "source_dataset" not in metadata:
        raise ConfigError(
            "the grader of Reasoning Gym needs `metadata` with `source_dataset` in each question"
        )
    try:
        from reasoning_gym import (  # type: ignore[import-untyped] # noqa: PLC0415 - needs an extra
            get_score_answer_fn,
        )
    except ImportError as error:
        hint = install_hint("podium-evals[reasoning-gym]")
        raise ConfigError(f"the grader of Reasoning Gym needs reasoning-gym: {hint}") from error
    if not answer:
        return 0.0
    kind, right = str(metadata["source_dataset"]), row.get("answer")
    score = get_score_answer_fn(kind)
    if right is not None and score(right, dict(row)) < 1:
        # The graders of `arc_agi` and `rearc` look for tuples, which JSON does not have.
        raise ConfigError(
            f"the grader of {kind!r} rejects the question's right answer: was the question in a JSON "
            f"file, which changes tuples to lists?"
        )
    return min(max(float(score(answer, dict(row))), 0.0), 1.0)


def _is_exact(row: Mapping[str, Any], answer: str) -> float:
    return float(_plain(answer) == _plain(right_answer(row)) != "")


def _is_number(row: Mapping[str, Any], answer: str) -> float:
    right, given = numbers_in(right_answer(row)), numbers_in(answer)
    if not right:
        raise ConfigError(f"the answer {row['answer']!r:.80} is not a number: choose another grader")
    return float(bool(given) and abs(given[-1] - right[-1]) <= abs(right[-1]) / 1_000_000)


def _is_choice(row: Mapping[str, Any], answer: str) -> float:
    right = right_answer(row).strip("(). ").upper()
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


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip("*`\"' ").removesuffix(".")


def find_grader(name: str) -> Grader:
    """Return the grader of this name.

    Args:
        name: a name of `GRADERS`, or `MODULE:FUNCTION`. The function's arguments are the row of a question (a
            dictionary) and the whole answer; it returns a score from 0 to 1. The module may be in the current
            folder.

    Raises:
        ConfigError: there is no such grader.
    """
    if name in GRADERS:
        return GRADERS[name]
    module, colon, function = name.partition(":")
    if not colon:
        told = ", ".join(GRADERS)
        raise ConfigError(f"--grader {name!r} is unknown: use one of {told}, or MODULE:FUNCTION")
    found = getattr(_imported(module, name), function, None)
    if not callable(found):
        raise ConfigError(f"--grader {name!r}: the module {module!r} has no function {function!r}")
    return Grader(lambda text: text, _checked(found, name))


def _imported(module: str, name: str) -> object:
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return import_module(module)
    except Exception as error:  # the module is the user's code
        told = f"{type(error).__name__}: {error}"
        raise ConfigError(f"--grader {name!r} cannot be imported: {told}") from error


def _checked(function: Callable[..., Any], name: str) -> Callable[[Mapping[str, Any], str], float]:
    def score(row: Mapping[str, Any], text: str) -> float:
        try:
            found = float(function(dict(row), text))
        except Exception as error:  # the function is the user's code
            told = f"{type(error).__name__}: {error}"
            question = str(row.get("question"))[:80]
            raise ConfigError(f"the grader {name!r} failed on the question {question!r}: {told}") from error
        if not 0 <= found <= 1:
            raise ConfigError(f"the grader {name!r} returned {found!r}: a score is a number from 0 to 1")
        return found

    return score


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


_LIBRARIES = ("math-verify", "reasoning-gym")
"""Libraries that score answers."""


def grader_version(name: str | None = None) -> str:
    """Return a digest of the code that scores answers; it changes whenever that code changes.

    Args:
        name: the name of a grader that `find_grader` has found. For `MODULE:FUNCTION`, the file of the module
            is part of the digest, but not what it imports. All other names have the same version, the one
            of Podium's graders and their libraries.
    """
    digest = sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    for library in _LIBRARIES:
        try:
            digest.update(f"{library} {version(library)}".encode())
        except PackageNotFoundError:
            continue
    module, colon, _ = (name or "").partition(":")
    file = sys.modules[module].__file__ if colon else None
    if file is not None:
        digest.update(Path(file).read_bytes())
    return digest.hexdigest()[:16]
