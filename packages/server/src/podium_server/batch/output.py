"""The files of a batch: results and failures, which a killed command leaves readable."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from podium.errors import ConfigError
from podium.secrets import scrub
from podium_server.batch.input import BadLine, Form, Line
from podium_server.batch.line_json import json_text
from podium_server.batch.record import Record

if TYPE_CHECKING:
    from podium_server.batch.kept import Kept


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
        left = memoryview(f"{json_text(row)}\n".encode())
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
        try:
            with new.open("wb") as file:
                for raw, row in _rows(self._path):
                    if keeps(row):
                        file.write(raw)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)
        finally:
            new.unlink(missing_ok=True)


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


class Files:
    """The results and the failures of a batch.

    Args:
        results: the file of the results.
        failures: the file of the failures; `None` for none.
        kept: receives the lines of earlier commands.
        form: the form of the input.
    """

    def __init__(self, results: Path, failures: Path | None, kept: "Kept", form: Form) -> None:
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
