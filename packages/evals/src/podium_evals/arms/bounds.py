"""Bounds and estimates of them: arms that read the scores of the answers before they choose one."""

from abc import abstractmethod
from collections.abc import AsyncIterator, Sequence
from statistics import fmean

from podium_evals.arms.arm import Answered, Arm, Asked, Fold
from podium_evals.arms.baselines import kind_scores, mean_scores
from podium_evals.arms.tally import total
from podium_evals.recorded import Bundle, Question, RecordedWorker, recorded_pool

ROUTING_ORACLE = "routing oracle"


class Bound(Arm):
    """An arm that reads scores, so it is not a result. It answers the parts of a bundle one by one."""

    achievable = False

    async def answer(self, fold: Fold, seeds: Sequence[int]) -> AsyncIterator[Asked]:
        """Answer each query. The seed is the number of the sample whose score counts."""
        pool = recorded_pool(fold.test)
        self.look_at(fold)
        for seed in seeds:
            for query in fold.asked:
                if isinstance(query, Bundle):
                    found = _whole([self.best(pool, part.question, seed) for part in query.parts])
                else:
                    found = self.best(pool, query, seed)
                yield Asked(query=query, seed=seed, answered=found)

    def look_at(self, fold: Fold) -> None:
        """Read the training questions, if the arm needs them."""

    @abstractmethod
    def best(self, pool: Sequence[RecordedWorker], question: Question, number: int) -> Answered:
        """Return the best answer of a pool to a question; each subclass defines "best"."""


class RoutingOracle(Bound):
    """For each question, the best worker answers. The other samples of the question say which worker is best.

    The scored sample takes no part in the choice, because an oracle that chooses by its own score mistakes
    luck for skill. Of equally good workers, the best one on the kind's training questions answers, then the
    best one on all training questions. Questions with one sample are unrecorded.

    With few samples this is an estimate: a rule that is fitted on many questions can choose better.
    """

    def __init__(self) -> None:
        super().__init__(ROUTING_ORACLE)
        self._on_all: dict[str, float] = {}
        self._on_kind: dict[str, dict[str, float]] = {}

    def look_at(self, fold: Fold) -> None:
        """Read the mean scores of each worker on the training questions."""
        self._on_all = mean_scores(fold.train)
        self._on_kind = kind_scores(fold.train)

    def best(self, pool: Sequence[RecordedWorker], question: Question, number: int) -> Answered:
        """Return the scored sample of the worker with the best other samples."""
        scores = {worker: _others(worker, question, number) for worker in pool}
        known = {worker: score for worker, score in scores.items() if score is not None}
        if not known:
            return Answered(score=None, unrecorded=f"{question.id!r} has one sample of each worker")
        on_kind = self._on_kind.get(question.kind, {})

        def rank(worker: RecordedWorker) -> tuple[float, ...]:
            name = worker.worker
            return known[worker], on_kind.get(name, 0.0), self._on_all.get(name, 0.0)

        return _sampled(max(known, key=rank), question, number)


class AnyCorrect(Bound):
    """Each question gets the score of the best recorded answer. No planner can achieve this."""

    def __init__(self) -> None:
        super().__init__("any correct, not achievable")

    def best(self, pool: Sequence[RecordedWorker], question: Question, number: int) -> Answered:
        """Return the best score. The cost is the sum over all answers."""
        answers = [_sampled(worker, question, number) for worker in pool]
        scores = [answer.score for answer in answers if answer.score is not None]
        return Answered(
            score=max(scores) if scores else None,
            calls=len(pool),
            tokens=total([each.tokens for each in answers]),
            cost=total([each.cost for each in answers]),
            empty=None,
            unrecorded="" if scores else f"no answer to {question.id!r} has a score",
        )


def _whole(parts: Sequence[Answered]) -> Answered:
    """Return the answer to a bundle, given the answers to its parts."""
    scores = [part.score for part in parts if part.score is not None]
    return Answered(
        score=fmean(scores) if len(scores) == len(parts) else None,
        calls=sum(part.calls for part in parts),
        tokens=total([part.tokens for part in parts]),
        cost=total([part.cost for part in parts]),
        unrecorded=next((part.unrecorded for part in parts if part.unrecorded), ""),
    )


def _others(worker: RecordedWorker, question: Question, number: int) -> float | None:
    samples = worker.recordings.samples(question, worker.worker)
    scores = [
        sample.score
        for place, sample in enumerate(samples)
        if place != number % len(samples) and sample.score is not None
    ]
    return fmean(scores) if scores else None


def _sampled(worker: RecordedWorker, question: Question, number: int) -> Answered:
    samples = worker.recordings.samples(question, worker.worker)
    sample = samples[number % len(samples)]
    usage, price = worker.usage_of(question, sample), worker.card.price
    return Answered(
        score=sample.score,
        calls=1,
        tokens=None if usage.estimated else usage.total_tokens,
        cost=None if price is None or usage.estimated else price.cost(usage),
        empty=sample.is_empty,
        latency_s=sample.latency_s,
    )
