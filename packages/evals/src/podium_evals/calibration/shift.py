"""Combines the predictions of a router with the measured rates on cards."""

from collections.abc import Mapping, Sequence

from podium.workers import Card
from podium.workers.rates import kind_of, measured_kinds, rate_on
from podium_evals.calibration.rates import PRIOR_WEIGHT


def with_measured(predicted: Mapping[str, float], cards: Sequence[Card], question: str) -> dict[str, float]:
    """Return predictions that also count the graded answers to similar questions.

    The prediction of a measured worker weighs as much as `PRIOR_WEIGHT` answers. A worker without a
    prediction has its measured rate. If no measured kind is similar to the question, the predictions stay
    unchanged.

    Args:
        predicted: the predicted scores, by the name of the worker.
        cards: the cards of the pool.
        question: the text of the question.
    """
    kind = kind_of(question, measured_kinds(cards))
    if kind is None:
        return dict(predicted)
    found = dict(predicted)
    for card in cards:
        rate = rate_on(card, kind)
        if rate is None:
            continue
        if card.name not in predicted:
            found[card.name] = rate.rate
            continue
        right = PRIOR_WEIGHT * predicted[card.name] + rate.right
        found[card.name] = right / (PRIOR_WEIGHT + rate.answers)
    return found
