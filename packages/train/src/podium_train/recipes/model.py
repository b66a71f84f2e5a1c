"""What must hold for the model of a recipe before a training starts."""

import re
from importlib import import_module
from pathlib import Path

from podium.errors import ConfigError
from podium_train.recipes.recipe import ModelSection, Recipe

_HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?", re.ASCII)
_MODEL_FILES = ("config.json", "adapter_config.json")


def check_model(recipe: Recipe, folder: Path) -> None:
    """Check what a training would need first: its base, and a type of weights that this machine can train.

    The Hub is not asked.

    Raises:
        ConfigError: the base is neither a model's folder nor a name on the Hub, or there is no GPU for the
            type of the weights.
    """
    if not (folder / recipe.folder / "sft" / "final").is_dir():  # from which reinforcement starts
        base_of(recipe.model, folder)
    check_dtype(recipe.model)


def base_of(model: ModelSection, folder: Path) -> str:
    """Return the base as a path if it is a folder beside the recipe, or else its name on the Hub.

    Raises:
        ConfigError: it is neither a model's folder nor a name on the Hub.
    """
    named = Path(model.base)
    path = folder / (named.expanduser() if model.base.startswith("~/") else named)
    if path.is_dir():
        if not any((path / name).exists() for name in _MODEL_FILES):
            raise ConfigError(f"'base' in [model] is the folder {path}, which has no config.json of a model")
        return str(path.resolve())
    if path.exists():
        raise ConfigError(f"'base' in [model] is the file {path}: name the folder of a model")
    if not _HUB_NAME.fullmatch(model.base):
        raise ConfigError(
            f"'base' in [model] is {model.base!r}: there is no folder {path}, and it is not a name on the "
            "Hugging Face Hub, such as Qwen/Qwen2.5-3B-Instruct"
        )
    return model.base


def check_dtype(model: ModelSection) -> None:
    """Check the type of the weights.

    Raises:
        ConfigError: the weights are to be in bfloat16, and there is no GPU.
    """
    if model.dtype == "bfloat16" and not import_module("torch").cuda.is_available():
        raise ConfigError(
            "'dtype' in [model] is 'bfloat16', and there is no GPU: write \"float32\", or leave it out"
        )
