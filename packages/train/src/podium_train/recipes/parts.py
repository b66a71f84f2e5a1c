"""Builds what a recipe names: the environment, and the prompt."""

import sys
from importlib import import_module
from pathlib import Path

from podium.errors import ConfigError
from podium.planners.chat import round_feedback
from podium.types import Message
from podium_evals.recorded import read_recordings
from podium_train.environments import Environment, Episode, LivePool, RecordedAnswers
from podium_train.prompts import fingerprint, messages, second_messages
from podium_train.recipes.recipe import EnvironmentSection, PromptSection, Recipe


def environment_of(section: EnvironmentSection, folder: Path) -> Environment:
    """Return the environment.

    Args:
        section: the table.
        folder: the folder of the recipe, at which relative paths start.

    Raises:
        ConfigError: a file cannot be read, or has too little.
    """
    if section.type == "python":
        return _own(section, folder)
    if section.type == "recorded":
        assert section.recording is not None
        return RecordedAnswers(read_recordings(folder / section.recording), section.answers)
    assert section.config is not None
    assert section.questions is not None
    return LivePool(
        folder / section.config,
        folder / section.questions,
        grader=section.grader,
        python=section.python,
        sizes=section.sizes,
    )


def _own(section: EnvironmentSection, folder: Path) -> Environment:
    """Return an environment of the user."""
    assert section.factory is not None
    module, _, name = section.factory.partition(":")
    if (beside := str(folder.resolve())) not in sys.path:
        sys.path.append(beside)
    told = f"'factory' in [environment] is {section.factory!r}"
    try:
        make = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"{told}, which cannot be imported: {error}; write module:name") from error
    try:
        made = make(**section.options)
    except TypeError as error:
        raise ConfigError(f"'options' in [environment] do not fit {section.factory}: {error}") from error
    if not isinstance(made, Environment):
        raise ConfigError(f"{told}, which returns no podium_train.Environment")
    return made


def messages_of(
    recipe: Recipe, environment: Environment, episode: Episode, earlier: tuple[str, str] | None = None
) -> tuple[Message, ...]:
    """Return the messages that the conductor is sent for an episode.

    Args:
        recipe: says how it is asked.
        environment: the environment of the episode.
        episode: the episode.
        earlier: for the second round, the conductor's text of the first round, and its answer.
    """
    style = recipe.prompt.style
    if recipe.prompt.form == "environment":
        asked = Message("user", environment.message(episode))
        if earlier is None:
            return (asked,)
        text, answer = earlier
        feedback = round_feedback(answer, spelling="lists")
        return (asked, Message("assistant", text), Message("user", feedback))
    if earlier is None:
        return messages(episode, style)
    return second_messages(episode, style, text=earlier[0], answer=earlier[1])


def fingerprint_of(section: PromptSection) -> str:
    """Return the fingerprint of the prompt, with which the conductor must be served.

    Raises:
        ConfigError: the prompt is not the prompt of the planner that production uses.
    """
    if section.form == "environment":
        raise ConfigError(
            "a conductor with a prompt of its environment cannot be served: it knows its own world only"
        )
    return fingerprint(section.style)


def check_environment(recipe: Recipe, folder: Path) -> None:
    """Check that the environment has the held-out splits, and the prices for `[reward.cost]`.

    A training would end at the first split that is missing. Without prices, costs would have no effect.

    Raises:
        ConfigError: the environment lacks a split or a price, or cannot be made.
    """
    environment = environment_of(recipe.environment, folder)
    for split in recipe.held_out.splits:
        if split not in environment.splits:
            known = ", ".join(environment.splits)
            raise ConfigError(f"'splits' in [held_out] names {split}: {environment.name} has {known}")
    if recipe.reward.cost.weight and environment.unpriced:
        raise ConfigError(
            "[reward.cost] compares the costs of plans, and the price of "
            f"{', '.join(environment.unpriced)} is unknown: set `price` in [workers.NAME] of podium.toml "
            "(for recorded answers, then repeat `podium evals record ask`, which records the prices without "
            "new calls), or leave out [reward.cost]"
        )
