"""Asks arms the same questions, and compares them."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from podium_evals.arms.arm import Arm, Fold
from podium_evals.arms.side_by_side import OnAnswers, ask_all
from podium_evals.arms.tally import Tallies
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmResult:
    """The result of an arm over all folds."""

    name: str
    achievable: bool
    """Whether the arm cannot read right answers and scores."""
    questions: int
    """Number of questions or bundles that the arm was asked."""
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


async def evaluate(  # noqa: PLR0913 - all but two are settings with defaults
    arms: Sequence[Arm],
    folds: Sequence[Fold],
    *,
    base: str,
    unit: Unit,
    seeds: Sequence[int] = (0,),
    processes: int = 1,
    on_answers: OnAnswers = lambda _arm, _number: None,
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
        processes: the number of processes that compute at the same time. With more than one, the arms must be
            picklable.
        on_answers: called with an arm and the number of its new answers.

    Raises:
        ArmUnfit: no arm is called `base`, two arms have one name, a question is in both parts of a fold,
            the base could not be asked all questions, or there are fewer than two questions or kinds.
    """
    check_comparable(arms, folds, base=base, unit=unit)
    asked = await ask_all(arms, folds, seeds, processes, on_answers)
    return compare_answers(arms, folds, asked, base=base, unit=unit)


def check_comparable(arms: Sequence[Arm], folds: Sequence[Fold], *, base: str, unit: Unit) -> None:
    """Check that the arms can be compared, before any question is asked.

    Raises:
        ArmUnfit: no arm is called `base`, two arms have one name, a question is in both parts of a fold, or
            there are fewer than two questions or kinds.
    """
    names = [arm.name for arm in arms]
    if base not in names:
        raise ArmUnfit(f"no arm has the name {base!r}: the arms are {', '.join(names)}")
    if len(set(names)) < len(names):
        raise ArmUnfit(f"two arms are called {next(name for name in names if names.count(name) > 1)!r}")
    for fold in folds:
        _check_apart(fold)
    if unit == "kind" and any(fold.bundles for fold in folds):
        raise ArmUnfit("a bundle has several kinds, so there is no interval about other kinds: draw bundles")
    kinds = _kinds(folds)
    _resampling(sorted(kinds), kinds, unit)


def compare_answers(
    arms: Sequence[Arm], folds: Sequence[Fold], asked: Mapping[str, Tallies], *, base: str, unit: Unit
) -> list[ArmResult]:
    """Compare arms by their answers to the same questions.

    Args:
        arms: the arms, in the order of the table.
        folds: the folds that the arms were asked.
        asked: the tallies of each arm, by the arm's name.
        base: the name of the arm to compare the others with.
        unit: the population of the intervals: other questions of the same kinds, or other kinds.

    Raises:
        ArmUnfit: the base could not be asked all questions, or there are fewer than two questions or kinds.
    """
    kinds = _kinds(folds)
    keys = sorted(kinds)
    resampling = _resampling(keys, kinds, unit)
    names = [arm.name for arm in arms]
    scores = {name: asked[name].scores for name in names}
    whole = {
        name: [scores[name][key] for key in keys] for name in names if scores[name].keys() == kinds.keys()
    }
    if base not in whole:
        why = asked[base].unfit or asked[base].unrecorded
        raise ArmUnfit(
            f"{base!r} has no recorded answer to some questions, so no arm can be compared with it: {why}"
        )
    differences = compare(whole, resampling, against=base)
    means = dict(zip(whole, intervals_of_means(list(whole.values()), resampling), strict=True))
    for name in names:
        if name not in whole and (partial := _interval(scores[name], kinds, unit)) is not None:
            means[name] = partial
    results = (
        _result(arm, asked[arm.name], kinds, means.get(arm.name), differences.get(arm.name)) for arm in arms
    )
    return [
        replace(result, base_score=_mean_at(scores[base], scores[result.name].keys())) for result in results
    ]


def _mean_at(scores: Mapping[str, float], keys: Collection[str]) -> float | None:
    return fmean(scores[key] for key in keys) if keys else None


def _kinds(folds: Sequence[Fold]) -> dict[str, str]:
    return {key: kind for fold in folds for key, kind in fold.kinds.items()}


def _interval(scores: Mapping[str, float], kinds: Mapping[str, str], unit: Unit) -> Interval | None:
    """Return the mean score of the recorded questions; `None` if they are too few for an interval."""
    keys = sorted(scores)
    if len({kinds[key] for key in keys} if unit == "kind" else keys) < 2:
        return None
    return interval_of_mean([scores[key] for key in keys], _resampling(keys, kinds, unit))


def _check_apart(fold: Fold) -> None:
    fitted = {question.split_key for question in fold.train.questions}
    if both := [question for question in fold.test.questions if question.split_key in fitted]:
        raise ArmUnfit(
            f"question {both[0].id!r} is among those to fit arms on and among those to test them with"
        )


def _resampling(keys: Sequence[str], kinds: Mapping[str, str], unit: Unit) -> Resampling:
    try:
        return Resampling([kinds[key] for key in keys], unit=unit)
    except ValueError as error:
        raise ArmUnfit(str(error)) from error


def _result(
    arm: Arm,
    tallies: Tallies,
    kinds: Mapping[str, str],
    score: Interval | None,
    difference: Difference | None,
) -> ArmResult:
    result = ArmResult(
        name=arm.name,
        achievable=arm.achievable,
        questions=len(kinds),
        unrecorded=tallies.unrecorded,
        unfit=tallies.unfit,
    )
    scores = tallies.scores
    if not scores:
        return result
    of_kind = defaultdict[str, list[float]](list)
    for key in sorted(scores):
        of_kind[kinds[key]].append(scores[key])
    every = [tallies.of_query[key] for key in sorted(scores)]
    answers = sum(tally.answers for tally in every)
    return replace(
        result,
        recorded=len(scores),
        score=score,
        difference=difference,
        calls=sum(tally.calls for tally in every) / answers,
        tokens=_mean([tally.tokens for tally in every], answers),
        empty=_mean([tally.empty for tally in every], answers),
        cost=_mean([tally.cost for tally in every], answers),
        latency_s=_mean([tally.latency_s for tally in every], answers),
        kinds={kind: fmean(each) for kind, each in sorted(of_kind.items())},
    )


def _mean(sums: Sequence[float | None], answers: int) -> float | None:
    known = [each for each in sums if each is not None]
    return sum(known) / answers if len(known) == len(sums) else None
