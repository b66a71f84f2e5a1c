"""Adds up the answers of an arm for each query, so that the single answers need not be kept."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from podium_evals.arms.arm import Answered, Arm, Fold, key_of
from podium_evals.errors import ArmUnfit

N = TypeVar("N", int, float)


@dataclass(slots=True)
class Tally:
    """Sums over an arm's answers to one query in all folds and for all seeds."""

    answers: int = 0
    unscored: int = 0
    score: float = 0.0
    calls: int = 0
    tokens: int | None = 0
    cost: float | None = 0.0
    latency_s: float | None = 0.0
    empty: int | None = 0

    def add(self, answer: Answered) -> None:
        """Add an answer. One unknown amount makes its sum unknown."""
        self.answers += 1
        self.unscored += answer.score is None
        self.score += answer.score or 0.0
        self.calls += answer.calls
        self.tokens = total([self.tokens, answer.tokens])
        self.cost = total([self.cost, answer.cost])
        self.latency_s = total([self.latency_s, answer.latency_s])
        self.empty = total([self.empty, answer.empty])


def total(amounts: Sequence[N | None]) -> N | None:
    """Return the sum of amounts; `None` if one of them is not known."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None


@dataclass(slots=True)
class Tallies:
    """The tallies of an arm for all of its queries."""

    of_query: dict[str, Tally] = field(default_factory=lambda: defaultdict[str, Tally](Tally))
    unrecorded: str = ""
    """Why the first answer without a score has no score."""
    unfit: str = ""
    """Why the arm could not be asked; empty if it was asked."""

    @property
    def scores(self) -> dict[str, float]:
        """The mean score of each query whose answers all have a score."""
        whole = ((key, tally) for key, tally in self.of_query.items() if not tally.unscored)
        return {key: tally.score / tally.answers for key, tally in whole}


async def tallied(
    arm: Arm,
    folds: Iterable[Fold],
    seeds: Sequence[int],
    on_answers: Callable[[int], object] = lambda _number: None,
) -> Tallies:
    """Ask an arm the questions of all folds, and add up its answers.

    Args:
        arm: the arm.
        folds: the answers to fit the arm on, and the questions to ask.
        seeds: the numbers of the samples to use.
        on_answers: called with 1 after each answer.
    """
    found = Tallies()
    try:
        for fold in folds:
            async for each in arm.answer(fold, seeds):
                found.of_query[key_of(each.query)].add(each.answered)
                found.unrecorded = found.unrecorded or each.answered.unrecorded
                on_answers(1)
    except ArmUnfit as error:
        return Tallies(unfit=str(error))
    return found
