"""The interface of an arm, a way to answer questions: it is fitted on some questions and asked others."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from podium_evals.recorded import Bundle, Question, Recording, Recordings


@dataclass(frozen=True, kw_only=True)
class Fold:
    """The recorded answers to fit an arm on, and the questions to ask it."""

    train: Recordings
    """Recorded answers that the arm may read. Workers that must be new to the arm are left out."""
    test: Recordings
    """Recorded answers of the whole pool to the questions that the arm is asked."""
    bundles: tuple[Bundle, ...] = ()
    """Bundles of questions of `test`, which the arm is asked in place of the single questions; empty if the
    arm is asked single questions."""
    probes: Recordings | None = None
    """Recorded answers of the whole pool to a few other questions of the kinds in `test`. Arms may read these
    answers with their scores. `None` for no probes."""

    @cached_property
    def blind(self) -> "Fold":
        """The fold without scores and right answers of `test`, so that planners cannot be fitted on them."""
        blind = (
            Recording(_blind(each.question), each.worker, tuple(replace(s, score=None) for s in each.samples))
            for each in self.test
        )
        bundles = (
            replace(
                bundle, parts=tuple(replace(part, question=_blind(part.question)) for part in bundle.parts)
            )
            for bundle in self.bundles
        )
        return replace(self, test=self.test.with_answers(blind), bundles=tuple(bundles))

    @property
    def asked(self) -> Sequence[Question | Bundle]:
        """The questions or bundles that the arm is asked."""
        return self.bundles or self.test.questions

    @property
    def kinds(self) -> Mapping[str, str]:
        """The kind of each query that the arm is asked, by the key of the query."""
        return {key_of(query): kind_of(query) for query in self.asked}


def _blind(question: Question) -> Question:
    return replace(question, expected=None)


def key_of(query: Question | Bundle) -> str:
    """Return the key of a query. Answers with the same key belong to the same query."""
    return query.id if isinstance(query, Bundle) else query.key


def kind_of(query: Question | Bundle) -> str:
    """Return the kind of a question. For a bundle: its number of parts, and whether parts are linked."""
    if not isinstance(query, Bundle):
        return query.kind
    is_linked = any(part.needs is not None for part in query.parts)
    return f"{len(query.parts)} parts" + (", linked" if is_linked else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """How an arm answered a query."""

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
    """A query, the seed that chooses the recorded samples, and the arm's answer."""

    query: Question | Bundle
    seed: int
    answered: Answered


class Arm(ABC):
    """A way to answer questions with a pool.

    Args:
        name: the name in tables.
    """

    achievable = True
    """Whether the arm cannot read the right answers and scores of the questions that it is asked."""
    waits = False
    """Whether the arm waits for servers. A separate process would not make such an arm faster."""

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def answer(self, fold: Fold, seeds: Sequence[int]) -> AsyncIterator[Asked]:
        """Fit on `fold.train` and answer each query of `fold.asked`, once for each seed.

        Raises:
            ArmUnfit: the arm does not support this pool, or there are too few recorded answers to fit it.
        """
