"""Finds workers that have changed: their recent answers do not fit their measured rates.

From the posterior of a worker's rate follows a beta-binomial distribution for the number of right answers
among the next n. A worker has drifted on a kind if the observed number is in a far tail of this distribution.
Holm's method corrects for the number of tests in one check. If no worker has changed, a check reports a
worker with a probability of at most `ALPHA`, provided that rates are spread as the prior assumes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor

from scipy.stats import betabinom

from podium.workers import MeasuredFile, RateEntry
from podium_evals.calibration.rates import PRIOR_WEIGHT, Tally

ALPHA = 0.05
"""The highest probability that a check reports a worker although none has changed."""
_EXACT = 1e-9
_SURE = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The recent answers of a worker on a kind, and its measured rate for comparison."""

    worker: str
    kind: str
    measured: RateEntry
    recent: Tally
    low: int
    """The lower end of the central 95 % interval of the expected number of right answers."""
    high: int
    """The upper end of that interval."""
    p: float
    """The probability of such an extreme number of right answers if the worker has not changed, corrected for
    the number of tests."""

    @property
    def has_drifted(self) -> bool:
        """Whether the recent answers do not fit the measured rate."""
        return self.p < ALPHA


def find_drift(measured: MeasuredFile, recent: Mapping[tuple[str, str], Tally]) -> list[Drift]:
    """Compare recent answers with measured rates. The least likely result comes first.

    Args:
        measured: the rates.
        recent: the recent answers, by worker and kind. Pairs without a measured rate are left out.
    """
    found = [
        (worker, kind, measured.kinds[kind].rates[worker], tally)
        for (worker, kind), tally in recent.items()
        if kind in measured.kinds and worker in measured.kinds[kind].rates and tally.answers
    ]
    alone = [_tail(rate, tally) for _, _, rate, tally in found]
    drifts = [
        Drift(worker=worker, kind=kind, measured=rate, recent=tally, p=p, low=ends[0], high=ends[1])
        for (worker, kind, rate, tally), p in zip(found, _holm(alone), strict=True)
        for ends in [_expected(rate, tally.answers)]
    ]
    return sorted(drifts, key=lambda drift: drift.p)


def _tail(rate: RateEntry, recent: Tally) -> float:
    """Return the two-sided probability. A fractional sum of scores is rounded towards the expected value."""
    following = _following(rate, recent.answers)
    few = following.cdf(ceil(recent.right - _EXACT))
    many = following.sf(floor(recent.right + _EXACT) - 1)
    return float(min(1.0, 2 * min(few, many)))


def _expected(rate: RateEntry, answers: int) -> tuple[int, int]:
    low, high = _following(rate, answers).interval(0.95)
    return int(low), int(high)


def _following(rate: RateEntry, answers: int) -> "betabinom":
    """Return the distribution of the number of right answers among the next answers."""
    for_right = PRIOR_WEIGHT * rate.prior + rate.right + _SURE
    for_wrong = PRIOR_WEIGHT * (1 - rate.prior) + rate.answers - rate.right + _SURE
    return betabinom(answers, for_right, for_wrong)


def _holm(alone: Sequence[float]) -> list[float]:
    """Correct probabilities for the number of tests (Holm, Scandinavian J. of Statistics 6, 1979)."""
    found = [0.0] * len(alone)
    highest = 0.0
    for place, number in enumerate(sorted(range(len(alone)), key=lambda number: alone[number])):
        highest = max(highest, min(1.0, (len(alone) - place) * alone[number]))
        found[number] = highest
    return found
