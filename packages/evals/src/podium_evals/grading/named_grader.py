"""Finds a grader by name: a grader of Podium, or the user's own function."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from podium.errors import ConfigError
from podium_evals.grading.grader import Grader
from podium_evals.grading.graders import GRADERS


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
