"""Decides which workers are asked the next question of a kind.

A worker that is unlikely to be the best is asked no more questions, as in successive elimination (Even-Dar,
Mannor and Mansour, Action Elimination and Stopping Conditions for the Multi-Armed Bandit and Reinforcement
Learning Problems, JMLR 7, 2006). There are three differences. The posterior probability to be the best
decides, not a confidence bound. A worker that was left out is asked again if the others get worse. Every
worker answers the first question.
"""

import numpy as np
from numpy.typing import NDArray

from podium_evals.calibration.rates import Floats, best_chances

LEAST_CHANCE = 0.1
"""Minimum probability to be the best worker; less likely workers are not asked the next question."""


def asked_next(prior: Floats, right: Floats, answers: Floats) -> NDArray[np.bool_]:
    """Return for each worker whether it is asked the next question.

    No worker is asked if only one is still likely to be the best.

    Args:
        prior: the expected rate of each worker before its first answer.
        right: the sum of each worker's scores on the earlier questions.
        answers: the number of each worker's answers to the earlier questions.
    """
    if not answers.any():
        return np.ones(len(prior), dtype=bool)
    likely = best_chances(prior, right, answers) >= LEAST_CHANCE
    return likely if likely.sum() > 1 else np.zeros(len(prior), dtype=bool)
