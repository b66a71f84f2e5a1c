"""Asks arms the same questions, and compares them."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from podium_evals.arms.arm import Answered, Arm, Fold
from podium_evals.errors import ArmUnfit
from podium_evals.statistics import Difference, Interval, Resampling, Unit, compare, interval_of_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmResult:
    """What an arm reached on all folds."""

    name: str
    achievable: bool
    """Whether the arm knows nothing of the right answers."""
    questions: int
    """Number of questions that it was asked."""
    recorded: int = 0
    """Number of questions whose calls were all recorded. The figures are about these."""
    score: Interval | None = None
    """The mean score and its interval; `None` where fewer than two questions are recorded."""
    difference: Difference | None = None
    """The difference to the base arm on the same questions; `None` for the base, and where the arm has
    unrecorded questions: those are not left out at random."""
    calls: float = 0.0
    """The mean per question, like `tokens`."""
    tokens: float = 0.0
    cost: float | None = None
    """The mean cost of a question, in USD; `None` if a price is not known."""
    latency_s: float | None = None
    """The mean seconds of a question; `None` if not recorded."""
    kinds: dict[str, float] | None = None
    """The mean score of each kind."""
    unrecorded: str = ""
    """Why a question is unrecorded, of the first such question."""
    unfit: str = ""
    """Why the arm could not be asked at all."""


async def evaluate(
    arms: Sequence[Arm], folds: Sequence[Fold], *, base: str, unit: Unit, seeds: Sequence[int] = (0,)
) -> list[ArmResult]:
    """Ask each arm the questions of all folds, and compare each with one of them.

    A question's score is the mean over folds and seeds: samples of one question are not independent, so
    questions are the smallest unit that is drawn.

    Args:
        arms: the arms, in the order of the table.
        folds: what arms are fitted on and asked.
        base: the name of the arm that the others are compared with.
        unit: what intervals are about: other questions or other kinds.
        seeds: the numbers of the samples to take.

    Raises:
        ArmUnfit: no arm is called `base`, or that arm could not be asked all questions.
    """
    if base not in {arm.name for arm in arms}:
        raise ArmUnfit(f"no arm is called {base!r}: there are {', '.join(arm.name for arm in arms)}")
    asked = {arm.name: await _ask(arm, folds, seeds) for arm in arms}
    kinds = {question.key: question.kind for fold in folds for question in fold.test.questions}
    whole = {
        name: {key: fmean(_scores(answers)) for key, answers in found.items()}
        for name, found in asked.items()
        if not isinstance(found, str) and all(len(_scores(each)) == len(each) for each in found.values())
    }
    if base not in whole:
        raise ArmUnfit(f"{base!r} has unrecorded questions, so nothing can be compared with it")
    keys = sorted(kinds)
    resampling = Resampling([kinds[key] for key in keys], unit=unit)
    differences = compare(
        {name: [scores[key] for key in keys] for name, scores in whole.items()}, resampling, against=base
    )
    return [_result(arm, asked[arm.name], kinds, differences.get(arm.name), unit) for arm in arms]


async def _ask(arm: Arm, folds: Sequence[Fold], seeds: Sequence[int]) -> dict[str, list[Answered]] | str:
    answers = defaultdict[str, list[Answered]](list)
    try:
        for fold in folds:
            async for each in arm.answer(fold, seeds):
                answers[each.question.key].append(each.answered)
    except ArmUnfit as error:
        return str(error)
    return dict(answers)


def _scores(answers: Sequence[Answered]) -> list[float]:
    return [answer.score for answer in answers if answer.score is not None]


def _result(
    arm: Arm,
    found: dict[str, list[Answered]] | str,
    kinds: dict[str, str],
    difference: Difference | None,
    unit: Unit,
) -> ArmResult:
    empty = ArmResult(name=arm.name, achievable=arm.achievable, questions=len(kinds))
    if isinstance(found, str):
        return replace(empty, unfit=found)
    whole = {key: answers for key, answers in found.items() if len(_scores(answers)) == len(answers)}
    missing = [answer.unrecorded for answers in found.values() for answer in answers if answer.unrecorded]
    scores = {key: fmean(_scores(answers)) for key, answers in whole.items()}
    of_kind = defaultdict[str, list[float]](list)
    for key, score in scores.items():
        of_kind[kinds[key]].append(score)
    every = [answer for answers in whole.values() for answer in answers]
    is_enough = len(of_kind) > 1 if unit == "kind" else len(scores) > 1
    return replace(
        empty,
        recorded=len(whole),
        score=interval_of_mean(list(scores.values()), Resampling([kinds[key] for key in scores], unit=unit))
        if is_enough
        else None,
        difference=difference,
        calls=fmean(answer.calls for answer in every) if every else 0.0,
        tokens=fmean(answer.tokens for answer in every) if every else 0.0,
        cost=_mean([answer.cost for answer in every]),
        latency_s=_mean([answer.latency_s for answer in every]),
        kinds={kind: fmean(each) for kind, each in sorted(of_kind.items())},
        unrecorded=missing[0] if missing else "",
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known and len(known) == len(values) else None
