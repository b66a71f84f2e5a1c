"""Fits a router on a recording, and calibrates its predictions."""

from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import LogisticRegression

from podium_evals.errors import RouterInvalid
from podium_evals.recorded import Recordings
from podium_evals.router.router import Router, RouterFacts, calibrated
from podium_evals.router.score_table import ScoreTable
from podium_evals.router.text_scores import Floats, TextScores
from podium_evals.statistics.splits import Places

LEAST_QUESTIONS = 20
FOLDS = 4


@dataclass(frozen=True, slots=True)
class Fitted:
    """A router, and its out-of-fold predictions for the questions it was fitted on."""

    router: Router
    out_of_fold: Floats
    """Shape (questions, workers). Each question is predicted by a regression that was fitted on the other
    folds. Predictions are calibrated like the router's."""


def fit_router(recordings: Recordings, *, seed: int = 0) -> Router:
    """Fit a router on recorded answers.

    Each question is predicted by a ridge regression that is fitted on the other three of four folds. These
    predictions decide the penalty. They also calibrate each worker: a logistic regression of the scores on
    the predictions (Platt scaling) turns predictions into probabilities. The router's own regression is
    fitted on all questions.

    Args:
        recordings: graded answers. Each worker has answered each question.
        seed: the seed of the folds.

    Raises:
        RouterInvalid: there are fewer than 20 questions or two workers, an answer is missing, or an answer
            has no score.
    """
    return fit_table(ScoreTable.of(recordings), seed=seed).router


def fit_table(table: ScoreTable, *, seed: int = 0) -> Fitted:
    """Fit a router on a table, as `fit_router` does.

    Raises:
        RouterInvalid: there are fewer than 20 questions or two workers.
    """
    if len(table.workers) < 2 or len(table.questions) < LEAST_QUESTIONS:
        told = f"{len(table.questions)} questions and {len(table.workers)} workers"
        raise RouterInvalid(
            f"a router is fitted on at least {LEAST_QUESTIONS} questions of 2 workers: there are {told}"
        )
    try:
        scores, alpha, raw = TextScores.fit(table.texts, table.scores, _folds(table, seed))
    except ValueError as error:  # texts of single letters and signs contain no terms
        raise RouterInvalid(f"the questions cannot be told apart by their words: {error}") from error
    calibrations = [_calibrated(raw[:, n], table.scores[:, n]) for n in range(len(table.workers))]
    facts = RouterFacts(
        workers=table.workers,
        costs=table.mean_costs,
        questions=len(table.questions),
        kinds=len({question.kind for question in table.questions}),
        fingerprint=table.fingerprint,
        alpha=alpha,
        calibrations=tuple(calibrations),
    )
    return Fitted(Router(facts, scores), calibrated(raw, calibrations))


def _folds(table: ScoreTable, seed: int) -> Places:
    """Return the fold of each question; questions that share a split key share their fold."""
    positions = np.asarray([question.position(seed) for question in table.questions])
    return np.asarray(np.unique(positions, return_inverse=True)[1] % FOLDS, dtype=np.int64)


def _calibrated(predicted: Floats, scores: Floats) -> tuple[float, float]:
    """Return the slope and the intercept that turn a worker's predictions into probabilities.

    A score of 0.7 counts as 0.7 right answers and 0.3 wrong answers.
    """
    values = predicted.reshape(-1, 1)
    fitted = LogisticRegression(C=100).fit(
        np.concatenate([values, values]),
        np.repeat([1, 0], len(scores)),
        sample_weight=np.concatenate([scores, 1 - scores]),
    )
    return float(fitted.coef_[0, 0]), float(fitted.intercept_[0])
