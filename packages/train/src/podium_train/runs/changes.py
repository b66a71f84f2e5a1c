"""What differs between the recipe of a training and the recipe of today."""

import json
from collections.abc import Iterator, Sequence

from podium.errors import ConfigError
from podium_train.recipes import Recipe, fingerprint_of
from podium_train.runs.record import RECORD, TrainingRecord


def changes(
    then: Recipe, now: Recipe, keys: Sequence[str], *, free: frozenset[str] = frozenset()
) -> list[str]:
    """Return a line for each setting that differs.

    Args:
        then: the recipe of the training.
        now: the recipe of today.
        keys: the tables and settings to compare, as in `model` or `model.base`.
        free: settings in these tables that may differ.
    """
    found = _differences(then.model_dump(mode="json"), now.model_dump(mode="json"))
    return [
        f"{_named(path)}: {_value(before)}, now {_value(after)}"
        for path, before, after in found
        if any(f"{path}.".startswith(f"{key}.") for key in keys)
        and not any(f"{path}.".startswith(f"{key}.") for key in free)
    ]


def check_prompt(record: TrainingRecord, recipe: Recipe, model: object) -> None:
    """Check that a recipe has the prompt with which a model was trained.

    Raises:
        ConfigError: it has another one. The message names each setting that differs.
    """
    _refuse(prompt_changes(record, recipe), model)


def check_recipe(record: TrainingRecord, recipe: Recipe, model: object) -> None:
    """Check that a recipe has the prompt, the data and the base with which a model was trained.

    Raises:
        ConfigError: it has others. The message names each setting that differs.
    """
    others = changes(record.recipe, recipe, ["environment", "model.base"])
    _refuse([*prompt_changes(record, recipe), *others], model)


def prompt_changes(record: TrainingRecord, recipe: Recipe) -> list[str]:
    """Return a line for each setting of the prompt that differs.

    If none differs, and the installed Podium writes another prompt for the same settings, the line says so.
    """
    found = changes(record.recipe, recipe, ["prompt"])
    if found or record.fingerprint is None:
        return found
    now = fingerprint_of(recipe.prompt)
    if now == record.fingerprint:
        return []
    return [f"the prompt that the installed Podium writes: {record.fingerprint}, now {now}"]


def listed(lines: Sequence[str]) -> str:
    """Return lines for an error, each indented."""
    return "".join(f"\n  {line}" for line in lines)


def _refuse(found: Sequence[str], model: object) -> None:
    if found:
        raise ConfigError(
            f"the model in {model} was trained with settings that differ from the recipe:{listed(found)}\n"
            f"Use the recipe of the training, whose settings are in {RECORD} in that folder"
        )


def _differences(then: object, now: object, path: str = "") -> Iterator[tuple[str, object, object]]:
    if isinstance(then, dict) and isinstance(now, dict):
        for key in {**then, **now}:
            yield from _differences(then.get(key), now.get(key), f"{path}.{key}" if path else key)
    elif then != now:
        yield path, then, now


def _named(path: str) -> str:
    table, _, key = path.rpartition(".")
    return f"{key!r} in [{table}]" if table else f"[{key}]"


def _value(value: object) -> str:
    if value is None:
        return "not set"
    return "a table" if isinstance(value, dict) else json.dumps(value, ensure_ascii=False)
