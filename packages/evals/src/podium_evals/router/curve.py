"""Computes the curve of a router: its quality and cost for different worths of a right answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from podium_evals.errors import RouterInvalid
from podium_evals.router.choice import choose
from podium_evals.router.score_table import ScoreTable
from podium_evals.router.text_scores import Floats
from podium_evals.statistics import Interval, Resampling

_POINTS = 80
_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """Quality and cost of a router for one worth of a right answer."""

    worth: float
    """The worth of a right answer, in USD."""
    quality: Interval
    """The mean score and its 95 % interval."""
    cost: Interval
    """The mean cost of a question, in USD, and its 95 % interval."""


@dataclass(frozen=True, slots=True)
class Goal:
    """The goal that a tier must reach: a quality or a price."""

    of: Literal["quality", "price"]
    """`quality`: a mean score, to be reached as cheaply as possible. `price`: a mean cost of a question in
    USD, for which the best score is wanted."""
    value: float


def quality_curve(
    table: ScoreTable, predicted: Floats, *, costs: Sequence[float | None], worths: Sequence[float] = ()
) -> tuple[CurvePoint, ...]:
    """Return quality and cost for many worths of a right answer, from cheap workers to good workers.

    Args:
        table: scores and costs on questions that the router was not fitted on.
        predicted: shape (questions, workers), the router's predictions for them.
        costs: the mean cost of an answer of each worker that the router knows, in USD.
        worths: the worths of a right answer, in USD. Default: 80 values that fit the costs.

    Raises:
        RouterInvalid: the price of a worker is not known, or there are fewer than two questions.
    """
    if unknown := [name for name, cost in zip(table.workers, costs, strict=True) if cost is None]:
        raise RouterInvalid(f"the cost of {unknown[0]!r} is not known: its price, or the tokens of an answer")
    if len(table.questions) < 2:
        raise RouterInvalid("a curve needs at least two questions")
    tried = worths or _worths([cost for cost in costs if cost is not None])
    chosen = [choose(predicted, costs, worth) for worth in tried]
    resampling = Resampling([question.kind for question in table.questions])
    qualities = _intervals(np.stack([table.scores_of(each) for each in chosen], axis=1), resampling)
    prices = _intervals(np.stack([table.costs_of(each) for each in chosen], axis=1), resampling)
    return tuple(
        CurvePoint(worth=worth, quality=quality, cost=cost)
        for worth, quality, cost in zip(tried, qualities, prices, strict=True)
    )


def reach(goal: Goal, curve: Sequence[CurvePoint]) -> CurvePoint:
    """Return the point of a curve that reaches a goal: the cheapest for a quality, the best for a price.

    Raises:
        RouterInvalid: no point reaches it.
    """
    if goal.of == "quality":
        enough = [point for point in curve if point.quality.mean >= goal.value]
        if enough:
            return min(enough, key=lambda point: (point.cost.mean, -point.quality.mean))
        most = max(curve, key=lambda point: point.quality.mean)
        raise RouterInvalid(
            f"no tier reaches a quality of {goal.value:g} where it was chosen: the best is "
            f"{most.quality.mean:.3f}, at ${most.cost.mean:.2g} a question"
        )
    cheap = [point for point in curve if point.cost.mean <= goal.value]
    if cheap:
        return max(cheap, key=lambda point: (point.quality.mean, -point.cost.mean))
    least = min(curve, key=lambda point: point.cost.mean)
    raise RouterInvalid(
        f"no tier costs ${goal.value:g} a question or less where it was chosen: the cheapest costs "
        f"${least.cost.mean:.2g}"
    )


def _worths(costs: Sequence[float]) -> list[float]:
    """Return worths from very low (only the cheapest worker answers) to very high (costs do not matter)."""
    apart = np.diff(np.unique(costs))
    if not len(apart):
        return [1.0]
    return [float(each) for each in np.geomspace(apart.min(), max(costs) * 1_000, _POINTS)]


def _intervals(values: Floats, resampling: Resampling) -> list[Interval]:
    """Return the interval of the mean of each column."""
    drawn = resampling.means(values)
    ends = np.quantile(drawn, [(1 - _CONFIDENCE) / 2, (1 + _CONFIDENCE) / 2], axis=0)
    columns = zip(values.mean(axis=0).tolist(), *ends.tolist(), strict=True)
    return [Interval(mean, low, high) for mean, low, high in columns]
