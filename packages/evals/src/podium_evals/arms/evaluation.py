"""Asks arms the same questions, and compares them."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from podium_evals.arms.arm import Answered, Arm, Fold, total
from podium_evals.errors import ArmUnfit
from podium_evals.statistics import (
    Difference,
    Interval,
    Resampling,
    Unit,
    compare,
    interval_of_mean,
    intervals_of_means,
)


@dataclass(slots=True)
class Answers:
    """The answers of an arm in all folds and for all seeds."""

    of_question: dict[str, list[Answered]] = field(default_factory=lambda: defaultdict(list))
    """The answers to each question, by its key."""
    unrecorded: str = ""
    """Why the first answer without a score has no score."""
    unfit: str = ""
    """Why the arm could not be asked; empty if it was asked."""

    @property
    def scores(self) -> dict[str, float]:
        """The mean score of each question whose answers all have a score."""
        sums = {key: total([each.score for each in of]) for key, of in self.of_question.items()}
        return {key: of / len(self.of_question[key]) for key, of in sums.items() if of is not None}


async def answers_of(arm: Arm, folds: Iterable[Fold], seeds: Sequence[int]) -> Answers:
    """Ask an arm the questions of all folds."""
    found = Answers()
    try:
        for fold in folds:
            async for each in arm.answer(fold, seeds):
                found.of_question[each.question.key].append(each.answered)
                found.unrecorded = found.unrecorded or each.answered.unrecorded
    except ArmUnfit as error:
        return Answers(unfit=str(error))
    return found


OnArm = Callable[[Arm], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmResult:
    """The result of an arm over all folds."""

    name: str
    achievable: bool
    """Whether the arm cannot read right answers and scores."""
    questions: int
    """Number of questions that the arm was asked."""
    recorded: int = 0
    """Number of these questions for which all needed answers were recorded. The other figures are about
    these."""
    score: Interval | None = None
    """The mean score and its interval; `None` if fewer than two questions are recorded."""
    difference: Difference | None = None
    """The difference to the base arm on the same questions. `None` for the base itself, and for an arm with
    unrecorded questions, because unrecorded questions are not left out at random."""
    base_score: float | None = None
    """The mean score of the base arm on the recorded questions of this arm; `None` if there are none."""
    calls: float | None = None
    """The mean number of calls for a question; `None` if no question is recorded."""
    tokens: float | None = None
    """The mean number of tokens of a question; `None` if they were not recorded."""
    cost: float | None = None
    """The mean cost of a question, in USD; `None` if a price is not known, or tokens were not recorded."""
    empty: float | None = None
    """The share of answers that are empty or could not be read; `None` if it is not known."""
    latency_s: float | None = None
    """The mean seconds of a question; `None` if not recorded."""
    kinds: dict[str, float] | None = None
    """The mean score of each kind."""
    unrecorded: str = ""
    """Why the first unrecorded question is unrecorded; empty if all are recorded."""
    unfit: str = ""
    """Why the arm could not be asked any question; empty if it was asked."""


async def evaluate(
    arms: Sequence[Arm],
    folds: Sequence[Fold],
    *,
    base: str,
    unit: Unit,
    seeds: Sequence[int] = (0,),
    on_arm: OnArm = lambda _arm: None,
) -> list[ArmResult]:
    """Ask each arm the questions of all folds, and compare all arms with the arm `base`.

    The score of a question is the mean over folds and seeds. Samples of one question are not independent, so
    the bootstrap draws whole questions.

    Args:
        arms: the arms, in the order of the table; names differ.
        folds: the answers to fit arms on, and the questions to ask.
        base: the name of the arm to compare the others with.
        unit: the population of the intervals: other questions of the same kinds, or other kinds.
        seeds: the numbers of the samples to use.
        on_arm: called with each arm before it is asked.

    Raises:
        ArmUnfit: no arm is called `base`, two arms have one name, a question is in both parts of a fold,
            the base could not be asked all questions, or there are fewer than two questions or kinds.
    """
    asked = await ask_all(arms, folds, base=base, unit=unit, seeds=seeds, on_arm=on_arm)
    return compare_answers(arms, folds, asked, base=base, unit=unit)


async def ask_all(
    arms: Sequence[Arm], folds: Sequence[Fold], *, base: str, unit: Unit, seeds: Sequence[int], on_arm: OnArm
) -> dict[str, Answers]:
    """Check that the arms can be compared, and ask each the questions of all folds."""
    _check_comparable(arms, folds, base, unit)
    found: dict[str, Answers] = {}
    for arm in arms:
        on_arm(arm)
        found[arm.name] = await answers_of(arm, folds, seeds)
    return found


def _check_comparable(arms: Sequence[Arm], folds: Sequence[Fold], base: str, unit: Unit) -> None:
    names = [arm.name for arm in arms]
    if base not in names:
        raise ArmUnfit(f"no arm has the name {base!r}: the arms are {', '.join(names)}")
    if len(set(names)) < len(names):
        raise ArmUnfit(f"two arms are called {next(name for name in names if names.count(name) > 1)!r}")
    for fold in folds:
        fitted = {question.split_key for question in fold.train.questions}
        if both := [question for question in fold.test.questions if question.split_key in fitted]:
            raise ArmUnfit(
                f"question {both[0].id!r} is among those to fit arms on and among those to test them with"
            )
    kinds = _kinds(folds)
    _resampling(sorted(kinds), kinds, unit)


def compare_answers(
    arms: Sequence[Arm], folds: Sequence[Fold], asked: Mapping[str, Answers], *, base: str, unit: Unit
) -> list[ArmResult]:
    """Compare arms by their answers to the same questions."""
    kinds = _kinds(folds)
    keys = sorted(kinds)
    scores = {arm.name: asked[arm.name].scores for arm in arms}
    whole = {name: [of[key] for key in keys] for name, of in scores.items() if of.keys() == kinds.keys()}
    if base not in whole:
        why = asked[base].unfit or asked[base].unrecorded
        raise ArmUnfit(
            f"{base!r} has no recorded answer to some questions, so no arm can be compared with it: {why}"
        )
    resampling = _resampling(keys, kinds, unit)
    differences = compare(whole, resampling, against=base)
    means: dict[str, Interval | None]
    means = dict(zip(whole, intervals_of_means(list(whole.values()), resampling), strict=True))
    means |= {name: _interval(of, kinds, unit) for name, of in scores.items() if name not in whole}
    return [
        _result(arm, asked[arm.name], kinds, means[arm.name], differences.get(arm.name), scores[base])
        for arm in arms
    ]


def _kinds(folds: Sequence[Fold]) -> dict[str, str]:
    return {key: kind for fold in folds for key, kind in fold.kinds.items()}


def _interval(scores: Mapping[str, float], kinds: Mapping[str, str], unit: Unit) -> Interval | None:
    """Return the mean score of the recorded questions; `None` if they are too few for an interval."""
    keys = sorted(scores)
    if len({kinds[key] for key in keys} if unit == "kind" else keys) < 2:
        return None
    return interval_of_mean([scores[key] for key in keys], _resampling(keys, kinds, unit))


def _resampling(keys: Sequence[str], kinds: Mapping[str, str], unit: Unit) -> Resampling:
    try:
        return Resampling([kinds[key] for key in keys], unit=unit)
    except ValueError as error:
        raise ArmUnfit(str(error)) from error


def _result(
    arm: Arm,
    answers: Answers,
    kinds: Mapping[str, str],
    score: Interval | None,
    difference: Difference | None,
    base: Mapping[str, float],
) -> ArmResult:
    result = ArmResult(
        name=arm.name,
        achievable=arm.achievable,
        questions=len(kinds),
        unrecorded=answers.unrecorded,
        unfit=answers.unfit,
    )
    scores = dict(sorted(answers.scores.items()))
    if not scores:
        return result
    of_kind = defaultdict[str, list[float]](list)
    for key, each in scores.items():
        of_kind[kinds[key]].append(each)
    every = [answers.of_question[key] for key in scores]
    count = sum(map(len, every))

    def mean(name: str) -> float | None:
        known = total([total([getattr(each, name) for each in of]) for of in every])
        return None if known is None else known / count

    return replace(
        result,
        recorded=len(scores),
        score=score,
        difference=difference,
        base_score=fmean(base[key] for key in scores),
        calls=mean("calls"),
        tokens=mean("tokens"),
        empty=mean("empty"),
        cost=mean("cost"),
        latency_s=mean("latency_s"),
        kinds={kind: fmean(each) for kind, each in sorted(of_kind.items())},
    )
