"""Reads recipes, and reports their errors with the line and the key."""

from importlib.resources import files
from pathlib import Path

from podium.config.load import read_table
from podium_train.recipes.recipe import Recipe


def shipped_recipes() -> dict[str, str]:
    """Return the text of each recipe of this package, by name."""
    folder = files("podium_train.recipes")
    return {
        entry.name.removesuffix(".toml"): entry.read_text(encoding="utf-8")
        for entry in sorted(folder.iterdir(), key=lambda each: each.name)
        if entry.name.endswith(".toml")
    }


def shipped_launchers() -> dict[str, str]:
    """Return the text of each file for `accelerate launch --config_file`, by its name."""
    folder = files("podium_train.recipes")
    return {
        entry.name: entry.read_text(encoding="utf-8")
        for entry in folder.iterdir()
        if entry.name.endswith(".yaml")
    }


def load_recipe(path: Path) -> Recipe:
    """Read and check a recipe.

    Raises:
        ConfigError: the file cannot be read, or is not a valid recipe. The message names each wrong key.
    """
    known = ", ".join(shipped_recipes())
    return read_table(path, Recipe, f"name another; `podium-train recipe NAME` writes one of {known}")
