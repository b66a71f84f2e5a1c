"""The interface of graders: a grader finds the final answer in a text, and scores it."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio.to_thread
from anyio import CapacityLimiter
from anyio.lowlevel import RunVar


@dataclass(frozen=True, slots=True)
class Grader:
    """Scores the text of a worker. It may be called as a function."""

    read: Callable[[str], str]
    """Finds the final answer in a text; returns an empty text if there is none."""
    compare: Callable[[Mapping[str, Any], str], float]
    """Scores a final answer from 0 to 1. The arguments are the answer, and the question's row with the right
    answer under `answer`."""
    is_slow: bool = False
    """Whether the grader waits for another process. Such a grader is run in a thread."""

    def __call__(self, row: Mapping[str, Any], text: str) -> float:
        """Return the score of a text, 0 to 1.

        Raises:
            ConfigError: the row cannot be graded by this grader.
        """
        return self.compare(row, self.read(text))


GraderOf = Callable[[Mapping[str, Any]], Grader | None]
"""Chooses the grader of a question's row. `None` leaves the answers to this question without a score."""


def grader_of(grader: Grader | GraderOf | None) -> GraderOf:
    """Return a function that returns `grader` for each row; `grader` itself if it is such a function."""
    if grader is None or isinstance(grader, Grader):
        return lambda _row: grader
    return grader


async def grade(grader: Grader, row: Mapping[str, Any], text: str) -> tuple[str, float]:
    """Return the final answer in a text, and the score. A slow grader runs in a thread.

    Raises:
        ConfigError: the row cannot be graded by this grader.
    """
    if not grader.is_slow:
        return grader.read(text), grader(row, text)
    limiter = _slots()
    return await anyio.to_thread.run_sync(lambda: (grader.read(text), grader(row, text)), limiter=limiter)


_LIMITER: RunVar[CapacityLimiter] = RunVar("podium_evals_grading")


def _slots() -> CapacityLimiter:
    """Return the limiter of slow graders of this event loop: one for each core."""
    try:
        return _LIMITER.get()
    except LookupError:
        limiter = CapacityLimiter(os.cpu_count() or 1)
        _LIMITER.set(limiter)
        return limiter
