"""The forecast of each part of a training."""

from math import ceil
from pathlib import Path

from podium.cli import counted, duration
from podium.errors import ConfigError
from podium_evals.statistics import Expected
from podium_train.forecasts.money import cost_lines
from podium_train.forecasts.rest import measurements_left, measuring_seconds, rest_of_grpo, rest_of_sft
from podium_train.guards import STEPS, UPDATES, last_checkpoint, read_log, step_of
from podium_train.recipes import HeldOutSection, Recipe


def forecast_sft(recipe: Recipe, folder: Path) -> list[str]:
    """Return sentences about the updates of `[sft]` that are left.

    Raises:
        ConfigError: the examples or the log cannot be read. Examples that do not exist are told.
    """
    sft = recipe.sft
    assert sft is not None
    path = folder / sft.examples
    if not path.exists():
        told = f"The examples {path} do not exist, so the number of updates is unknown."
        return [f"{told} `podium-train examples` writes them. The other forecasts do not depend on them."]
    try:
        examples = sum(1 for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the examples {path} cannot be read: {error}") from error
    run = folder / recipe.folder / "sft"
    updates = ceil(ceil(ceil(examples / sft.micro_batch) / (sft.batch // sft.micro_batch)) * sft.epochs)
    left = max(updates - step_of(last_checkpoint(run)), 0)
    times = f"{counted(examples, 'example')}, {sft.epochs:g} times"
    told = f"{times}: {counted(left, 'update')} left of {updates:,}."
    return [told, rest_of_sft(read_log(run / UPDATES), left)]


def forecast_grpo(recipe: Recipe, folder: Path) -> list[str]:
    """Return sentences about the steps of `[grpo]` that are left.

    Raises:
        ConfigError: the log or the environment cannot be read.
    """
    grpo = recipe.grpo
    assert grpo is not None
    run = folder / recipe.folder
    done, lines = min(step_of(last_checkpoint(run)), grpo.steps), read_log(run / STEPS)
    left, measurements = grpo.steps - done, measurements_left(recipe, grpo, done)
    texts, held = left * grpo.groups * grpo.group_size, measurements * _measured_plans(recipe.held_out)
    told = f"{left:,} steps of {grpo.groups} × {grpo.group_size} texts: {_plans(recipe, texts)}"
    measured = f", and {counted(measurements, 'measurement')} with {held:,} plans" if held else ""
    return [
        f"{told}{measured}. Equal plans are executed once.",
        *cost_lines(recipe, folder, texts + held, lines),
        rest_of_grpo(recipe, lines, done),
    ]


def forecast_eval(recipe: Recipe, folder: Path) -> list[str]:
    """Return sentences about a measurement of held-out episodes.

    Raises:
        ConfigError: the log or the environment cannot be read.
    """
    wanted, lines = recipe.held_out, read_log(folder / recipe.folder / STEPS)
    plans = _measured_plans(wanted)
    splits = f"{counted(len(wanted.splits), 'split')} of {counted(wanted.episodes, 'episode')}"
    told = [f"{splits}, sampled and greedy: {_plans(recipe, plans)}."]
    told += cost_lines(recipe, folder, plans, lines)
    if seconds := measuring_seconds(lines):
        expected = Expected.sum_of(seconds, 1)
        told.append(f"Expected duration without loading: {expected.told(duration)}, as in the training.")
    else:
        told.append("Expected duration: unknown, because the log of the training has no measurement.")
    return told


def forecast_compare(recipe: Recipe, folder: Path, *, episodes: int, arms: int) -> list[str]:
    """Return sentences about a comparison.

    Args:
        recipe: the settings.
        folder: the folder of the recipe.
        episodes: number of episodes.
        arms: number of arms.
    """
    lines = read_log(folder / recipe.folder / STEPS)
    told = f"{counted(episodes, 'episode')} of {counted(arms, 'arm')}: {_plans(recipe, episodes * arms)}."
    return [told, *cost_lines(recipe, folder, episodes * arms, lines)]


def _measured_plans(wanted: HeldOutSection) -> int:
    return len(wanted.splits) * wanted.episodes * 2


def _plans(recipe: Recipe, plans: int) -> str:
    calls = f", with up to {plans * recipe.prompt.style.max_steps:,} calls of workers"
    return f"{plans:,} plans{calls if recipe.environment.type == 'live' else ''}"
