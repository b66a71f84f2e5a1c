"""Compares a served conductor with the baselines of a recipe's environment."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from podium.config import load_config
from podium.errors import ConfigError
from podium_train.environments import Environment, RecordedAnswers, Split
from podium_train.environments.specialists import BASELINES, Specialists
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


async def compare_served(  # noqa: PLR0913 - the options of a command
    recipe: Recipe,
    folder: Path,
    *,
    split: Split,
    episodes: int,
    seed: int,
    planner: Path | None,
    on_trial: Callable[[Trial], object] = lambda _trial: None,
) -> Evaluation:
    """Return the comparison of the baselines and, if one is given, of the planner of a `podium.toml`.

    Args:
        recipe: its environment is used.
        folder: the folder of the recipe.
        split: the split that is asked.
        episodes: number of episodes.
        seed: of the episodes.
        planner: the `podium.toml` whose planner is the conductor; `None` compares the baselines alone.
        on_trial: is called after each plan.

    Raises:
        ConfigError: the environment or the planner cannot be made, or there is no such split.
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
        trials = await evaluate(environment, drawn, arms, on_trial=on_trial)
    return compare_arms(arms, trials, base=base, environment=environment.name, split=split)


def _baselines(environment: Environment) -> list[PlanArm]:
    if isinstance(environment, RecordedAnswers):
        return recorded_arms(environment)
    if isinstance(environment, Specialists):
        return [plan_arm(name, choose, is_achievable=name != "oracle") for name, choose in BASELINES.items()]
    return card_arms()
