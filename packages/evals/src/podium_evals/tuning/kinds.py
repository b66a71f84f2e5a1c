"""Measured rates of workers by kind, from a recording, and the arm that routes by them.

The arm and a run with the written rates choose the same worker: the kind is found from the question's text.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from hashlib import sha256

import numpy as np

from podium import Plan, Step
from podium.workers import Kind
from podium.workers.rates import KindEntry, MeasuredFile, RateEntry, kind_of
from podium_evals.arms import ASK, ChoosingArm, Fold, best_of
from podium_evals.calibration import Tally, estimates, intervals, priors
from podium_evals.recorded import Question, Recordings, recorded_pool

SHOWN = 3
"""Number of questions of a kind by which other questions of this kind are found."""


def measured_file(recordings: Recordings) -> MeasuredFile:
    """Return the rates of the workers on each kind, without the digests of the workers.

    A rate is the mean of a beta distribution, whose prior is the worker's share of right answers to the other
    kinds.

    Args:
        recordings: graded answers.
    """
    names, tallies = recordings.workers, _tallies(recordings)
    days = [sample.asked_on for each in recordings for sample in each.samples if sample.asked_on is not None]
    pool = recorded_pool(recordings)
    kinds: dict[str, KindEntry] = {}
    for kind in recordings.kinds:
        asked = sorted(
            (each for each in recordings.questions if each.kind == kind), key=lambda each: each.position(0)
        )
        prior = priors(names, kind, tallies)
        right = np.asarray([tallies[kind].get(name, Tally()).right for name in names])
        answers = np.asarray([float(tallies[kind].get(name, Tally()).answers) for name in names])
        found = zip(prior, estimates(prior, right, answers), *intervals(prior, right, answers), strict=True)
        rates = {}
        for place, (name, values) in enumerate(zip(names, found, strict=True)):
            if not answers[place]:
                continue
            costs = [pool[place].cost_of(question) for question in asked]
            known = [cost for cost in costs if cost is not None]
            rounded = (round(float(value), 6) for value in values)
            rates[name] = RateEntry(
                identity="",
                answers=int(answers[place]),
                right=float(right[place]),
                **dict(zip(("prior", "rate", "low", "high"), rounded, strict=True)),
                cost=sum(known) if len(known) == len(costs) else None,
            )
        kinds[kind] = KindEntry(
            measured_on=max(days, default=datetime.now(UTC).date()),
            fingerprint=sha256("\n".join(sorted(each.key for each in asked)).encode()).hexdigest()[:16],
            questions=tuple(each.text for each in asked[:SHOWN]),
            rates=rates,
        )
    return MeasuredFile(kinds=kinds)


def _tallies(recordings: Recordings) -> dict[str, dict[str, Tally]]:
    found: dict[str, dict[str, Tally]] = {}
    for each in recordings:
        of_kind = found.setdefault(each.question.kind, {})
        of_kind[each.worker] = of_kind.get(each.worker, Tally()).plus(each.score)
    return found


class FoundKind(ChoosingArm):
    """The worker with the best measured rate on the kind answers; the kind is found from the text.

    A question that is not similar to a measured kind goes to the best single worker.
    """

    def __init__(self) -> None:
        super().__init__("best of the kind")
        self._fitted: tuple[Fold, Mapping[str, Plan]] | None = None

    def chooser(self, fold: Fold, seed: int) -> Callable[[Question], Plan]:  # noqa: ARG002 - the interface has both parameters
        """Return plans with the best worker of each kind."""
        if self._fitted is None or self._fitted[0] is not fold:
            self._fitted = fold, self._plans(fold)
        plans = self._fitted[1]
        return lambda question: plans[question.key]

    def _plans(self, fold: Fold) -> Mapping[str, Plan]:
        names, measured = fold.test.workers, measured_file(fold.train)
        kinds = tuple(Kind(name, entry.questions) for name, entry in measured.kinds.items())
        best = {
            name: max(entry.rates, key=lambda worker, entry=entry: entry.rates[worker].rate)  # type: ignore[misc]
            for name, entry in measured.kinds.items()
        }
        otherwise = best_of(fold.train)

        def plan(question: Question) -> Plan:
            kind = kind_of(question.text, kinds)
            return Plan((Step(names.index(otherwise if kind is None else best[kind.name]), ASK),))

        return {question.key: plan(question) for question in fold.test.questions}
