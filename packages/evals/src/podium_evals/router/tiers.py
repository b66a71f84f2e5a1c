"""Tiers of a router: thresholds for a wanted quality or price, and the curve of quality over cost."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from podium_evals.errors import RouterInvalid
from podium_evals.recorded import Recordings
from podium_evals.router.curve import CurvePoint, Goal, quality_curve, reach
from podium_evals.router.fitting import fit_table
from podium_evals.router.router import Router
from podium_evals.router.score_table import ScoreTable
from podium_evals.router.text_scores import Floats
from podium_evals.statistics import halves


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """The tier that was chosen for a goal, and what it reaches."""

    goal: Goal
    chosen: CurvePoint
    """The point that reaches the goal, on the half of the questions on which it was chosen."""
    reached: CurvePoint
    """The point with the same worth on the other half of the questions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneWorker:
    """A single worker, on the half of the questions that the router was not fitted on."""

    name: str
    score: float
    """The mean score of the worker's answers."""
    cost: float
    """The mean cost of the worker's answers, in USD."""
    is_best: bool
    """Whether the worker is the best one on the half that the router was fitted on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiers:
    """The tiers and the curve of one router."""

    curve: tuple[CurvePoint, ...]
    """The single workers, on the half of the questions that the router was not fitted on."""
    workers: tuple[OneWorker, ...]
    tiers: tuple[Tier, ...]
    """A tier for each goal that can be reached on the half on which tiers are chosen."""
    unreached: tuple[tuple[Goal, str], ...]
    """The goals that cannot be reached, and messages that say what can be reached."""


def measure_tiers(
    recordings: Recordings, *, above_best: Sequence[float], prices: Sequence[float], seed: int = 0
) -> Tiers:
    """Fit a router and choose tiers on half of the questions of each kind; measure them on the other half.

    Args:
        recordings: graded answers. Each worker has answered each question, and its price is known.
        above_best: goals of quality, as differences to the score of the best worker on the fitted half.
        prices: goals of price, in USD for a question.
        seed: the seed of the halves and folds.

    Raises:
        RouterInvalid: there are too few questions or workers, an answer is missing, an answer has no score,
            or a price is not known.
    """
    table = ScoreTable.of(recordings)
    half, rest = (table.at(places) for places in halves(table.questions, seed=seed))
    fitted = fit_table(half, seed=seed)
    predicted = fitted.router.predict_all(rest.texts)
    best = int(half.scores.mean(axis=0).argmax())
    least = float(half.scores[:, best].mean())
    goals = [Goal("quality", least + more) for more in above_best] + [Goal("price", each) for each in prices]
    costs = fitted.router.facts.costs
    on_half = quality_curve(half, fitted.out_of_fold, costs=costs)
    tiers: list[Tier] = []
    unreached: list[tuple[Goal, str]] = []
    for goal in goals:
        try:
            tiers.append(tier_of(goal, on_half, rest, predicted, costs))
        except RouterInvalid as error:
            unreached.append((goal, str(error)))
    alone = zip(rest.workers, rest.scores.mean(axis=0).tolist(), rest.mean_costs, strict=True)
    return Tiers(
        curve=quality_curve(rest, predicted, costs=costs),
        workers=tuple(
            OneWorker(name=name, score=score, cost=cost or 0.0, is_best=place == best)
            for place, (name, score, cost) in enumerate(alone)
        ),
        tiers=tuple(tiers),
        unreached=tuple(unreached),
    )


def fit_for(goal: Goal, recordings: Recordings, *, seed: int = 0) -> Router:
    """Fit a router with the worth of a right answer that reaches a goal out of fold.

    Args:
        goal: the goal.
        recordings: graded answers. Each worker has answered each question, and its cost is known.
        seed: the seed of the folds.

    Raises:
        RouterInvalid: no worth reaches the goal, there are too few questions, or a cost is not known.
    """
    table = ScoreTable.of(recordings)
    fitted = fit_table(table, seed=seed)
    chosen = reach(goal, quality_curve(table, fitted.out_of_fold, costs=fitted.router.facts.costs))
    return Router(replace(fitted.router.facts, worth=chosen.worth), fitted.router.scores)


def tier_of(
    goal: Goal,
    on_half: Sequence[CurvePoint],
    rest: ScoreTable,
    predicted: Floats,
    costs: Sequence[float | None],
) -> Tier:
    """Return the tier that reaches a goal.

    Args:
        goal: the goal.
        on_half: the curve on the questions that the router was fitted on, computed from out-of-fold
            predictions.
        rest: the other questions.
        predicted: the router's predictions for the other questions.
        costs: the mean cost of an answer of each worker, in USD.

    Raises:
        RouterInvalid: the goal cannot be reached, or a price is not known.
    """
    chosen = reach(goal, on_half)
    (reached,) = quality_curve(rest, predicted, costs=costs, worths=[chosen.worth])
    return Tier(goal=goal, chosen=chosen, reached=reached)
