"""Arms that only the page of results has: workers chosen by probes, and a worker of the cost of a rule.

Probes are a few graded questions of each kind that no arm was fitted on. Arms may read their scores.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from statistics import fmean

from podium import Plan, Step
from podium.workers import Card, Kind, MeasuredRate
from podium_evals.arms import ASK, Fold, best_of, ranked
from podium_evals.arms.planners import ChoosingArm
from podium_evals.calibration import rates_on_kind, tallied
from podium_evals.errors import ArmUnfit
from podium_evals.recorded import Question, RecordedWorker, Recording, Recordings, recorded_pool
from podium_evals.router.planner import RouterArm, by_kind


@dataclass(frozen=True, kw_only=True)
class ProbedFold(Fold):
    """A fold with probes of the kinds in `test`."""

    probes: Recordings


def with_probes(folds: Iterable[Fold], count: int) -> Iterator[Fold]:
    """Yield folds of kinds with so many probes of each kind, which arms are not asked."""
    for fold in folds:
        keys = set[str]()
        for kind in fold.test.kinds:
            of_kind = [question for question in fold.test.questions if question.kind == kind]
            found = {each.split_key: each.position(0) for each in of_kind}
            keys.update(sorted(found, key=lambda key, found=found: (found[key], key))[:count])  # type: ignore[misc]
        probes, test = (
            fold.test.where(lambda each, wanted=wanted, keys=keys: (each.split_key in keys) is wanted)  # type: ignore[misc]
            for wanted in (True, False)
        )
        yield ProbedFold(train=fold.train, test=test, probes=probes)


def probed_rates(fold: Fold, seed: int) -> dict[str, tuple[MeasuredRate, ...]]:
    """Return the rates of each worker on the kinds of the probes, with one answer to each."""
    assert isinstance(fold, ProbedFold)
    workers, found = fold.probes.workers, defaultdict[str, list[MeasuredRate]](list)
    drawn = fold.probes.with_answers(
        Recording(each.question, each.worker, (each.samples[seed % len(each.samples)],))
        for each in fold.probes
    )
    before, probed = tallied(fold.train), tallied(drawn)
    for name in dict.fromkeys(question.kind for question in drawn.questions):
        texts = tuple(question.text for question in drawn.questions if question.kind == name)
        rates = rates_on_kind(workers, name, before | {name: probed[name]})
        for worker, each in zip(workers, rates, strict=True):
            found[worker].append(
                MeasuredRate(
                    kind=Kind(name, texts),
                    rate=each.rate,
                    low=each.low,
                    high=each.high,
                    right=each.right,
                    answers=each.answers,
                    measured_on=datetime.now(UTC).date(),
                )
            )
    return {worker: tuple(rates) for worker, rates in found.items()}


class CalibratedRouterArm(RouterArm):
    """A router that is fitted on the training questions, with measured rates on the cards of the workers."""

    def __init__(self) -> None:
        super().__init__("calibrated router")

    def cards(self, fold: Fold, seed: int) -> Sequence[Card]:
        """Return the cards of the workers, with rates that are measured on the probes."""
        rates = probed_rates(fold, seed)
        return [replace(card, measured=rates.get(card.name, ())) for card in super().cards(fold, seed)]


class CalibratedArm(ChoosingArm):
    """The worker with the best measured rate on a question's kind answers the question.

    The rates are measured on the probes. The prior is the share of right answers to the training questions.

    Args:
        is_told: whether the arm is given the kind of a question. Otherwise it finds the kind from the text,
            as planners do.
    """

    def __init__(self, *, is_told: bool = True) -> None:
        super().__init__("calibrated" if is_told else "calibrated, kind found")
        self._is_told = is_told

    def chooser(self, fold: Fold, seed: int) -> Callable[[Question], Plan]:
        """Return plans with the best worker of each kind."""
        of_worker = probed_rates(fold, seed)
        kinds, names = [rate.kind for rate in next(iter(of_worker.values()))], fold.test.workers
        best = {
            kind.name: max(names, key=lambda worker, at=at: of_worker[worker][at].rate)  # type: ignore[misc]
            for at, kind in enumerate(kinds)
        }
        if not self._is_told:
            return by_kind(fold, best, kinds)
        otherwise = best_of(fold.train)
        return lambda question: Plan((Step(names.index(best.get(question.kind, otherwise)), ASK),))


class EqualBudget(ChoosingArm):
    """The best worker that costs at most as much as another arm answers everything.

    The budget is the other arm's mean cost of a question, on the training questions.
    """

    def __init__(self, of: ChoosingArm) -> None:
        super().__init__(f"best single, budget of {of.name}")
        self._of = of

    def chooser(self, fold: Fold, seed: int) -> Callable[[Question], Plan]:
        """Return a plan with the worker."""
        names, choose = fold.test.workers, self._of.chooser(fold, seed)
        pool = {worker.worker: worker for worker in recorded_pool(fold.train)}
        costs = {name: _mean_cost(worker) for name, worker in pool.items()}
        chosen = ((pool[names[choose(each).calls[0].worker]], each) for each in fold.train.questions)
        budget = fmean(worker.cost_of(question) or 0.0 for worker, question in chosen) + 1e-12
        name = next(name for name in ranked(fold.train) if costs[name] <= budget)
        return lambda _question: Plan((Step(names.index(name), ASK),))


def _mean_cost(worker: RecordedWorker) -> float:
    costs = [worker.cost_of(question) for question in worker.recordings.questions]
    known = [cost for cost in costs if cost is not None]
    if len(known) < len(costs):
        raise ArmUnfit(f"the cost of {worker.worker!r} is not known: its price, or the tokens of an answer")
    return fmean(known)
