"""Chooses the worker: the one with the best prediction, or the one that is worth its price."""

from collections.abc import Sequence

import numpy as np

from podium_evals.router.text_scores import Floats
from podium_evals.statistics.splits import Places


def choose(predicted: Floats, costs: Sequence[float | None], worth: float | None = None) -> Places:
    """Return the column of the worker that answers each question.

    The chosen worker has the highest `prediction - cost / worth`. A more expensive worker is chosen if it
    raises the probability of a right answer enough for its price. Of equal workers, the cheapest is chosen.

    Args:
        predicted: shape (questions, workers), the probabilities of a right answer.
        costs: the mean cost of an answer of each worker, in USD. With a `worth`, all costs must be known.
        worth: the worth of a right answer, in USD. `None` chooses by predictions, and by costs only between
            equal workers.
    """
    known = np.asarray([np.inf if cost is None else cost for cost in costs])
    values = predicted if worth is None else predicted - known / worth
    cheapest_first = np.argsort(known, kind="stable")
    chosen: Places = cheapest_first[values[:, cheapest_first].argmax(axis=1)]
    return chosen
