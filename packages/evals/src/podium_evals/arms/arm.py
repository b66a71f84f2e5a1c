"""The interface of an arm, a way to answer questions, and the folds that arms are fitted on and asked."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeVar

from podium_evals.errors import ArmUnfit
from podium_evals.recorded import Question, Recording, Recordings
from podium_evals.statistics import halves
from podium_evals.statistics.intervals import Places, leave_kinds_out


@dataclass(frozen=True, kw_only=True)
class Fold:
    """The recorded answers to fit an arm on, and the questions to ask it."""

    train: Recordings
    """Recorded answers that the arm may read. Workers that must be new to the arm are left out."""
    test: Recordings
    """Recorded answers of the whole pool to the questions that the arm is asked."""

    @cached_property
    def blind(self) -> "Fold":
        """The fold without scores and right answers of `test`, so that planners cannot be fitted on them."""
        blind = (
            Recording(
                replace(each.question, expected=None),
                each.worker,
                tuple(replace(sample, score=None) for sample in each.samples),
            )
            for each in self.test
        )
        return replace(self, test=self.test.with_answers(blind))

    @cached_property
    def fits(self) -> dict[Hashable, Any]:
        """What arms have fitted on this fold, by what it is, so that no other arm and seed fits it again."""
        return {}

    @property
    def kinds(self) -> Mapping[str, str]:
        """The kind of each question that the arm is asked, by the key of the question."""
        return {question.key: question.kind for question in self.test.questions}


N = TypeVar("N", int, float)


def total(amounts: Sequence[N | None]) -> N | None:
    """Return the sum of amounts; `None` if one of them is not known."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """How an arm answered a question."""

    score: float | None
    """0 to 1; `None` if the arm needed an answer that was not recorded."""
    calls: int = 0
    """Number of model calls; reducers, and planners without a model, make none."""
    tokens: int | None = 0
    """`None` if the tokens of a call were not recorded."""
    cost: float | None = 0.0
    """In USD; `None` if the price of a worker is not known, or the tokens of a call were not recorded."""
    empty: bool | None = False
    """Whether the answer is empty or could not be read; `None` if it is not known."""
    latency_s: float | None = None
    """Seconds of the slowest chain of dependent steps in the plan; `None` if the time of a call was not
    recorded."""
    unrecorded: str = ""
    """Why the answer is unrecorded; empty if it is recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question, the seed that chooses the recorded samples, and the arm's answer."""

    question: Question
    seed: int
    answered: Answered


class Arm(ABC):
    """A way to answer questions with a pool.

    Args:
        name: the name in tables.
    """

    achievable = True
    """Whether the arm cannot read the right answers and scores of the questions that it is asked."""

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def answer(self, fold: Fold, seeds: Sequence[int]) -> AsyncIterator[Asked]:
        """Fit on `fold.train` and answer each question of `fold.test`, once for each seed.

        Raises:
            ArmUnfit: the arm does not support this pool, or there are too few recorded answers to fit it.
        """


FOLDS = 5
"""Number of folds of kinds."""
SplitName = Literal["questions", "kinds"]
"""What is new to an arm: only the questions, or the questions and their kinds."""


def folds(
    recordings: Recordings,
    split: SplitName,
    *,
    seed: int = 0,
    questions: int | None = None,
) -> Iterator[Fold]:
    """Yield the folds of a split.

    - `questions`: one fold. Arms are fitted on half of each kind and asked the other half.
    - `kinds`: five folds, fewer if there are fewer kinds. Each kind is asked in one fold, in which arms are
      fitted on other kinds.

    Args:
        recordings: recorded answers of the pool. Each worker has answered each question.
        split: what is new to arms.
        seed: the seed of the split.
        questions: the maximum number of questions that arms are asked in a fold; `None` asks all. Each arm is
            asked the same questions.

    Raises:
        ArmUnfit: a worker has not answered a question, or there are fewer than two kinds to split.
    """
    asked = recordings.questions
    for worker in recordings.workers:
        if not all(recordings.samples(question, worker) for question in asked):
            raise ArmUnfit(f"{worker!r} has not answered each question: use `recordings.only(pool)`")
    if split == "questions":
        first, second = halves(asked, seed=seed)
        yield Fold(train=_at(recordings, first), test=_some(_at(recordings, second), questions, seed))
        return
    try:
        parts = list(leave_kinds_out(asked, folds=FOLDS, seed=seed))
    except ValueError as error:
        raise ArmUnfit(str(error)) from error
    for others, left_out in parts:
        test = _some(_at(recordings, left_out), questions, seed)
        yield Fold(train=_at(recordings, others), test=test)


def _at(recordings: Recordings, places: Places) -> Recordings:
    questions = recordings.questions
    return _only(recordings, {questions[place].key for place in places.tolist()})


def _only(recordings: Recordings, keys: set[str]) -> Recordings:
    return recordings.where(lambda question: question.key in keys)


def _some(recordings: Recordings, most: int | None, seed: int) -> Recordings:
    if most is None:
        return recordings
    drawn = sorted(recordings.questions, key=lambda question: (question.position(seed), question.key))[:most]
    return _only(recordings, {question.key for question in drawn})
