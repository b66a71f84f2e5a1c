"""From trials to figures: scores with intervals, differences, and what could not be known."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from podium.errors import ConfigError
from podium_evals.statistics import Difference, Interval, Resampling, Unit, compare, intervals_of_means
from podium_train.evaluation.arm import PlanArm
from podium_train.evaluation.evaluating import Trial

_FEWEST_KINDS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmScores:
    """What an arm reached."""

    name: str
    is_achievable: bool
    """Whether it knows nothing of the right answers."""
    score: Interval
    """The mean score, and its interval. A plan whose outcome cannot be known counts 0, so the true mean is at
    least this."""
    known: float | None
    """The mean score of the episodes whose outcome is known; `None` if there are none."""
    difference: Difference | None
    """The difference of `score` to the base arm; `None` for the base."""
    unknown: float
    """Share of the texts whose outcome cannot be known, with those that the arm failed to give."""
    failed: float
    """Share of the texts that the arm failed to give, for example because its server did not answer."""
    failure: str
    """Why it failed to give the first of these texts; empty if it gave all."""
    valid: float
    """Share of the texts that have a valid plan."""
    steps: float | None
    """Mean number of steps of a valid plan; `None` without any."""
    calls: float | None
    """Mean number of worker calls of a plan whose outcome is known, like `cost`; `None` without any."""
    cost: float | None
    """Mean cost; `None` if a price is unknown."""
    kinds: Mapping[str, float]
    """The mean score of each kind, counted like `score`."""
    problems: Mapping[str, int]
    """Number of texts by what was wrong: codes of invalid plans, and failures of the arm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """A comparison of arms."""

    environment: str
    split: str
    episodes: int
    unit: Unit
    """What the intervals are about: other questions of the same kinds, or other kinds."""
    base: str
    """The name of the arm that the others are compared with."""
    arms: tuple[ArmScores, ...]


def compare_arms(
    arms: Sequence[PlanArm],
    trials: Mapping[str, Sequence[Trial]],
    *,
    base: str,
    environment: str,
    split: str,
    unit: Unit | None = None,
) -> Evaluation:
    """Compare arms by their trials of the same episodes.

    Intervals are paired bootstraps, see `podium_evals.statistics`.

    Args:
        arms: the arms, in the order of the table.
        trials: the trials of each arm, by its name.
        base: the name of the arm that the others are compared with.
        environment: the name of the environment.
        split: the name of the split.
        unit: what is resampled. `None` resamples kinds if there are ten or more, else questions. Bundles have
            several kinds, so resample questions.

    Raises:
        ConfigError: no arm is called `base`, or there are fewer than two episodes or kinds.
    """
    if base not in trials:
        raise ConfigError(f"no arm is called {base!r}: there are {', '.join(trials)}")
    scores = {name: _of_episodes(each) for name, each in trials.items()}
    kinds = [trial.episode.kind for trial in trials[base] if trial.sample == 0]
    chosen: Unit = unit or ("kind" if len(set(kinds)) >= _FEWEST_KINDS else "question")
    try:
        resampling = Resampling(kinds, unit=chosen)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    means = dict(zip(scores, intervals_of_means(list(scores.values()), resampling), strict=True))
    differences = compare(scores, resampling, against=base)
    figures = tuple(
        _figures(arm, trials[arm.name], scores[arm.name], kinds, means[arm.name], differences.get(arm.name))
        for arm in arms
    )
    return Evaluation(
        environment=environment,
        split=split,
        episodes=len(kinds),
        unit=chosen,
        base=base,
        arms=figures,
    )


def _of_episodes(trials: Sequence[Trial]) -> list[float]:
    """Return the score of each episode, in their order: the mean over samples, 0 for an unknown outcome."""
    found: list[list[float]] = []
    for trial in trials:
        if trial.sample == 0:
            found.append([])
        found[-1].append(trial.score or 0.0)
    return [fmean(each) for each in found]


def _figures(
    arm: PlanArm,
    trials: Sequence[Trial],
    scores: Sequence[float],
    kinds: Sequence[str],
    score: Interval,
    difference: Difference | None,
) -> ArmScores:
    known = [each for trial in trials if (each := trial.score) is not None]
    plans = [trial.reward.plan for trial in trials if trial.reward.plan is not None]
    outcomes = [trial.reward.outcome for trial in trials if trial.reward.outcome is not None]
    failures = [trial.failure for trial in trials if trial.failure]
    of_kind = defaultdict[str, list[float]](list)
    for kind, each in zip(kinds, scores, strict=True):
        of_kind[kind].append(each)
    return ArmScores(
        name=arm.name,
        is_achievable=arm.is_achievable,
        score=score,
        known=_mean(known),
        difference=difference,
        unknown=1 - len(known) / len(trials),
        failed=len(failures) / len(trials),
        failure=failures[0] if failures else "",
        valid=len(plans) / len(trials),
        steps=_mean([len(plan.calls) for plan in plans]),
        calls=_mean([outcome.calls for outcome in outcomes]),
        cost=_cost([outcome.cost for outcome in outcomes]),
        kinds={kind: fmean(each) for kind, each in sorted(of_kind.items())},
        problems=dict(Counter(_problems(trials)).most_common()),
    )


def _problems(trials: Iterable[Trial]) -> Iterable[str]:
    for trial in trials:
        if problem := trial.reward.problem or trial.failure.partition(":")[0]:
            yield problem


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _cost(costs: Sequence[float | None]) -> float | None:
    known = [cost for cost in costs if cost is not None]
    return fmean(known) if known and len(known) == len(costs) else None
