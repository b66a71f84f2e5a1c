"""The log of a run: one line of JSON for each step."""

import json
from dataclasses import asdict
from pathlib import Path

from podium.errors import ConfigError
from podium_train.guards.measures import StepMeasures


class StepLog:
    """Appends the measures of each step to a file.

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

    def write(self, measures: StepMeasures) -> None:
        """Append a line."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(measures)) + "\n")

    def _lines(self) -> list[str]:
        if not self._path.exists():
            return []
        return [line for line in self._path.read_text(encoding="utf-8").splitlines() if line.endswith("}")]


def _step(line: str) -> int:
    return int(json.loads(line)["step"])
