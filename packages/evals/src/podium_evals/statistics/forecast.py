"""What is expected of further draws, from the draws so far: the basis of forecasts of cost and duration."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf, isinf, sqrt
from statistics import fmean, stdev
from typing import Self


@dataclass(frozen=True, slots=True)
class Expected:
    """An expected sum with its 95 % prediction interval. Sums of independent parts add up with `+`."""

    mean: float
    deviation: float
    """Half of the interval's width; infinite if too little was measured."""

    @classmethod
    def sum_of(cls, values: Sequence[float], count: float) -> Self:
        """Return the expected sum of further draws.

        The interval is for a sum of independent normal draws with an estimated mean and variance. It does not
        hold if later draws are different from the first ones.

        Args:
            values: the draws so far, at least one; with fewer than three, the interval is infinite.
            count: number of further draws.
        """
        measured = len(values)
        if not count:
            return cls(0.0, 0.0)
        if measured < 3:
            return cls(fmean(values) * count, inf)
        from scipy.stats import t as student  # noqa: PLC0415 - takes a second to import

        quantile = float(student.ppf(0.975, measured - 1))
        return cls(fmean(values) * count, quantile * stdev(values) * sqrt(count + count**2 / measured))

    @property
    def low(self) -> float:
        """The lower end of the interval of an amount that cannot be negative."""
        return max(0.0, self.mean - self.deviation)

    @property
    def high(self) -> float:
        """The upper end."""
        return self.mean + self.deviation

    def told(self, shown: Callable[[float], str]) -> str:
        """Return the sum with its interval, as in `$0.40 ($0.35 to $0.46)`.

        Args:
            shown: formats an amount.
        """
        if isinf(self.deviation):
            return f"about {shown(self.mean)}"
        return f"{shown(self.mean)} ({shown(self.low)} to {shown(self.high)})"

    def __add__(self, other: "Expected") -> "Expected":
        """Return the sum of two independent sums."""
        return Expected(self.mean + other.mean, sqrt(self.deviation**2 + other.deviation**2))

    def __mul__(self, factor: float) -> "Expected":
        """Return the sum in another unit."""
        return Expected(self.mean * factor, self.deviation * factor)


def total(parts: Iterable[Expected]) -> Expected:
    """Return the sum of independent sums."""
    return sum(parts, Expected(0.0, 0.0))
