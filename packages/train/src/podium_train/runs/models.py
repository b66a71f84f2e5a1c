"""Completes the folder of a model that a trainer has written."""

import shutil
from pathlib import Path

from podium_train.runs.record import RECORD


def mark_model(model: Path, run: Path) -> None:
    """Copy the record of a run into the folder of a model, and let the umask say who may read its files."""
    shutil.copyfile(run / RECORD, model / RECORD)
    share_files(model, like=RECORD)


def share_files(folder: Path, *, like: str) -> None:
    """Give the files in a folder the mode of one of them, because safetensors lets only their owner read."""
    for path in folder.iterdir():
        if path.is_file() and path.name != like:
            shutil.copymode(folder / like, path)
