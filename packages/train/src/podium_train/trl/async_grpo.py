"""Finds TRL's `AsyncGRPOTrainer`, whose module differs between releases.

The trainer samples texts and executes plans while it updates the weights. It needs a vLLM server. Its reward
function runs in another process: pass a `PlanReward`, which can be pickled.
"""

from importlib import import_module
from typing import Any

from podium.errors import ConfigError


def async_grpo_classes() -> tuple[type[Any], type[Any]]:
    """Return the classes of the trainer and of its settings.

    Raises:
        ConfigError: the installed TRL has none.
    """
    for module in ("trl", "trl.experimental.async_grpo"):
        found = import_module(module)
        if hasattr(found, "AsyncGRPOTrainer"):
            return found.AsyncGRPOTrainer, found.AsyncGRPOConfig
    raise ConfigError("the installed TRL has no AsyncGRPOTrainer: install trl 1.16 or newer")
