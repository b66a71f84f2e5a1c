"""Upper bounds: arms that read the scores of the questions that they are asked."""

from collections.abc import AsyncIterator, Sequence
from itertools import product
from statistics import fmean

from podium_evals.arms.arm import Answered, Arm, Asked, Fold
from podium_evals.recorded import Question, RecordedWorker, recorded_pool


class RoutingOracle(Arm):
    """Each question is answered by the worker that is best on it, judged by the other samples.

    The sample that is scored does not choose: an oracle that chooses by the score it is given takes luck for
    skill. Questions with one sample are unrecorded.
    """

    achievable = False

    def __init__(self) -> None:
        super().__init__("routing oracle")

    async def answer(self, fold: Fold, seeds: Sequence[int]) -> AsyncIterator[Asked]:
        """Answer each question; the seed is the number of the sample that is scored."""
        pool = recorded_pool(fold.test)
        for seed, question in product(seeds, fold.test.questions):
            scores = {worker: _others(worker, question, seed) for worker in pool}
            known = {worker: score for worker, score in scores.items() if score is not None}
            if not known:
                missing = Answered(score=None, unrecorded=f"{question.id!r} has one sample of each worker")
                yield Asked(question=question, seed=seed, answered=missing)
                continue
            best = max(known, key=lambda worker: known[worker])
            yield Asked(question=question, seed=seed, answered=_sampled(best, question, seed))


class AnyCorrect(Arm):
    """Each question has the score of the best answer that any worker gave: no planner can achieve it."""

    achievable = False

    def __init__(self) -> None:
        super().__init__("any correct, not achievable")

    async def answer(self, fold: Fold, seeds: Sequence[int]) -> AsyncIterator[Asked]:
        """Answer each question; the seed is the number of the sample of each worker."""
        pool = recorded_pool(fold.test)
        for seed, question in product(seeds, fold.test.questions):
            answers = [_sampled(worker, question, seed) for worker in pool]
            costs = [answer.cost for answer in answers if answer.cost is not None]
            everything = Answered(
                score=max((each.score for each in answers if each.score is not None), default=None),
                calls=len(pool),
                tokens=sum(each.tokens for each in answers),
                cost=sum(costs) if len(costs) == len(answers) else None,
            )
            yield Asked(question=question, seed=seed, answered=everything)


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
        tokens=usage.total_tokens,
        cost=None if price is None else price.cost(usage),
        latency_s=sample.latency_s,
    )
