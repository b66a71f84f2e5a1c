"""Asks arms for plans of the same episodes, carries them out, and makes figures, tables and files."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import anyio

from podium.config import load_config
from podium.errors import ConfigError, PodiumError
from podium_evals.errors import first_failure
from podium_evals.results import rounding
from podium_evals.statistics import Difference, Interval, Resampling, Unit, compare, intervals_of_means
from podium_train.environments import Environment, Episode, RecordedAnswers, Split
from podium_train.errors import NothingMeasured
from podium_train.evaluation.arms import PlanArm, card_arms, plan_arm, planner_arm, recorded_arms
from podium_train.recipe import Recipe, environment_of
from podium_train.rewards import Reward, reward_of

MOST_STEPS = 32
"""Maximum number of steps of a plan of an arm that is not a conductor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One plan text of an arm for an episode, and its reward."""

    arm: str
    episode: Episode
    sample: int
    """Number of the text among those for this episode, from 0."""
    text: str
    """The text; empty if the arm failed."""
    reward: Reward
    failure: str = ""
    """Why the arm gave no text; empty if it did."""

    @property
    def score(self) -> float | None:
        """The grade of the answer; 0 without a valid plan, `None` if it cannot be known."""
        if self.failure or self.reward.value is None:
            return None
        return 0.0 if self.reward.outcome is None else self.reward.outcome.score


async def evaluate(
    environment: Environment,
    episodes: Sequence[Episode],
    arms: Sequence[PlanArm],
    *,
    max_steps: int = MOST_STEPS,
    at_once: int = 8,
) -> dict[str, list[Trial]]:
    """Return the trials of each arm, in the order of the episodes and samples.

    An arm that fails for an episode, for example because its server does not answer, has a trial without a
    score.

    Args:
        environment: carries out the plans.
        episodes: what the arms are asked.
        arms: the arms; names differ.
        max_steps: maximum number of steps of a valid plan.
        at_once: maximum plans at the same time.

    Raises:
        ConfigError: two arms have one name, there is no episode, or `at_once` is below 1.
    """
    names = [arm.name for arm in arms]
    if len(set(names)) < len(names) or not episodes or at_once < 1:
        raise ConfigError("give arms of different names, at least one episode, and at_once of 1 or more")
    found: dict[tuple[str, int, int], Trial] = {}
    left = _left(arms, episodes)

    async def work() -> None:
        for arm, place, sample in left:
            found[arm.name, place, sample] = await _try(environment, arm, episodes[place], sample, max_steps)

    with first_failure():
        async with anyio.create_task_group() as group:
            for _ in range(at_once):
                group.start_soon(work)
    return {
        arm.name: [
            found[arm.name, place, sample] for place in range(len(episodes)) for sample in range(arm.samples)
        ]
        for arm in arms
    }


def _left(arms: Sequence[PlanArm], episodes: Sequence[Episode]) -> Iterator[tuple[PlanArm, int, int]]:
    for arm in arms:
        for place in range(len(episodes)):
            for sample in range(arm.samples):
                yield arm, place, sample


async def _try(
    environment: Environment, arm: PlanArm, episode: Episode, sample: int, max_steps: int
) -> Trial:
    try:
        text = await arm.text(episode, sample)
    except PodiumError as error:
        failure = f"{error.code}: {error}"
        unknown = Reward(value=None)
        return Trial(arm=arm.name, episode=episode, sample=sample, text="", reward=unknown, failure=failure)
    reward = await reward_of(text, episode, environment, max_steps=max_steps)
    return Trial(arm=arm.name, episode=episode, sample=sample, text=text, reward=reward)


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


_HEAD = ("arm", "score", "gain", "alone", "together", "unknown", "invalid", "calls", "$/1000")


def as_table(evaluation: Evaluation) -> str:
    """Return a table with a line for each arm, and notes."""
    rows = [_HEAD, *(tuple(_cells(arm, evaluation.base)) for arm in evaluation.arms)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = [
        f"{evaluation.environment}, split {evaluation.split}: {evaluation.episodes:,} episodes",
        "",
        *(_line(row, widths) for row in rows),
        "",
        *_notes(evaluation),
    ]
    return "\n".join(lines) + "\n"


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    others = map(str.rjust, row[1:], widths[1:])
    return " ".join([row[0].ljust(widths[0]), *others]).rstrip()


def _cells(arm: ArmScores, base: str) -> Iterator[str]:
    yield arm.name + ("" if arm.is_achievable else " *")
    yield rounding.score(arm.score.mean)
    if arm.difference is None:
        yield from ("base" if arm.name == base else rounding.UNKNOWN, "", "")
    else:
        yield rounding.gain(arm.difference.alone.mean)
        yield rounding.interval(arm.difference.alone)
        yield rounding.interval(arm.difference.together)
    yield _percent(arm.unknown)
    yield _percent(1 - arm.valid - arm.failed)
    yield rounding.count(arm.calls)
    yield rounding.per_thousand(arm.cost)


def _percent(share: float) -> str:
    return f"{share:.1%}" if share > 1e-9 else "0"


def _notes(evaluation: Evaluation) -> Iterator[str]:
    about = "other kinds" if evaluation.unit == "kind" else "other questions of the same kinds"
    yield f"gain: above {evaluation.base}; 95 % intervals, about {about}, alone and for all arms together."
    yield "Plans that are invalid or whose outcome is unknown count 0. Scores and gains are rounded down."
    if not all(arm.is_achievable for arm in evaluation.arms):
        yield "* reads the right answers: an estimate of a bound, not a result; another arm can be above it."
    for arm in evaluation.arms:
        if arm.problems:
            told = ", ".join(f"{number} {problem}" for problem, number in arm.problems.items())
            yield f"{arm.name}: {told}"
        if arm.failure:
            yield f"{arm.name} gave no text for {_percent(arm.failed)}, first because of {arm.failure}"


async def compare_served(
    recipe: Recipe,
    folder: Path,
    *,
    split: Split,
    episodes: int,
    seed: int,
    planner: Path | None,
) -> Evaluation:
    """Return the comparison of the baselines and, if one is given, of the planner of a `podium.toml`."""
    environment = environment_of(recipe.environment, folder)
    arms = _baselines(environment)
    base = "best single" if any(arm.name == "best single" for arm in arms) else arms[0].name
    drawn = environment.episodes(split, episodes, seed=seed)
    async with AsyncExitStack() as stack:
        if planner is not None:
            model = await stack.enter_async_context(load_config(planner).planner())
            steps = recipe.prompt.style.max_steps
            if model.name in [arm.name for arm in arms]:
                raise ConfigError(f"the planner has the name of a baseline, {model.name!r}: rename it")
            arms = [planner_arm(model.name, model, max_steps=steps), *arms]
        trials = await evaluate(environment, drawn, arms)
    first = trials[arms[0].name]
    if planner is not None and all(trial.failure for trial in first):
        raise NothingMeasured(f"the planner {arms[0].name!r} gave no plan: {first[0].failure}")
    if all(trial.score is None for each in trials.values() for trial in each):
        raise NothingMeasured(
            f"no plan of any arm has a known outcome: {environment.name} could not carry out a single one; "
            "check its workers with `podium check`"
        )
    return compare_arms(arms, trials, base=base, environment=environment.name, split=split)


def _baselines(environment: Environment) -> list[PlanArm]:
    if isinstance(environment, RecordedAnswers):
        return recorded_arms(environment)
    own = environment.baselines().items()
    found = [plan_arm(name, choose, is_achievable=name != "oracle") for name, choose in own]
    return found or card_arms()
