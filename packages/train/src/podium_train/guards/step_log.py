"""The log of a run: one line of JSON for each step."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from podium.errors import ConfigError
from podium_train.guards.measures import StepMeasures
from podium_train.guards.texts import WrittenText

STEPS: Final = "steps.jsonl"
"""The name of the log in the folder of a run."""


class StepLog:
    """Appends the measures, or some texts, of each step to a file.

    Args:
        path: the file, which is made if needed.
        resumed_at: the last step of the checkpoint from which the run continues. Lines of later steps are
            removed, because these steps are done again; a line that was cut by a crash is removed too.

    Raises:
        ConfigError: the file cannot be written.
    """

    def __init__(self, path: Path, *, resumed_at: int = 0) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            kept = [line for line in self._lines() if _step(line) <= resumed_at]
            new = path.with_suffix(".new")
            new.write_text("".join(line + "\n" for line in kept), encoding="utf-8")
            new.replace(path)
        except OSError as error:
            raise ConfigError(f"the log {path} cannot be written: {error.strerror}") from error

    def write(self, measures: StepMeasures | WrittenText) -> None:
        """Append a line."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(measures)) + "\n")

    def _lines(self) -> list[str]:
        if not self._path.exists():
            return []
        return [line for line in self._path.read_text(encoding="utf-8").splitlines() if line.endswith("}")]


def read_steps(folder: Path) -> Sequence[dict[str, Any]]:
    """Return the lines of a run's log; none without a log. A line that a crash cut off is left out.

    Args:
        folder: the folder of the run.

    Raises:
        ConfigError: the log cannot be read.
    """
    path = folder / STEPS
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the log {path} cannot be read: {error}") from error
    try:
        return [json.loads(line) for line in lines if line.endswith("}")]
    except json.JSONDecodeError as error:
        raise ConfigError(f"the log {path} is damaged: {error}") from error


def _step(line: str) -> int:
    return int(json.loads(line)["step"])
