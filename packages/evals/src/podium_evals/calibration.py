"""Measures each worker's rate of right answers on a kind of questions, with few graded answers.

The share of a worker's right answers to a kind has a beta distribution. Before the first answer, the mean of
the distribution is the prior, which weighs as much as `PRIOR_WEIGHT` answers (Gelman et al., Bayesian Data
Analysis, 3rd edition, section 2.4). A score between 0 and 1 counts as this part of a right answer. Arrays
have one value for each worker.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from podium.workers import Card
from podium.workers.rates import KindEntry, MeasuredFile, RateEntry, kind_of, measured_kinds, rate_on
from podium_evals.recorded import Recordings, recorded_pool

Floats = NDArray[np.float64]
PRIOR_WEIGHT = 3.0
"""The weight of the prior, in answers."""
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
    for_right = PRIOR_WEIGHT * prior + right + _SURE
    for_wrong = PRIOR_WEIGHT * (1 - prior) + answers - right + _SURE
    tail = (1 - confidence) / 2
    return betaincinv(for_right, for_wrong, tail), betaincinv(for_right, for_wrong, 1 - tail)


def with_measured(predicted: Mapping[str, float], cards: Sequence[Card], question: str) -> dict[str, float]:
    """Return predictions that also count the graded answers to similar questions.

    The prediction of a measured worker weighs as much as `PRIOR_WEIGHT` answers. A worker without a
    prediction has its measured rate. If no measured kind is similar to the question, the predictions stay
    unchanged.
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


@dataclass(frozen=True, slots=True)
class _Rate:
    """The rate of a worker on a kind: the estimate, and its 95 % interval."""

    right: float
    answers: int
    prior: float
    rate: float
    low: float
    high: float


def rates_on_kind(workers: Sequence[str], kind: str, tallies: Tallies) -> Iterator[_Rate]:
    """Yield the rate of each worker on a kind, in their order."""
    prior = priors(workers, kind, tallies)
    found = [tallies[kind].get(worker, Tally()) for worker in workers]
    right = np.asarray([each.right for each in found])
    answers = np.asarray([float(each.answers) for each in found])
    ends = zip(prior, estimates(prior, right, answers), *intervals(prior, right, answers), strict=True)
    for tally, values in zip(found, ends, strict=True):
        yield _Rate(float(tally.right), tally.answers, *map(float, values))


def tallied(recordings: Recordings) -> dict[str, dict[str, Tally]]:
    """Return the tallies of each kind and worker. The mean of all samples counts as one answer."""
    found: dict[str, dict[str, Tally]] = {}
    for each in recordings:
        of_kind = found.setdefault(each.question.kind, {})
        of_kind[each.worker] = of_kind.get(each.worker, Tally()).plus(each.score)
    return found


SHOWN = 3
"""Number of questions of a kind by which other questions of this kind are found."""


def measured_file(recordings: Recordings) -> MeasuredFile:
    """Return the rates of the workers on each kind, without the digests of the workers."""
    tallies, pool = tallied(recordings), recorded_pool(recordings)
    days = [sample.asked_on for each in recordings for sample in each.samples if sample.asked_on is not None]
    kinds: dict[str, KindEntry] = {}
    for kind in recordings.kinds:
        asked = [each for each in recordings.questions if each.kind == kind]
        asked.sort(key=lambda each: each.position(0))
        rates = {}
        for worker, each in zip(pool, rates_on_kind(recordings.workers, kind, tallies), strict=True):
            if not each.answers:
                continue
            costs = [cost for question in asked if (cost := worker.cost_of(question)) is not None]
            rates[worker.worker] = RateEntry(
                identity="",
                answers=each.answers,
                right=each.right,
                prior=round(each.prior, 6),
                rate=round(each.rate, 6),
                low=round(each.low, 6),
                high=round(each.high, 6),
                cost=sum(costs) if len(costs) == len(asked) else None,
            )
        kinds[kind] = KindEntry(
            measured_on=max(days, default=datetime.now(UTC).date()),
            fingerprint=sha256("\n".join(sorted(each.key for each in asked)).encode()).hexdigest()[:16],
            questions=tuple(each.text for each in asked[:SHOWN]),
            rates=rates,
        )
    return MeasuredFile(kinds=kinds)
