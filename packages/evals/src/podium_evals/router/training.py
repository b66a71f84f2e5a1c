"""Trains a router, and measures its gain on questions that it was not fitted on."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from podium_evals.errors import RouterInvalid
from podium_evals.recorded import Recordings
from podium_evals.results import rounding
from podium_evals.router.choice import choose
from podium_evals.router.curve import CurvePoint, Goal, quality_curve
from podium_evals.router.fitting import LEAST_QUESTIONS, Fitted, fit_table
from podium_evals.router.found_kinds import find_kinds, has_kinds
from podium_evals.router.router import Router
from podium_evals.router.score_table import Prices, ScoreTable
from podium_evals.router.text_scores import Floats
from podium_evals.router.tiers import Tier, tier_of
from podium_evals.statistics import Interval, Resampling, Unit, halves, interval_of_mean, leave_kinds_out

_KIND_FOLDS = 5
_BINS = 10
New = Literal["questions", "kinds", "clusters"]
"""What is new to a router: only the questions, also their kinds, or also their clusters. Clusters replace the
kinds of questions without kinds. Clusters of one task are similar, so they show less than kinds."""
OnPart = Callable[[str], object]
"""Called with the name of each part of the work before the part begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    """Figures about a worker, on the half of the questions that the measured router was not fitted on."""

    name: str
    score: float
    """The mean score of the worker's answers."""
    cost: float | None
    """The mean cost of the worker's answers, in USD; `None` if its price is not known."""
    calibration_error_before: float
    """The expected calibration error of the predictions before calibration, 0 to 1."""
    calibration_error: float
    """The expected calibration error of the calibrated predictions, 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """The gain of a router over the best single worker, on questions that it was not fitted on."""

    new: New
    """What is new to the router."""
    questions: int
    best: str
    """The worker with the best score on the questions of the fit; of several fits, the most frequent such
    worker."""
    best_score: float
    router_score: float
    difference: Interval
    """The difference of the mean scores, and its 95 % interval about other questions or other kinds."""

    @property
    def sentence(self) -> str:
        """The conclusion as a sentence."""
        low, high = rounding.interval(self.difference).split()
        on = f"On {self.questions:,} questions" + ("" if self.new == "questions" else f" of new {self.new}")
        if self.difference.low > 0:
            return f"{on} the router gains {low} to {high} over {self.best}."
        if self.difference.high < 0:
            return f"{on} the router loses: {low} to {high} against {self.best}. Use {self.best} alone."
        return (
            f"{on} no gain over {self.best} is shown ({low} to {high}). For such questions, use "
            f"{self.best} alone."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingReport:
    """The report of a training."""

    questions: int
    kinds: int
    kinds_are_found: bool
    """Whether the kinds were found by clustering, because the questions have none."""
    fingerprint: str
    workers: tuple[WorkerReport, ...]
    gains: tuple[Gain, ...]
    """The gain on new questions; and on new kinds or clusters, if there are enough of them."""
    rates: dict[str, dict[str, float]]
    """The mean score of each worker on each kind, over all questions."""
    counts: dict[str, int]
    """Number of questions of each kind."""
    tier: Tier | None
    """`None` if no goal was set."""
    curve: tuple[CurvePoint, ...]
    """The curve of quality over cost, on the half that the measured router was not fitted on; empty if a
    price is not known."""
    is_estimated: bool
    """Whether the tokens and costs of some answers are estimated from texts."""

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values, unrounded."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Training:
    """The result of a training: a router that is fitted on all questions, and a report."""

    router: Router
    report: TrainingReport


def train_router(
    recordings: Recordings,
    *,
    prices: Prices | None = None,
    goal: Goal | None = None,
    seed: int = 0,
    on_part: OnPart = lambda _part: None,
) -> Training:
    """Fit a router on a recording, and measure it.

    To measure the gain on new questions, a router is fitted on half of the questions of each kind, and
    measured on the other half. Its out-of-fold predictions choose the tier. To measure the gain on new kinds,
    five routers are fitted, each without a fifth of the kinds. The returned router is fitted on all
    questions.

    Args:
        recordings: graded answers. Each worker has answered each question.
        prices: the prices of the workers; `None` is the table of this package.
        goal: the goal that the tier must reach; `None` stores no tier.
        seed: the seed of splits and folds.
        on_part: called before each part of the work, to show progress.

    Raises:
        RouterInvalid: there are fewer than 40 questions or two workers, an answer is missing, an answer has
            no score, or the goal cannot be reached.
        RecordingInvalid: the recording is empty.
    """
    kinds_are_found = not has_kinds(recordings)
    if kinds_are_found:
        on_part("kinds")
        recordings = find_kinds(recordings, seed=seed)
    table = ScoreTable.of(recordings, prices)
    if len(table.questions) < 2 * LEAST_QUESTIONS:
        raise RouterInvalid(
            f"training needs at least {2 * LEAST_QUESTIONS} graded questions that all workers have answered, "
            f"because half of them measure the router: there are {len(table.questions)}"
        )
    on_part("half of the questions")
    half, rest = (table.at(places) for places in halves(table.questions, seed=seed))
    fitted = fit_table(half, seed=seed)
    predicted = fitted.router.predict_all(rest.texts)
    curve = _curve(rest, predicted, fitted)
    costs = fitted.router.facts.costs
    tier = None
    if goal is not None:
        on_half = quality_curve(half, fitted.out_of_fold, costs=costs)
        tier = tier_of(goal, on_half, rest, predicted, costs)
    gains = [_gain("questions", rest, choose(predicted, half.mean_costs), [_best(half)] * len(predicted))]
    gains.extend(_gain_on_kinds(table, "clusters" if kinds_are_found else "kinds", seed, on_part))
    on_part("all questions")
    router = fit_table(table, seed=seed).router
    if tier is not None:
        router = Router(replace(router.facts, worth=tier.chosen.worth), router.scores)
    rates, counts = _rates(table)
    report = TrainingReport(
        questions=len(table.questions),
        kinds=len(counts),
        kinds_are_found=kinds_are_found,
        fingerprint=table.fingerprint,
        workers=_workers(rest, predicted, fitted.router),
        gains=tuple(gains),
        rates=rates,
        counts=counts,
        tier=tier,
        curve=curve,
        is_estimated=any(sample.usage is None for each in recordings for sample in each.samples),
    )
    return Training(router, report)


def expected_calibration_error(predicted: Floats, scores: Floats) -> float:
    """Return the mean distance between predictions and scores, computed in ten bins of equal width.

    The bins are weighted by their number of questions (Naeini, Cooper and Hauskrecht, 2015).

    Args:
        predicted: shape (questions,), 0 to 1.
        scores: shape (questions,), 0 to 1.
    """
    bins = np.minimum((predicted * _BINS).astype(np.int64), _BINS - 1)
    gaps = np.bincount(bins, weights=predicted - scores, minlength=_BINS)
    return float(np.abs(gaps).sum() / len(scores))


def _workers(rest: ScoreTable, predicted: Floats, router: Router) -> tuple[WorkerReport, ...]:
    raw = router.scores.predict(rest.texts).clip(0, 1)
    return tuple(
        WorkerReport(
            name=name,
            score=float(rest.scores[:, n].mean()),
            cost=rest.mean_costs[n],
            calibration_error_before=expected_calibration_error(raw[:, n], rest.scores[:, n]),
            calibration_error=expected_calibration_error(predicted[:, n], rest.scores[:, n]),
        )
        for n, name in enumerate(rest.workers)
    )


def _best(table: ScoreTable) -> int:
    return int(table.scores.mean(axis=0).argmax())


def _gain_on_kinds(table: ScoreTable, new: New, seed: int, on_part: OnPart) -> list[Gain]:
    """Return the gain on new kinds; `None` if there are too few kinds to leave some out."""
    count = len({question.kind for question in table.questions})
    folds = min(_KIND_FOLDS, count)
    if folds < 2:
        return []
    chosen = np.zeros(len(table.questions), dtype=np.int64)
    best = chosen.copy()
    for number, (places, out) in enumerate(leave_kinds_out(table.questions, folds=folds, seed=seed), 1):
        on_part(f"kinds left out, {number} of {folds}")
        others, left_out = table.at(places), table.at(out)
        try:
            router = fit_table(others, seed=seed).router
        except RouterInvalid:
            return []  # too few questions are left without these kinds
        chosen[out] = choose(router.predict_all(left_out.texts), others.mean_costs)
        best[out] = _best(others)
    return [_gain(new, table, chosen, best.tolist())]


def _gain(new: New, table: ScoreTable, chosen: np.ndarray[Any, Any], best: list[int]) -> Gain:
    routed, single = table.scores_of(chosen), table.scores_of(np.asarray(best))
    unit: Unit = "question" if new == "questions" else "kind"
    resampling = Resampling([question.kind for question in table.questions], unit=unit)
    return Gain(
        new=new,
        questions=len(table.questions),
        best=table.workers[int(np.bincount(best).argmax())],
        best_score=float(single.mean()),
        router_score=float(routed.mean()),
        difference=interval_of_mean((routed - single).tolist(), resampling),
    )


def _curve(rest: ScoreTable, predicted: Floats, fitted: Fitted) -> tuple[CurvePoint, ...]:
    costs = fitted.router.facts.costs
    return () if None in costs else quality_curve(rest, predicted, costs=costs)


def _rates(table: ScoreTable) -> tuple[dict[str, dict[str, float]], dict[str, int]]:
    rows = defaultdict[str, list[int]](list)
    for number, question in enumerate(table.questions):
        rows[question.kind].append(number)
    rates = {
        kind: dict(zip(table.workers, table.scores[rows[kind]].mean(axis=0).tolist(), strict=True))
        for kind in sorted(rows)
    }
    return rates, {kind: len(rows[kind]) for kind in sorted(rows)}
