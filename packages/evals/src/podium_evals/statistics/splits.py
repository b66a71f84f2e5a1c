"""Splits questions into two parts: arms are fitted on one part and scored on the other."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from podium_evals.recorded import Question

Places = NDArray[np.int64]
"""Places of questions in their sequence, ascending."""


def halves(questions: Sequence[Question], *, seed: int = 0) -> tuple[Places, Places]:
    """Return the places of the questions in two halves. Each kind is halved.

    Questions that share a split key are in the same half. If a kind has an odd number of questions, the
    second half has one more.
    """
    kinds = np.asarray([question.kind for question in questions])
    positions = np.asarray([question.position(seed) for question in questions])
    is_first = np.zeros(len(questions), dtype=bool)
    for kind in np.unique(kinds):
        members = np.flatnonzero(kinds == kind)
        middle = np.sort(positions[members])[len(members) // 2]
        is_first[members] = positions[members] < middle
    return np.flatnonzero(is_first), np.flatnonzero(~is_first)


def leave_kinds_out(
    questions: Sequence[Question], *, folds: int, seed: int = 0
) -> Iterator[tuple[Places, Places]]:
    """Yield for each fold the places of the questions to fit on, and of the questions left out.

    All questions of a kind are left out in the same fold. Each kind is left out once.

    Raises:
        ValueError: there are fewer than two folds, or fewer kinds than folds.
    """
    kinds = np.asarray([question.kind for question in questions])
    order = np.random.default_rng(seed).permutation(np.unique(kinds))
    if not 2 <= folds <= len(order):
        raise ValueError(f"cannot leave {len(order)} kinds out in {folds} folds")
    for left_out in np.array_split(order, folds):
        is_out = np.isin(kinds, left_out)
        yield np.flatnonzero(~is_out), np.flatnonzero(is_out)


def cross_fit(
    questions: Sequence[Question],
    fit_and_score: Callable[[Places, Places], Sequence[float]],
    *,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Return a score for each question. The scored function is fitted on the half without the question.

    A choice that is scored on the questions of its fit mistakes noise for skill (the winner's curse).

    Args:
        questions: the questions.
        fit_and_score: called with the places to fit on and the places to score; returns the scores at the
            latter.
        seed: the seed of the halves.
    """
    scores = np.empty(len(questions))
    first, second = halves(questions, seed=seed)
    scores[second] = fit_and_score(first, second)
    scores[first] = fit_and_score(second, first)
    return scores
