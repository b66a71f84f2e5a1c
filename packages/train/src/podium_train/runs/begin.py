"""Begins a run, or continues it if nothing that decides its result has changed."""

from pathlib import Path

from podium.errors import ConfigError
from podium_train.guards import last_checkpoint, step_of
from podium_train.recipes import Recipe
from podium_train.runs.changes import changes, listed, prompt_changes
from podium_train.runs.record import RECORD, TrainingRecord, read_record, write_record

_TABLES = {
    "sft": ("environment", "model", "sft"),
    "grpo": ("environment", "model", "grpo", "recursion", "reward", "held_out"),
}
_FREE = frozenset(
    {
        *("environment.recording", "environment.config", "environment.questions", "sft.examples"),  # digests
        *("model.attention", "sft.micro_batch", "grpo.micro_batch", "grpo.vllm"),  # machine
        *("reward.limits",),
        *("sft.save_every", "grpo.save_every", "held_out.every"),
        *("sft.epochs", "grpo.steps"),  # may be raised
    }
)
"""Settings with which a run may continue although they differ."""
_MODELS = ("best", "final")


def begin(run: Path, record: TrainingRecord) -> list[str]:
    """Write the record of a run that starts, or check that a run continues with the settings of its start.

    Args:
        run: the folder of the run.
        record: what the training is started with now.

    Returns:
        Sentences that people should read.

    Raises:
        ConfigError: the run was started with other settings, which the message names, or nothing tells its
            settings.
    """
    checkpoint = last_checkpoint(run)
    told: list[str] = []
    if checkpoint is not None or any((run / name).exists() for name in _MODELS):
        then = read_record(run)
        if then is None:
            raise ConfigError(
                f"{run} has models and no {RECORD}, so nobody can know how they were trained: name another "
                "'folder' in the recipe"
            )
        if found := _refused(then, record, step_of(checkpoint)):
            raise ConfigError(
                f"the run in {run} was started with other settings:{listed(found)}\n"
                "To continue it, restore these settings. To start a new run, name another 'folder' in the "
                "recipe"
            )
        told = _lengthened(then, record)
    write_record(run, record)
    return told


def begin_after_sft(run: Path, recipe: Recipe) -> None:
    """Check that GRPO continues a supervised training of the same base with the same prompt.

    Args:
        run: the folder of the run, which has `sft/final`.
        recipe: the recipe of today.

    Raises:
        ConfigError: it does not. The message names each setting that differs.
    """
    record = read_record(run / "sft" / "final")
    if record is None:
        raise ConfigError(f"{run / 'sft' / 'final'} has no {RECORD}: run podium-train sft again")
    if found := changes(record.recipe, recipe, ["model.base"]) + prompt_changes(record, recipe):
        raise ConfigError(
            f"the model in {run / 'sft' / 'final'} was trained with other settings:{listed(found)}\n"
            "To continue it, restore these settings. To start from another model, name another 'folder' in "
            "the recipe"
        )


def _refused(then: TrainingRecord, now: TrainingRecord, done: int) -> list[str]:
    """Return a line for each difference that would alter the run."""
    found = prompt_changes(then, now.recipe)
    found += changes(then.recipe, now.recipe, _TABLES[now.part], free=_FREE)
    if then.data != now.data and not changes(then.recipe, now.recipe, ["environment"], free=_FREE):
        found.append(f"the data of the environment {now.environment!r}: {then.data}, now {now.data}")
    if then.examples != now.examples:
        found.append(f"the examples of [sft]: {then.examples}, now {now.examples}")
    if (then.start, then.weights) != (now.start, now.weights):
        before, after = (f"{each.start} ({each.weights or 'on the Hub'})" for each in (then, now))
        found.append(f"the model from which it starts: {before}, now {after}")
    return found + _lowered(then, now, done)


def _lowered(then: TrainingRecord, now: TrainingRecord, done: int) -> list[str]:
    grpo, before, after = now.recipe.grpo, then.recipe.sft, now.recipe.sft
    if now.part == "grpo" and grpo is not None and grpo.steps < done:
        return [f"'steps' in [grpo] is {grpo.steps}, and the run has made {done}"]
    if now.part == "sft" and before is not None and after is not None and after.epochs < before.epochs:
        return [f"'epochs' in [sft]: {before.epochs:g}, now {after.epochs:g}; it may only be raised"]
    return []


def _lengthened(then: TrainingRecord, now: TrainingRecord) -> list[str]:
    """Return a sentence if the rest of the run has other learning rates, because its length has changed."""
    if now.part == "grpo" and now.recipe.grpo is not None and now.recipe.grpo.schedule == "constant":
        return []
    length = {"sft": "sft.epochs", "grpo": "grpo.steps"}[now.part]
    told = "The learning rate follows the new length from here"
    return [
        f"Changed since the last start: {each}. {told}."
        for each in changes(then.recipe, now.recipe, [length])
    ]
