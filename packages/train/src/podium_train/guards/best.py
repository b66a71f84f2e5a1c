"""Keeps the checkpoint with the best held-out accuracy."""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

_FACTS = "best.json"


@dataclass(frozen=True, slots=True)
class Best:
    """The kept checkpoint."""

    step: int
    """Number of its step."""
    accuracy: float
    """Its sampled accuracy on the validation split."""


class BestCheckpoint:
    """Keeps a copy of the best checkpoint in `FOLDER/best`.

    The copy is whole or absent after a crash.

    Args:
        folder: the folder of the run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "best"

    @property
    def best(self) -> Best | None:
        """The kept checkpoint; `None` if there is none."""
        path = self.folder / _FACTS
        return Best(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None

    def offer(self, checkpoint: Path, *, step: int, accuracy: float) -> bool:
        """Keep a copy of a checkpoint if it is better than the kept one.

        Returns:
            Whether it was better.
        """
        kept = self.best
        if kept is not None and kept.accuracy >= accuracy:
            return False
        new, old = self.folder.with_name("best.new"), self.folder.with_name("best.old")
        shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
        shutil.copytree(checkpoint, new)
        (new / _FACTS).write_text(json.dumps(asdict(Best(step, accuracy))), encoding="utf-8")
        if self.folder.exists():
            self.folder.rename(old)
        new.rename(self.folder)
        shutil.rmtree(old, ignore_errors=True)
        return True
