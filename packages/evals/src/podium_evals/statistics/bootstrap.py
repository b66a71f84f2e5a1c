"""Bootstrap intervals of means over questions. Either questions or whole kinds are resampled."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, t as student

Floats = NDArray[np.float64]
Unit = Literal["question", "kind"]
"""The unit that is resampled. A question: for claims about other questions of the same kinds. A kind with all
its questions: for claims about other kinds."""

_AT_ONCE = 2_000_000
"""Maximum number of weights in memory at the same time."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and its interval."""

    mean: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether the whole interval lies on one side of zero."""
        return self.low > 0 or self.high < 0


class Resampling:
    """Bootstrap draws of the questions. All arms are compared on the same draws.

    The paired bootstrap (Efron and Tibshirani, 1993) with questions as units, or the cluster bootstrap with
    kinds as units (Davison and Hinkley, 1997, section 3.8). Questions of one kind are similar, so an interval
    over questions makes no claim about other kinds.

    Args:
        kinds: the kind of each question.
        unit: the unit that is drawn.
        draws: the number of draws.
        seed: the seed of the random numbers. The same seed gives the same draws.

    Raises:
        ValueError: there are fewer than two questions, or kinds are drawn and there are fewer than two.
    """

    def __init__(
        self, kinds: Sequence[str], *, unit: Unit = "question", draws: int = 4000, seed: int = 0
    ) -> None:
        clusters = list(kinds) if unit == "kind" else range(len(kinds))
        names, self._member = np.unique(np.asarray(clusters), return_inverse=True)
        self.units, self.questions = len(names), len(kinds)
        if self.units < 2:
            raise ValueError(f"an interval needs at least two {unit}s: there are {self.units}")
        self._sizes = np.bincount(self._member, minlength=self.units).astype(np.float64)
        self._draws, self._seed = draws, seed

    def means(self, values: Floats) -> Floats:
        """Return the mean of each column in each draw.

        Args:
            values: shape (questions, columns).

        Returns:
            Shape (draws, columns).
        """
        sums = np.zeros((self.units, values.shape[1]))
        np.add.at(sums, self._member, values)
        return np.concatenate([(w @ sums) / (w @ self._sizes)[:, None] for w in self._weights()])

    def _weights(self) -> Iterator[Floats]:
        random = np.random.default_rng(self._seed)
        even = np.full(self.units, 1 / self.units)
        left = self._draws
        while left:
            now = min(left, max(1, _AT_ONCE // self.units))
            yield random.multinomial(self.units, even, size=now).astype(np.float64)
            left -= now


def intervals_of_means(
    columns: Sequence[Sequence[float]], resampling: Resampling, confidence: float = 0.95
) -> list[Interval]:
    """Return the mean of each column of values, with its percentile interval.

    Args:
        columns: each has one value for each question.
        resampling: the draws of the questions.
        confidence: the confidence of the intervals, such as 0.95.
    """
    if not columns:
        return []
    table = np.asarray(columns, dtype=np.float64).T
    ends = interval_ends(table.mean(axis=0), resampling.means(table), confidence, resampling.units)
    ends = np.clip(ends, table.min(axis=0), table.max(axis=0))
    return [
        Interval(float(mean), float(low), float(high))
        for mean, low, high in zip(table.mean(axis=0), *ends, strict=True)
    ]


def interval_ends(means: Floats, drawn: Floats, confidence: float, units: int) -> Floats:
    """Return the lower and the upper ends of the percentile intervals, shape (2, columns).

    Args:
        means: the means over the questions, shape (columns,).
        drawn: the means of the draws, shape (draws, columns).
        confidence: the confidence of the intervals, such as 0.95.
        units: the number of questions or kinds from which the draws were made.
    """
    ends: Floats = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    normal = norm.ppf((1 + confidence) / 2)
    wider: Floats = means + (ends - means) * (reach_of_few(normal, units) / normal)
    return wider


def reach_of_few(reach: float, units: int) -> float:
    """Return the number of standard errors for an interval of few units. For many units, it would be `reach`.

    With few units, the spread of the draws is too small, and itself uncertain: with 14 kinds, joint 95 %
    intervals missed the true value in 16 of 100 cases. Therefore the quantiles are those of Student's t, and
    the spread is multiplied by the square root of n / (n - 1), like the spread of a sample.
    """
    return float(student.isf(norm.sf(reach), units - 1) * (units / (units - 1)) ** 0.5)


def reach_of_many(reach: Floats, units: int) -> Floats:
    """Return the inverse of `reach_of_few`."""
    found: Floats = norm.isf(student.sf(reach / (units / (units - 1)) ** 0.5, units - 1))
    return found


def interval_of_mean(values: Sequence[float], resampling: Resampling, confidence: float = 0.95) -> Interval:
    """Return the mean over the questions of one value for each question, with its percentile interval."""
    return intervals_of_means([values], resampling, confidence)[0]
