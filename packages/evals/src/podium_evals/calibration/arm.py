"""Arms with calibration: on a new kind, they read a few graded answers of each worker first."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from podium import Plan, Step
from podium.workers import Card, Kind, MeasuredRate
from podium.workers.rates import kind_of
from podium_evals.arms import ASK, ChoosingArm, Fold
from podium_evals.arms.baselines import best_of
from podium_evals.calibration.rates import Tally, estimates, intervals, priors
from podium_evals.errors import ArmUnfit
from podium_evals.recorded import Question, Recordings
from podium_evals.router.arm import RouterArm


class CalibratedArm(ChoosingArm):
    """The worker with the best measured rate on a question's kind answers the question.

    The rates are measured on `fold.probes`, with one answer of each worker. The prior is the share of right
    answers to the training questions. A question of a kind without probes goes to the best single worker.

    Args:
        is_told: whether the arm is given the kind of a question. Otherwise it finds the kind from the text,
            as planners do.
    """

    def __init__(self, *, is_told: bool = True) -> None:
        super().__init__("calibrated" if is_told else "calibrated, kind found")
        self._is_told = is_told

    def chooser(self, fold: Fold, seed: int) -> Callable[[Question], Plan]:
        """Return plans with the best worker of each kind.

        Raises:
            ArmUnfit: the fold has no probes.
        """
        names = fold.test.workers
        otherwise = names.index(best_of(fold.train))
        rates = measured_rates(fold, seed)
        kinds = tuple(rate.kind for rate in rates[0])
        best = {
            kind.name: max(range(len(names)), key=lambda worker, at=at: rates[worker][at].rate)  # type: ignore[misc]
            for at, kind in enumerate(kinds)
        }

        def choose(question: Question) -> Plan:
            kind = kind_of(question.text, kinds)
            name = question.kind if self._is_told else "" if kind is None else kind.name
            return Plan((Step(best.get(name, otherwise), ASK),))

        return choose


class CalibratedRouterArm(RouterArm):
    """A router that is fitted on the training questions, with measured rates on the cards of the workers.

    Args:
        options: options of `RouterPlanner`.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__("calibrated router", **options)

    def cards(self, fold: Fold, seed: int) -> Sequence[Card]:
        """Return the cards of the workers, with measured rates.

        Raises:
            ArmUnfit: the fold has no probes.
        """
        rates = dict(zip(fold.test.workers, measured_rates(fold, seed), strict=True))
        return [replace(card, measured=rates.get(card.name, ())) for card in super().cards(fold, seed)]


def measured_rates(fold: Fold, seed: int) -> Sequence[tuple[MeasuredRate, ...]]:
    """Return the rates of each worker of `fold.test` on the kinds of the probes.

    Args:
        fold: the fold.
        seed: the number of each worker's sample that is its answer to a probe.

    Raises:
        ArmUnfit: the fold has no probes.
    """
    if fold.probes is None:
        raise ArmUnfit("the arm needs probes: graded questions of the new kinds")
    names = fold.test.workers
    texts = defaultdict[str, list[str]](list)
    for question in fold.probes.questions:
        texts[question.kind].append(question.text)
    before = _tallies(fold.train, None)
    probed = _tallies(fold.probes, seed)
    found: list[list[MeasuredRate]] = [[] for _ in names]
    for name, questions in texts.items():
        kind = Kind(name, tuple(questions))
        prior = priors(names, name, before | {name: probed[name]})
        right = np.asarray([probed[name][worker].right for worker in names])
        answers = np.asarray([float(probed[name][worker].answers) for worker in names])
        ends = intervals(prior, right, answers)
        for rates, rate, low, high, sum_, count in zip(
            found, estimates(prior, right, answers), *ends, right, answers, strict=True
        ):
            rates.append(
                MeasuredRate(
                    kind=kind,
                    rate=float(rate),
                    low=float(low),
                    high=float(high),
                    right=float(sum_),
                    answers=int(count),
                    measured_on=datetime.now(UTC).date(),
                )
            )
    return [tuple(rates) for rates in found]


def _tallies(recordings: Recordings, number: int | None) -> dict[str, dict[str, Tally]]:
    """Return the tallies of each kind and worker.

    Args:
        recordings: graded answers.
        number: the number of the sample that counts; `None` counts the mean of all samples as one answer.
    """
    found: dict[str, dict[str, Tally]] = {}
    for each in recordings:
        of_kind = found.setdefault(each.question.kind, {})
        score = each.score if number is None else each.samples[number % len(each.samples)].score
        if score is not None:
            of_kind[each.worker] = of_kind.get(each.worker, Tally()).plus(score)
    return found
