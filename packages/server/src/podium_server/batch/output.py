"""The files of a batch: results and failures, which a killed command leaves readable."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from podium.errors import ConfigError
from podium.secrets import scrub
from podium_server.batch.input import BadLine, Form, Line
from podium_server.batch.record import PENDING, Record


class LinesFile:
    """A file with a JSON object in each line, to which one command at a time appends.

    Opening removes an incomplete last line, and the lines that `keeps` rejects.

    Args:
        path: the file; it is created if it does not exist.
        keeps: whether a line stays.

    Raises:
        ConfigError: the file cannot be used, or another command uses it, or a line is not a JSON object.
    """

    def __init__(self, path: Path, keeps: Callable[[Mapping[str, Any]], bool]) -> None:
        self._path = path
        try:
            with ExitStack() as stack:
                lock = stack.enter_context(path.with_name(f"{path.name}.lock").open("ab"))
                _lock(lock.fileno(), path)
                self._clean(keeps)
                self._file = stack.enter_context(path.open("ab", buffering=0))
                self._open = stack.pop_all()
        except OSError as error:
            raise ConfigError(f"{path} cannot be written: {error.strerror}") from error

    def append(self, row: Mapping[str, Any]) -> None:
        """Append a line."""
        left = memoryview(f"{json.dumps(row, ensure_ascii=False)}\n".encode("utf-8", "replace"))
        while left:
            left = left[self._file.write(left) :]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._open.close()

    def _clean(self, keeps: Callable[[Mapping[str, Any]], bool]) -> None:
        """Write the lines that stay into another file, which then replaces this one."""
        if not self._path.exists():
            return
        new = self._path.with_name(f"{self._path.name}.new")
        with new.open("wb") as file:
            for raw, row in _rows(self._path):
                if keeps(row):
                    file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)


def rows(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the complete lines of a file as JSON."""
    return (row for _, row in _rows(path))


def _rows(path: Path) -> Iterator[tuple[bytes, Mapping[str, Any]]]:
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            if not raw.endswith(b"\n"):
                return  # the process was killed while it wrote the line
            try:
                row = json.loads(raw)
            except ValueError:
                row = None
            if not isinstance(row, dict):
                told = f"{path}, line {number}, is not a JSON object, so it is not a file of `podium batch`"
                raise ConfigError(f"{told}: choose another file")
            yield raw, row


def _lock(descriptor: int, path: Path) -> None:
    """Lock a file until it is closed. Windows has no such lock."""
    if sys.platform == "win32":
        return
    import fcntl  # noqa: PLC0415 - Windows lacks it

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ConfigError(
            f"another command writes {path}: wait for its end, or choose another file"
        ) from error


@dataclass(slots=True)
class Kept:
    """The lines of the results of earlier commands that stay."""

    name: str
    """The name of the batch."""
    retries: bool
    """Whether failed lines are run again."""
    runs: dict[str, str] = field(default_factory=dict)
    """The id of the run of each line, by the id of the line."""
    statuses: dict[str, int] = field(default_factory=dict)
    cost: float = 0.0
    unknown: int = 0
    """The number of runs of unknown cost."""

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
        self.runs[row.get("custom_id", row["id"])] = run_id
        self.statuses[status] = self.statuses.get(status, 0) + 1
        if state["cost"] is None:
            self.unknown += 1
        else:
            self.cost += state["cost"]
        return True


class Files:
    """The results and the failures of a batch.

    Args:
        results: the file of the results.
        failures: the file of the failures; `None` for none.
        kept: receives the lines of earlier commands.
        form: the form of the input.
    """

    def __init__(self, results: Path, failures: Path | None, kept: Kept, form: Form) -> None:
        self._form = form
        with ExitStack() as stack:
            self._results = stack.enter_context(LinesFile(results, kept.keeps))
            ids = set(kept.runs.values())

            def keeps(row: Mapping[str, Any]) -> bool:
                failure = row.get("failure")
                return isinstance(failure, Mapping) and failure.get("run_id") in ids

            self._failures = None
            if failures is not None:
                self._failures = stack.enter_context(LinesFile(failures, keeps))
            self._open = stack.pop_all()

    def write(self, line: Line | BadLine, record: Record) -> None:
        """Append how a line ended. A failure is written first, so each failure of the results has one."""
        row = record.to_json(self._form)
        if self._failures is not None and record.status != "ok":
            state = {"line": record.line, "run_id": record.run_id, "status": record.status}
            problem = record.problem
            told = {} if problem is None else {"code": problem.code, "message": scrub(problem.message)}
            given = line.given if isinstance(line.given, Mapping) else {"text": line.given}
            self._failures.append({**given, "failure": {**state, **told}})
        self._results.append(json.loads(scrub(json.dumps(row))))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._open.close()
