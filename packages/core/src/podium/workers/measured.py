"""The measured rates of a worker: its share of right answers on each kind of questions.

`podium calibrate` measures the rates. Planners read the rates on the cards of workers, and choose workers by
them.
"""

from dataclasses import dataclass
from datetime import date


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of questions, such as riddles."""

    name: str
    questions: tuple[str, ...]
    """The questions with which the kind was measured. Another question belongs to the kind if it is similar
    to one of these questions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRate:
    """The share of a worker's answers to a kind of questions that were right."""

    kind: Kind
    rate: float
    """The estimated rate, 0 to 1. It is between the measured share and the worker's rate on other kinds. With
    more answers, it is nearer to the measured share."""
    low: float
    """The lower end of the 95 % interval of the rate."""
    high: float
    """The upper end of the 95 % interval of the rate."""
    right: float
    """The sum of the scores of the answers; a score is 0 to 1."""
    answers: int
    """The number of graded answers."""
    measured_on: date
    """The day of the latest answer."""
