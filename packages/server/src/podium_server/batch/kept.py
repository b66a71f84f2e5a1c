"""The lines of the results that earlier commands of a batch have finished."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from sys import intern
from typing import Any

from podium.errors import ConfigError
from podium_server.batch.input import BadLine, Line
from podium_server.batch.output import rows
from podium_server.batch.record import PENDING
from podium_server.http import BadRequest


@dataclass(slots=True)
class Kept:
    """The lines of the results of earlier commands that stay."""

    name: str
    """The name of the batch."""
    retries: bool
    """Whether failed lines are run again."""
    runs: dict[str, str] = field(default_factory=dict)
    """The id of the run of each line, by the id of the line."""
    cost: float = 0.0
    unknown: int = 0
    """The number of runs of unknown cost."""
    _statuses: dict[str, str] = field(default_factory=dict)
    """The status of each line, by its id."""

    def read(self, results: Path) -> None:
        """Remember the lines of a file of results, and change nothing.

        Raises:
            ConfigError: the file cannot be read, or is not a file of results of this batch.
        """
        try:
            for row in rows(results):
                self.keeps(row)
        except FileNotFoundError:
            pass  # no command has run yet
        except OSError as error:
            raise ConfigError(f"{results} cannot be read: {error.strerror}") from error

    def keeps(self, row: Mapping[str, Any]) -> bool:
        """Return whether a line of the results stays, and remember it.

        Raises:
            ConfigError: the line is of another batch.
        """
        state = row.get("podium", row)
        status, run_id = state.get("status"), state.get("run_id")
        if status is None or (run_id is not None and run_id.rpartition("-")[0] != self.name):
            told = f"the results have lines of another batch than {self.name!r}"
            raise ConfigError(f"{told}: choose another --out, or the same --name")
        if status in PENDING or (self.retries and status != "ok"):
            return False
        ident = row.get("custom_id", row["id"])
        self.runs[ident], self._statuses[ident] = run_id, intern(status)
        if state["cost"] is None:
            self.unknown += 1
        else:
            self.cost += state["cost"]
        return True

    def status_of(self, line: Line | BadLine) -> str | None:
        """Return the status of a line that is finished; `None` if it is not."""
        if isinstance(line, BadLine) or self.runs.get(line.id) != line.run_id:
            return None
        return self._statuses[line.id]

    def checked(self, line: Line | BadLine) -> Line | BadLine:
        """Return an unfinished line; a bad line, if the results have its id with another question."""
        if isinstance(line, BadLine) or line.id not in self.runs:
            return line
        told = f"the results have the id {line.id!r:.80} with another question: choose another id or --out"
        return BadLine(number=line.number, id=line.id, given=line.given, error=BadRequest(told))
