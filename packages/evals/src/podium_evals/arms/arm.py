"""The seam between an arm and the evaluation: it is fitted on some questions and asked others."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from podium import Conductor
from podium.errors import PlannerError
from podium.planners import Planner
from podium.types import Result
from podium_evals.errors import Unrecorded
from podium_evals.recorded import FirstAgreeing, Longest, Question, Recordings, Sample, Vote, recorded_pool


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """What an arm is fitted on, and what it is asked."""

    train: Recordings
    """Recorded answers that the arm may read. Workers that must be new to the arm are not in it."""
    test: Recordings
    """Recorded answers of the whole pool to the questions that the arm is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """How an arm answered a question."""

    score: float | None
    """0 to 1; `None` if the arm asked a worker something that was not recorded."""
    calls: int = 0
    """Number of calls of models; reducers and planners without a model do not count."""
    tokens: int = 0
    cost: float | None = 0.0
    """In USD; `None` if the price of a worker is not known."""
    latency_s: float | None = None
    """Seconds on the longest path of the plan; `None` if a call's time was not recorded."""
    unrecorded: str = ""
    """What was not recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question, a seed that chooses the samples, and how an arm answered."""

    question: Question
    seed: int
    answered: Answered


class Arm(ABC):
    """A way to answer questions with a pool.

    Args:
        name: the name in tables.
    """

    achievable = True
    """Whether the arm knows nothing of the right answers to the questions that it is asked."""

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def answer(self, fold: Fold, seeds: Sequence[int]) -> AsyncIterator[Asked]:
        """Fit on `fold.train` and answer each question of `fold.test`, once for each seed.

        Raises:
            ArmUnfit: the arm cannot work with this pool, or cannot be fitted on so little.
        """


class PlannerArm(Arm):
    """An arm that is a planner: each question is a run of a conductor over recorded workers.

    The pool of the run has the workers in the order of `fold.test.workers`, then `Vote`, `FirstAgreeing` and
    `Longest`.
    """

    @abstractmethod
    def planner(self, fold: Fold, seed: int) -> Planner:
        """Return the planner, fitted on `fold.train`. It must not read scores of `fold.test`."""

    async def answer(self, fold: Fold, seeds: Sequence[int]) -> AsyncIterator[Asked]:
        """Plan and run each question."""
        for seed in seeds:
            pool = [*recorded_pool(fold.test, seed=seed), Vote(), FirstAgreeing(), Longest()]
            async with Conductor(self.planner(fold, seed), pool) as conductor:
                for question in fold.test.questions:
                    yield Asked(
                        question=question, seed=seed, answered=await _ask(conductor, question, fold.test)
                    )


async def _ask(conductor: Conductor, question: Question, recordings: Recordings) -> Answered:
    try:
        result = await conductor.run(question.text)
    except PlannerError as error:
        if (cause := _unrecorded(error)) is not None:
            return Answered(score=None, unrecorded=str(cause))
        return Answered(score=0.0, tokens=error.usage.total_tokens, cost=error.cost)
    return _answered(result, question, recordings)


def _unrecorded(error: BaseException | None) -> Unrecorded | None:
    while error is not None and not isinstance(error, Unrecorded):
        error = error.__cause__
    return error


def _answered(result: Result, question: Question, recordings: Recordings) -> Answered:
    problems = [outcome.problem for outcome in result.outcomes if outcome.problem is not None]
    unrecorded = [problem.message for problem in problems if problem.code == Unrecorded.code]
    score = recordings.score(question, result.answer)
    if score is None:
        unrecorded.append(f"the answer {result.answer[:80]!r} was not graded")
    asked = [outcome for outcome in result.outcomes if outcome.worker in recordings.workers]
    return Answered(
        score=None if unrecorded else score,
        calls=sum(outcome.attempts for outcome in asked)
        + sum(each.usage.total_tokens > 0 for each in result.proposals),
        tokens=result.usage.total_tokens,
        cost=result.cost,
        latency_s=_longest_path(result, question, recordings),
        unrecorded=unrecorded[0] if unrecorded else "",
    )


def _longest_path(result: Result, question: Question, recordings: Recordings) -> float | None:
    """Return the recorded seconds of the slowest path through the last plan."""
    if not result.plans:
        return None
    ends: dict[int, float] = {}
    outcomes = {outcome.step: outcome for outcome in result.rounds[-1].outcomes}
    for number, step in enumerate(result.plans[-1].steps):
        outcome = outcomes.get(number)
        if outcome is None or outcome.worker not in recordings.workers:
            seconds: float | None = 0.0
        else:
            seconds = _latency(recordings.samples(question, outcome.worker), outcome.text)
        if seconds is None:
            return None
        ends[number] = seconds + max((ends[before] for before in step.access), default=0.0)
    return max(ends.values())


def _latency(samples: Sequence[Sample], text: str) -> float | None:
    return next((sample.latency_s for sample in samples if sample.text == text), None)
