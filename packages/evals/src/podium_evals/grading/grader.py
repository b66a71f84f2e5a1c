"""What a grader is: it reads the final answer in a text, and scores it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Grader:
    """Scores what a worker wrote."""

    read: Callable[[str], str]
    """Finds the final answer in a text; empty if there is none."""
    compare: Callable[[Mapping[str, Any], str], float]
    """Scores a final answer, 0 to 1. It is given the question's row, with the right answer under `answer`."""

    def __call__(self, row: Mapping[str, Any], text: str) -> float:
        """Return the score of a text, 0 to 1.

        Raises:
            ConfigError: the row cannot be graded by this grader.
        """
        return self.compare(row, self.read(text))
