"""Simple arms to compare with: single workers, random workers, a rule by kind, votes."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from random import Random
from statistics import fmean
from typing import Literal

from podium import Plan, Step
from podium.execution import Retry
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


class AgainIfEmpty(ChoosingArm):
    """Another arm, whose empty answers are asked for again, as `podium.execution.Retry` does it.

    Args:
        arm: the other arm, whose plans have one worker.
        of: `same` asks the same worker once more. `next` asks the best worker on the training questions that
            was not asked; if its answer is empty too, the one after it.
    """

    def __init__(self, arm: ChoosingArm, of: Literal["same", "next"] = "next") -> None:
        super().__init__(f"{arm.name}, {'next best' if of == 'next' else 'again'} if empty")
        self._arm, self._of = arm, of

    def retry(self, fold: Fold) -> Retry:
        """Return the setting.

        Raises:
            ArmUnfit: bundles are asked, and no recording shows what a second answer to a part would be.
        """
        if self._of == "next":
            return Retry(next_best=ranked(fold.train), ask_again=False)
        if fold.bundles:
            raise ArmUnfit(f"{self.name!r} supports single questions only")
        return Retry(attempts=2)

    def chooser(self, fold: Fold, seed: int) -> Callable[[Question], Plan]:
        """Return the plans of the other arm."""
        return self._arm.chooser(fold, seed)


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
        names, best = fold.test.workers, ranked(fold.train)
        if len(best) < self.voters:
            raise ArmUnfit(f"{self.name!r} needs {self.voters} workers: the pool has {len(best)}")
        plan = vote_plan([names.index(name) for name in best[: self.voters]], len(names))
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


class EqualBudget(ChoosingArm):
    """The best worker that costs at most as much as another arm answers everything.

    The budget is the other arm's mean cost of a question, on the training questions.

    Args:
        of: the arm whose budget is used. Its plans have one worker.
    """

    def __init__(self, of: ChoosingArm) -> None:
        super().__init__(f"best single, budget of {of.name}")
        self._of = of

    def chooser(self, fold: Fold, seed: int) -> Callable[[Question], Plan]:
        """Return the same plan for each question.

        Raises:
            ArmUnfit: the price or the tokens of a worker are not known.
        """
        names, choose = fold.test.workers, self._of.chooser(fold, seed)
        pool = {worker.worker: worker for worker in recorded_pool(fold.train)}
        costs = {name: mean_cost(worker) for name, worker in pool.items()}
        chosen = ((pool[names[choose(each).calls[0].worker]], each) for each in fold.train.questions)
        budget = fmean(worker.cost_of(question) or 0.0 for worker, question in chosen) + 1e-12
        plan = _one(names.index(next(name for name in ranked(fold.train) if costs[name] <= budget)))
        return lambda _question: plan


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
        names, best = fold.test.workers, ranked(fold.train)[: self._proposers]
        steps = [Step(names.index(name), ASK) for name in best]
        gather = "Write one answer to the question from the answers of the earlier steps. They may be wrong."
        steps.append(Step(names.index(best[0]), gather, tuple(range(len(steps)))))
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


def mean_cost(worker: RecordedWorker) -> float:
    """Return the mean cost of an answer of a worker, in USD.

    Raises:
        ArmUnfit: the price of the worker is not known, or the tokens of its answers were not recorded.
    """
    costs = [worker.cost_of(question) for question in worker.recordings.questions]
    known = [cost for cost in costs if cost is not None]
    if len(known) < len(costs):
        raise ArmUnfit(f"the cost of {worker.worker!r} is not known: its price, or the tokens of an answer")
    return fmean(known)


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
