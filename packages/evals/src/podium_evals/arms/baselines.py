"""Simple arms to compare with: single workers, a rule by kind, votes, bounds that read right answers."""

from abc import abstractmethod
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from random import Random
from statistics import fmean
from typing import Literal

from podium import Plan, Step
from podium.execution import Retry
from podium_evals.arms.arm import Answered, Arm, Asked, Fold
from podium_evals.arms.planners import ChoosingArm
from podium_evals.arms.run_scores import ASK, check_recorded, sampled, summed
from podium_evals.errors import ArmUnfit
from podium_evals.recorded import Question, RecordedWorker, Recordings, recorded_pool


class SamePlan(ChoosingArm):
    """An arm that has one plan for all questions."""

    def chooser(self, fold: Fold, seed: int) -> Callable[[Question], Plan]:
        """Return a function that returns the same plan for each question."""
        plan = self.plan(fold, seed)
        return lambda _question: plan

    @abstractmethod
    def plan(self, fold: Fold, seed: int) -> Plan:
        """Return the plan, fitted on `fold.train`."""


class Alone(SamePlan):
    """The worker whose name the arm has answers everything."""

    def plan(self, fold: Fold, seed: int) -> Plan:  # noqa: ARG002 - the interface has both parameters
        """Return a plan with the worker."""
        return _one(fold, self.name)


class BestSingle(SamePlan):
    """The worker with the best mean score on the training questions answers everything."""

    def __init__(self) -> None:
        super().__init__("best single")

    def plan(self, fold: Fold, seed: int) -> Plan:  # noqa: ARG002 - the interface has both parameters
        """Return a plan with the worker."""
        return _one(fold, best_of(fold.train))


class RandomWorkers(ChoosingArm):
    """For each question, some workers are drawn at random; of several answers, a vote chooses one.

    A seed draws the same workers each time.
    """

    def __init__(self, most: int = 1) -> None:
        super().__init__("random worker" if most == 1 else "random plan")
        self._most = most

    def chooser(self, fold: Fold, seed: int) -> Callable[[Question], Plan]:
        """Return plans that depend on the seed and the question."""
        count = len(fold.test.workers)

        def choose(question: Question) -> Plan:
            random = Random(f"{seed}/{question.key}")  # noqa: S311 - the same draw each time is wanted
            if self._most == 1:
                return vote_plan([random.randrange(count)], count)
            return vote_plan(random.sample(range(count), random.randint(1, min(self._most, count))), count)

        return choose


class KindRule(ChoosingArm):
    """The worker with the best mean score on a question's kind answers it, like a routing rule by hand.

    The arm is given the kind of each question. For a kind without training questions, the best single worker
    answers.
    """

    def __init__(self) -> None:
        super().__init__("kind rule")

    def chooser(self, fold: Fold, seed: int) -> Callable[[Question], Plan]:  # noqa: ARG002 - the interface has both parameters
        """Return plans with the best worker of each kind."""
        otherwise = _one(fold, best_of(fold.train))
        best = {kind: _one(fold, _best(scores)) for kind, scores in kind_scores(fold.train).items()}
        return lambda question: best.get(question.kind, otherwise)


class AgainIfEmpty(ChoosingArm):
    """Another arm, whose empty answers are asked for again, as `podium.execution.Retry` does it."""

    def __init__(self, arm: ChoosingArm, of: Literal["same", "next"] = "next") -> None:
        super().__init__(f"{arm.name}, {'next best' if of == 'next' else 'again'} if empty")
        self._arm, self._of = arm, of

    def retry(self, fold: Fold) -> Retry:
        """Return the setting."""
        if self._of == "next":
            return Retry(next_best=ranked(fold.train), ask_again=False)
        return Retry(attempts=2)

    def chooser(self, fold: Fold, seed: int) -> Callable[[Question], Plan]:
        """Return the plans of the other arm."""
        return self._arm.chooser(fold, seed)


class MajorityVote(SamePlan):
    """The best workers on the training questions answer, and the most frequent answer wins."""

    def __init__(self, voters: int = 3) -> None:
        super().__init__(f"vote of the best {voters}")
        self.voters = voters

    def plan(self, fold: Fold, seed: int) -> Plan:  # noqa: ARG002 - the interface has both parameters
        """Return a plan with a vote."""
        names, best = fold.test.workers, ranked(fold.train)
        if len(best) < self.voters:
            raise ArmUnfit(f"{self.name!r} needs {self.voters} workers: the pool has {len(best)}")
        return vote_plan([names.index(name) for name in best[: self.voters]], len(names))


class OwnMajority(ChoosingArm):
    """The best single worker answers several times, from different samples; the most frequent answer wins."""

    def __init__(self, times: int = 3) -> None:
        super().__init__(f"best single {times} times")
        self._times = times

    def chooser(self, fold: Fold, seed: int) -> Callable[[Question], Plan]:  # noqa: ARG002 - the interface has both parameters
        """Return a plan with a vote for each question that has so many recorded answers."""
        names, best = fold.test.workers, best_of(fold.train)
        plan = vote_plan([names.index(best)] * self._times, len(names))

        def choose(question: Question) -> Plan:
            check_recorded(best, question, len(fold.test.samples(question, best)), self._times)
            return plan

        return choose


def mean_scores(recordings: Recordings) -> dict[str, float]:
    """Return the mean score of each worker. A question with several samples counts once."""
    scores = defaultdict[str, list[float]](list)
    for recording in recordings:
        scores[recording.worker].append(recording.score)
    if not scores:
        raise ArmUnfit("there are no training questions, which are needed to choose the best worker")
    return {worker: fmean(each) for worker, each in scores.items()}


def ranked(recordings: Recordings) -> list[str]:
    """Return the workers, the one with the best mean score first; equal ones in the order of the pool."""
    scores = mean_scores(recordings)
    return sorted(scores, key=lambda name: -scores[name])


def kind_scores(recordings: Recordings) -> dict[str, dict[str, float]]:
    """Return the mean score of each worker on each kind. A question with several samples counts once."""
    scores = defaultdict[str, defaultdict[str, list[float]]](lambda: defaultdict[str, list[float]](list))
    for recording in recordings:
        scores[recording.question.kind][recording.worker].append(recording.score)
    return {
        kind: {worker: fmean(each) for worker, each in of_kind.items()} for kind, of_kind in scores.items()
    }


def best_of(recordings: Recordings) -> str:
    """Return the worker with the best mean score; the first of several equal ones."""
    return _best(mean_scores(recordings))


def _best(scores: Mapping[str, float]) -> str:
    return max(scores, key=lambda worker: scores[worker])


def vote_plan(workers: Sequence[int], vote: int) -> Plan:
    """Return a plan in which workers answer; if there are several, a vote chooses the answer."""
    steps = [Step(number, ASK) for number in workers]
    if len(steps) == 1:
        return Plan(tuple(steps))
    return Plan((*steps, Step(vote, "Choose.", tuple(range(len(steps))))))


def _one(fold: Fold, worker: str) -> Plan:
    return Plan((Step(fold.test.workers.index(worker), ASK),))


ROUTING_ORACLE = "routing oracle"


class Bound(Arm):
    """An arm that reads scores, so it is not a result."""

    achievable = False

    async def answer(self, fold: Fold, seeds: Sequence[int]) -> AsyncIterator[Asked]:
        """Answer each question. The seed is the number of the sample whose score counts."""
        pool = recorded_pool(fold.test)
        self.look_at(fold)
        for seed in seeds:
            for question in fold.test.questions:
                yield Asked(question=question, seed=seed, answered=self.best(pool, question, seed))

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
        return summed(
            answers,
            score=max(scores) if scores else None,
            latency_s=None,
            empty=None,
            unrecorded="" if scores else f"no answer to {question.id!r} has a score",
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
    return sampled(worker, question, samples[number % len(samples)])
