"""The examples of a recipe for supervised training, from plans that need no model."""

from pathlib import Path

import anyio

from podium.errors import ConfigError
from podium_train.environments import RecordedAnswers
from podium_train.evaluation import best_card_arm, reasoned_arm
from podium_train.recipes import Recipe, environment_of
from podium_train.warm_start import WrittenExamples, best_of, write_examples


def write_example_plans(recipe: Recipe, folder: Path, *, episodes: int, seed: int) -> WrittenExamples:
    """Write right plans that choose workers by the measured rates on their cards.

    With `reasons` in the style of the prompt, each plan has a line with the kind and the rates of each part.

    Args:
        recipe: the settings, with `[sft]`, whose file of examples is written.
        folder: the folder of the recipe.
        episodes: number of episodes. Plans with a wrong answer are left out, so there are fewer examples.
        seed: of the episodes.

    Raises:
        ConfigError: the environment has no recorded answers, the file exists, or no plan was right.
    """
    assert recipe.sft is not None
    path = folder / recipe.sft.examples
    environment = environment_of(recipe.environment, folder)
    if not isinstance(environment, RecordedAnswers):
        raise ConfigError(
            f"[environment] is of type {recipe.environment.type!r}: this command needs recorded answers, "
            'with type = "recorded"'
        )
    if path.exists():
        raise ConfigError(f"{path} exists: delete it, or name another file as 'examples' in [sft]")
    drawn = environment.episodes("train", episodes, seed=seed)
    style = recipe.prompt.style
    arm = reasoned_arm(environment) if style.reasons else best_card_arm(environment)
    found = anyio.run(best_of, environment, drawn, arm, style)
    return write_examples(path, found)
