"""The processes of one training, and what they must divide among them."""

import os

from podium.errors import ConfigError


def processes_of_training() -> int:
    """Return the number of processes that `accelerate launch` or `torchrun` has started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def passes_of(whole: int, micro_batch: int, *, what: str) -> int:
    """Return how many forward passes of `micro_batch` each process makes for an update.

    Args:
        whole: texts of an update, in all processes.
        micro_batch: texts of a pass.
        what: what `whole` is in the recipe.

    Raises:
        ConfigError: the update cannot be divided.
    """
    at_once = micro_batch * processes_of_training()
    if whole % at_once:
        raise ConfigError(
            f"{what} is {whole}, which is not a multiple of micro_batch × processes, "
            f"{micro_batch} × {processes_of_training()}"
        )
    return whole // at_once
