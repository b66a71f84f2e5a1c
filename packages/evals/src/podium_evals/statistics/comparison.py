"""Compares arms with one of them, with intervals that hold for all comparisons together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from podium_evals.statistics.bootstrap import (
    Floats,
    Interval,
    Resampling,
    interval_ends,
    reach_of_few,
    reach_of_many,
)


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between the scores of two arms.

    Attributes:
        alone: the difference with the percentile interval for this comparison alone.
        together: the joint interval, which holds for all comparisons of the table together.
        p: the probability that some comparison shows a difference this large although all arms are equal.
    """

    alone: Interval
    together: Interval
    p: float


def compare(
    scores: Mapping[str, Sequence[float]],
    resampling: Resampling,
    *,
    against: str,
    confidence: float = 0.95,
) -> dict[str, Difference]:
    """Return the difference of each other arm to `against`, paired by question.

    The joint intervals use the largest studentized difference of each draw (single-step max-T of Westfall and
    Young, 1993). If arms are similar, these intervals are narrower than Bonferroni's.

    Args:
        scores: for each arm, its scores of all questions, in the same order. The caller gives 0 for a
            question that an arm did not answer, and leaves no question out.
        resampling: the draws of the questions, in the same order. Its unit decides whether the intervals are
            about other questions or about other kinds.
        against: the arm to compare the others with.
        confidence: of the intervals, such as 0.95.

    Raises:
        KeyError: `against` is not an arm.
        ValueError: an arm has more or fewer scores than there are questions.
    """
    table = {name: np.asarray(column, dtype=np.float64) for name, column in scores.items()}
    for name, column in table.items():
        if len(column) != resampling.questions:
            raise ValueError(f"arm {name!r} has {len(column)} scores for {resampling.questions} questions")
    base = table.pop(against)
    if not table:
        return {}
    differences = np.stack([column - base for column in table.values()], axis=1)
    drawn = resampling.means(differences)
    found = _differences(differences.mean(axis=0), drawn, confidence, resampling.units)
    return dict(zip(table, found, strict=True))


def _differences(means: Floats, drawn: Floats, confidence: float, units: int) -> list[Difference]:
    tails = interval_ends(means, drawn, confidence, units)
    errors = drawn.std(axis=0, ddof=1)
    certain = errors == 0  # the difference is the same in every question, so all draws are equal
    scale = np.where(certain, 1, errors)
    largest = np.abs((drawn - means) / scale).max(axis=1)
    reach = reach_of_few(float(np.quantile(largest, confidence)), units) * errors
    sizes = np.where(certain, np.where(means == 0, 0, np.inf), np.abs(means) / scale)
    sizes = reach_of_many(sizes, units)
    return [
        Difference(
            alone=Interval(float(mean), float(low), float(high)),
            together=Interval(float(mean), float(mean - far), float(mean + far)),
            # the observed difference counts as a draw, so that the probability is never zero
            p=float((1 + (largest >= size).sum()) / (1 + len(largest))),
        )
        for mean, low, high, far, size in zip(means, *tails, reach, sizes, strict=True)
    ]
