"""Which checkpoints of a run are whole."""

from pathlib import Path
from typing import Final

MEMORY: Final = "guards.json"
"""File in a checkpoint with the memory of the guards. It is written last: a checkpoint with it is whole."""


def last_checkpoint(folder: Path) -> Path | None:
    """Return the last whole checkpoint of a run, from which the run continues."""
    whole = [path.parent for path in folder.glob(f"checkpoint-*/{MEMORY}")]
    return max(whole, key=step_of, default=None)


def step_of(checkpoint: Path | None) -> int:
    """Return the step of a checkpoint; 0 for `None`."""
    return 0 if checkpoint is None else int(checkpoint.name.rpartition("-")[2])
