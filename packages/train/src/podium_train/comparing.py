"""Compares a served conductor with the baselines of a recipe's environment."""

from contextlib import AsyncExitStack
from pathlib import Path

from podium.cli.screen import counted
from podium.config import load_config
from podium.errors import ConfigError
from podium_train.environments import Environment, RecordedAnswers, Split
from podium_train.errors import NothingMeasured
from podium_train.evaluation import (
    Evaluation,
    PlanArm,
    Trial,
    card_arms,
    compare_arms,
    evaluate,
    plan_arm,
    planner_arm,
    recorded_arms,
)
from podium_train.recipes import Recipe, environment_of

_FIRST = 8
"""Number of first texts of a planner that must not all fail. They are asked at the same time."""


async def compare_served(
    recipe: Recipe,
    folder: Path,
    *,
    split: Split,
    episodes: int,
    seed: int,
    planner: Path | None,
) -> Evaluation:
    """Return the comparison of the baselines and, if one is given, of the planner of a `podium.toml`.

    Args:
        recipe: its environment is used.
        folder: the folder of the recipe.
        split: the split that is asked.
        episodes: number of episodes.
        seed: of the episodes.
        planner: the `podium.toml` whose planner is the conductor; `None` compares the baselines alone.

    Raises:
        ConfigError: the environment or the planner cannot be made, or there is no such split.
        NothingMeasured: the planner fails for all of its first episodes, or no outcome is known.
    """
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
        first = _FirstTexts(None if planner is None else arms[0].name, min(episodes, _FIRST))
        trials = await evaluate(environment, drawn, arms, on_trial=first.hear)
    if all(trial.score is None for each in trials.values() for trial in each):
        raise NothingMeasured(
            f"no plan of any arm has a known outcome: {environment.name} could not carry out a single one; "
            "check its workers with `podium check`"
        )
    return compare_arms(arms, trials, base=base, environment=environment.name, split=split)


class _FirstTexts:
    """Ends a comparison whose planner, if there is one, fails for all of its first texts."""

    def __init__(self, planner: str | None, first: int) -> None:
        self._planner, self._first = planner, first
        self._failures: list[str] = []
        self._answers = False

    def hear(self, trial: Trial) -> None:
        if trial.arm != self._planner or self._answers:
            return
        self._answers = not trial.failure
        self._failures.append(trial.failure)
        if not self._answers and len(self._failures) == self._first:
            raise NothingMeasured(
                f"the planner {self._planner!r} gave no plan for the first "
                f"{counted(self._first, 'episode')}: {self._failures[0]}"
            )


def _baselines(environment: Environment) -> list[PlanArm]:
    if isinstance(environment, RecordedAnswers):
        return recorded_arms(environment)
    own = environment.baselines().items()
    found = [plan_arm(name, choose, is_achievable=name != "oracle") for name, choose in own]
    return found or card_arms()
