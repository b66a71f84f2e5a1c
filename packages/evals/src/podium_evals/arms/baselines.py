"""Simple arms to compare with: single workers, random workers, a rule by kind, votes."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from random import Random
from statistics import fmean

from podium import Plan, Step
from podium_evals.arms.arm import Fold
from podium_evals.arms.choosing import ASK, ChoosingArm
from podium_evals.errors import ArmUnfit, Unrecorded
from podium_evals.recorded import Question, RecordedWorker, Recordings, recorded_pool


class Alone(ChoosingArm):
    """One worker answers everything.

    Args:
        worker: the name of the worker.
    """

    def __init__(self, worker: str) -> None:
        super().__init__(worker)

    def chooser(self, fold: Fold, seed: int) -> Callable[[Question], Plan]:  # noqa: ARG002 - the interface has both parameters
        """Return a function that returns the same plan for each question."""
        plan = _one(_number(fold, self.name))
        return lambda _question: plan


class BestSingle(ChoosingArm):
    """The worker with the best mean score on the training questions answers everything."""

    def __init__(self) -> None:
        super().__init__("best single")

    def chooser(self, fold: Fold, seed: int) -> Callable[[Question], Plan]:  # noqa: ARG002 - the interface has both parameters
        """Return a function that returns the same plan for each question."""
        plan = _one(_number(fold, best_of(fold.train)))
        return lambda _question: plan


class RandomWorker(ChoosingArm):
    """For each question, a worker is drawn at random and answers."""

    def __init__(self) -> None:
        super().__init__("random worker")

    def chooser(self, fold: Fold, seed: int) -> Callable[[Question], Plan]:
        """Return plans with a worker that depends on the seed and the question."""
        count = len(fold.test.workers)
        return lambda question: _one(_random(seed, question).randrange(count))


class RandomPlan(ChoosingArm):
    """One to five workers are drawn at random for each question; of several answers, a vote chooses one."""

    def __init__(self) -> None:
        super().__init__("random plan")

    def chooser(self, fold: Fold, seed: int) -> Callable[[Question], Plan]:
        """Return plans that depend on the seed and the question."""
        count = len(fold.test.workers)

        def choose(question: Question) -> Plan:
            random = _random(seed, question)
            return vote_plan(random.sample(range(count), random.randint(1, min(5, count))), count)

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
        names = fold.test.workers
        otherwise = _one(names.index(best_of(fold.train)))
        best = {kind: _one(names.index(_best(scores))) for kind, scores in kind_scores(fold.train).items()}
        return lambda question: best.get(question.kind, otherwise)


class MajorityVote(ChoosingArm):
    """The best workers on the training questions answer, and the most frequent answer wins.

    Args:
        voters: the number of workers.
    """

    def __init__(self, voters: int = 3) -> None:
        super().__init__(f"vote of the best {voters}")
        self.voters = voters

    def chooser(self, fold: Fold, seed: int) -> Callable[[Question], Plan]:  # noqa: ARG002 - the interface has both parameters
        """Return the same plan for each question.

        Raises:
            ArmUnfit: the pool has fewer workers than `voters`.
        """
        names = fold.test.workers
        scores = mean_scores(fold.train)
        if len(scores) < self.voters:
            raise ArmUnfit(f"{self.name!r} needs {self.voters} workers: the pool has {len(scores)}")
        ranked = sorted(scores, key=lambda name: -scores[name])
        plan = vote_plan([names.index(name) for name in ranked[: self.voters]], len(names))
        return lambda _question: plan


class OwnMajority(ChoosingArm):
    """The best single worker answers several times, and its most frequent answer wins.

    Args:
        times: the number of answers. A question with fewer recorded answers is unrecorded.
    """

    def __init__(self, times: int = 3) -> None:
        super().__init__(f"best single {times} times")
        self._times = times

    def chooser(self, fold: Fold, seed: int) -> Callable[[Question], Plan]:  # noqa: ARG002 - the interface has both parameters
        """Return a function that returns the same plan for each question."""
        return own_vote(fold, self._times)


class EqualBudgetVote(ChoosingArm):
    """The best single worker answers as often as the budget of another arm allows, and a vote chooses.

    The budget is the other arm's mean cost of a question, estimated on the training questions, and its number
    of calls. Both are upper limits. If the best single worker is expensive, the budget may allow one answer
    only.

    Args:
        of: the arm whose budget is used.
    """

    def __init__(self, of: MajorityVote) -> None:
        super().__init__(f"best single, budget of {of.name}")
        self._of = of

    def chooser(self, fold: Fold, seed: int) -> Callable[[Question], Plan]:  # noqa: ARG002 - the interface has both parameters
        """Return the same plan for each question.

        Raises:
            ArmUnfit: the price of a worker is not known.
        """
        scores = mean_scores(fold.train)
        ranked = sorted(scores, key=lambda name: -scores[name])[: self._of.voters]
        costs = {worker.worker: mean_cost(worker) for worker in recorded_pool(fold.train, ranked)}
        affordable = int(sum(costs.values()) / costs[ranked[0]] + 1e-9)
        return own_vote(fold, min(self._of.voters, affordable))


class MixtureOfAgents(ChoosingArm):
    """Several workers answer; then the best worker reads their answers and writes one (arXiv 2406.04692).

    The last step depends on other answers, so its own answer was never recorded. On recordings, all questions
    are unrecorded.

    Args:
        proposers: the number of workers whose answers the last step reads.
    """

    def __init__(self, proposers: int = 3) -> None:
        super().__init__("mixture of agents")
        self._proposers = proposers

    def chooser(self, fold: Fold, seed: int) -> Callable[[Question], Plan]:  # noqa: ARG002 - the interface has both parameters
        """Return a function that returns the same plan for each question."""
        names = fold.test.workers
        scores = mean_scores(fold.train)
        ranked = sorted(scores, key=lambda name: -scores[name])[: self._proposers]
        steps = [Step(names.index(name), ASK) for name in ranked]
        gather = "Write one answer to the question from the answers of the earlier steps. They may be wrong."
        steps.append(Step(names.index(ranked[0]), gather, tuple(range(len(steps)))))
        return lambda _question: Plan(tuple(steps))


def mean_scores(recordings: Recordings) -> dict[str, float]:
    """Return the mean score of each worker over its questions. A question with several samples counts once.

    Raises:
        ArmUnfit: there are no recorded answers.
    """
    scores = defaultdict[str, list[float]](list)
    for recording in recordings:
        scores[recording.worker].append(recording.score)
    if not scores:
        raise ArmUnfit("there are no training questions, which are needed to choose the best worker")
    return {worker: fmean(each) for worker, each in scores.items()}


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


def mean_cost(worker: RecordedWorker) -> float:
    """Return the mean cost of an answer of a worker, in USD.

    Raises:
        ArmUnfit: the price of the worker is not known.
    """
    price = worker.card.price
    if price is None:
        raise ArmUnfit(f"the price of {worker.worker!r} is not known")
    return fmean(price.cost(usage) for usage in worker.usages())


def vote_plan(workers: Sequence[int], vote: int) -> Plan:
    """Return a plan in which workers answer; if there are several, a vote chooses the answer.

    Args:
        workers: numbers of the workers; a number that repeats is a worker that answers several times.
        vote: the number of the worker `Vote`.
    """
    if len(workers) == 1:
        return _one(workers[0])
    steps = [Step(number, ASK) for number in workers]
    return Plan((*steps, Step(vote, "Choose.", tuple(range(len(steps))))))


def own_vote(fold: Fold, times: int) -> Callable[[Question], Plan]:
    """Return a function that plans several answers of the best single worker, from different samples."""
    names, best = fold.test.workers, best_of(fold.train)
    plan = vote_plan([names.index(best)] * times, len(names))

    def choose(question: Question) -> Plan:
        recorded = len(fold.test.samples(question, best))
        if recorded < times:
            raise Unrecorded(
                f"{best!r} has {recorded} recorded answers to {question.id!r}: {times} are needed"
            )
        return plan

    return choose


def _random(seed: int, question: Question) -> Random:
    return Random(f"{seed}/{question.key}")  # noqa: S311 - the same draw each time is wanted


def _one(worker: int) -> Plan:
    return Plan((Step(worker, ASK),))


def _number(fold: Fold, worker: str) -> int:
    return fold.test.workers.index(worker)
