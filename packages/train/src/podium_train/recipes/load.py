"""Reads recipes, and reports their errors with the line and the key."""

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from pydantic import ValidationError

from podium.config import complaints_of, lines_of
from podium.errors import ConfigError
from podium_train.recipes.recipe import Recipe

_MOST_BYTES = 2**20


def shipped_recipes() -> dict[str, str]:
    """Return the text of each recipe of this package, by name."""
    folder = files("podium_train.recipes")
    return {
        entry.name.removesuffix(".toml"): entry.read_text(encoding="utf-8")
        for entry in sorted(folder.iterdir(), key=lambda each: each.name)
        if entry.name.endswith(".toml")
    }


def load_recipe(path: Path) -> Recipe:
    """Read and check a recipe.

    Raises:
        ConfigError: the file cannot be read, or is not a valid recipe. The message names each wrong key.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise ConfigError(f"{path}: a recipe has at most {_MOST_BYTES:,} bytes")
        text = content.decode()
        data = tomllib.loads(text)
    except OSError as error:
        known = ", ".join(shipped_recipes())
        told = f"{path} cannot be read: {(error.strerror or str(error)).lower()}"
        raise ConfigError(f"{told}; `podium-train recipe NAME` writes one of {known}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error
    try:
        return Recipe.model_validate(data)
    except ValidationError as error:
        lines = lines_of(text)
        wrong = [
            f"{path}:{line}: {complaint}" if (line := _line(lines, key)) else f"{path}: {complaint}"
            for key, complaint in complaints_of(error, Recipe)
        ]
        raise ConfigError("\n".join(wrong)) from error


def _line(lines: Mapping[tuple[str | int, ...], int], key: tuple[str | int, ...]) -> int | None:
    """Return the line of a key, or of the nearest table around it."""
    for end in range(len(key), 0, -1):
        if found := lines.get(key[:end]):
            return found
    return None
