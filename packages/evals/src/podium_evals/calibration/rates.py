"""Estimates each worker's rate of right answers, and its probability to be the best worker.

The share of a worker's right answers to a kind has a beta distribution. Before the first answer, the mean of
the distribution is the prior, which weighs as much as `PRIOR_WEIGHT` answers (Gelman et al., Bayesian Data
Analysis, 3rd edition, section 2.4). A score between 0 and 1 counts as this part of a right answer. Arrays
have one value for each worker.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

Floats = NDArray[np.float64]
PRIOR_WEIGHT = 3.0
"""The weight of the prior, in answers."""
_DRAWS = 2000
_SURE = 1e-3
"""Smallest parameter of a beta distribution, which must be positive even if all answers are right, or
none."""


@dataclass(frozen=True, slots=True)
class Tally:
    """The number of graded answers of a worker on a kind, and how many are right."""

    right: float = 0.0
    """The sum of the scores."""
    answers: int = 0

    def plus(self, score: float) -> "Tally":
        """Return the tally with one more answer."""
        return Tally(self.right + score, self.answers + 1)


Tallies = Mapping[str, Mapping[str, Tally]]
"""The tally of each worker, by kind."""


def priors(workers: Sequence[str], kind: str, tallies: Tallies) -> Floats:
    """Return the expected rates of workers on a kind before their first answer.

    The expected rate of a worker is its share of right answers on the other kinds. A worker without such
    answers gets the share of all workers on the other kinds. If there are no other kinds, the rate is one
    half. One right and one wrong answer are added to each share, so that no rate is 0 or 1.
    """
    others = [found for name, found in tallies.items() if name != kind]
    of_all = _share([tally for of_kind in others for tally in of_kind.values()])
    found = []
    for worker in workers:
        answered = [of_kind[worker] for of_kind in others if of_kind.get(worker, Tally()).answers]
        found.append(_share(answered) if answered else of_all)
    return np.asarray(found)


def _share(tallies: Collection[Tally]) -> float:
    return (sum(each.right for each in tallies) + 1) / (sum(each.answers for each in tallies) + 2)


def estimates(prior: Floats, right: Floats, answers: Floats) -> Floats:
    """Return the mean of each posterior."""
    return (PRIOR_WEIGHT * prior + right) / (PRIOR_WEIGHT + answers)


def intervals(
    prior: Floats, right: Floats, answers: Floats, confidence: float = 0.95
) -> tuple[Floats, Floats]:
    """Return the lower and the upper ends of the central intervals of the posteriors."""
    for_right, for_wrong = _posterior(prior, right, answers)
    tail = (1 - confidence) / 2
    return betaincinv(for_right, for_wrong, tail), betaincinv(for_right, for_wrong, 1 - tail)


def best_chances(prior: Floats, right: Floats, answers: Floats) -> Floats:
    """Return for each worker the probability that its rate is the highest.

    The probability is the share of draws from the posteriors in which the worker is the best. The random
    numbers are always the same.
    """
    for_right, for_wrong = _posterior(prior, right, answers)
    drawn = np.random.default_rng(0).beta(for_right, for_wrong, size=(_DRAWS, len(for_right)))
    return np.bincount(drawn.argmax(axis=1), minlength=len(for_right)) / _DRAWS


def _posterior(prior: Floats, right: Floats, answers: Floats) -> tuple[Floats, Floats]:
    return PRIOR_WEIGHT * prior + right + _SURE, PRIOR_WEIGHT * (1 - prior) + answers - right + _SURE
