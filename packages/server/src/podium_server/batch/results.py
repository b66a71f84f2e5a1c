"""The results of a batch: the records of its lines, the files with them, and what earlier commands left."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from sys import intern
from typing import Any

from podium.errors import ConfigError, JournalError, PlannerError, PodiumError
from podium.secrets import scrub
from podium.types import Problem, Result
from podium.usage import Usage
from podium_server.batch.input import Answer, BadLine, Form, Line, json_text
from podium_server.errors import fault_of
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
        """Remember the lines of a file of results, and change nothing."""
        try:
            for row in rows(results):
                self.keeps(row)
        except FileNotFoundError:
            pass  # no command has run yet
        except OSError as error:
            raise ConfigError(f"{results} cannot be read: {error.strerror}") from error

    def keeps(self, row: Mapping[str, Any]) -> bool:
        """Return whether a line of the results stays, and remember it."""
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


PENDING = ("invalid", "not_started", "waiting")
"""The states of lines that the next command looks at again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """How a line of a batch ended."""

    line: int
    id: str | None
    run_id: str | None = None
    status: str
    """`ok`, `partial`, `failed`, `waiting`, `invalid` or `not_started`."""
    answer: str = ""
    problem: Problem | None = None
    usage: Usage | None = None
    cost: float | None = None
    seconds: float = 0.0
    http_status: int | None = None
    """The status of OpenAI's response; `None` if there is none."""
    body: Mapping[str, Any] | None = None
    """The body of OpenAI's response."""

    def to_json(self, form: Form) -> dict[str, Any]:
        """Return the line of the results."""
        told = None if self.problem is None else {"code": self.problem.code, "message": self.problem.message}
        state: dict[str, Any] = {"line": self.line, "run_id": self.run_id, "status": self.status}
        bill = {"cost": self.cost, "seconds": self.seconds}
        if form == "plain":
            usage = None if self.usage is None else asdict(self.usage)
            facts = {"answer": self.answer, "problem": told, "usage": usage}
            return {"id": self.id, **state, **facts, **bill}
        response = None
        if self.http_status is not None:
            response = {"status_code": self.http_status, "request_id": self.run_id, "body": self.body}
        return {
            "id": f"batch_req_{self.run_id or f'line_{self.line}'}",
            "custom_id": self.id,
            "response": response,
            "error": told if response is None else None,
            "podium": {**state, **bill},
        }


def answered(line: Line, answer: Answer) -> Record:
    """Return the record of a run that has a result."""
    result = answer.result
    return Record(
        line=line.number,
        id=line.id,
        run_id=line.run_id,
        status=answer.status,
        answer=result.answer,
        problem=answer.problem,
        usage=result.usage,
        cost=result.cost,
        seconds=result.seconds,
        http_status=None if answer.body is None else 200,
        body=answer.body,
    )


def failed(line: Line, error: PodiumError, result: Result | None) -> Record:
    """Return the record of a run that raised an error."""
    fault = fault_of(error)
    problem = Problem(fault.code, str(error))
    if result is not None and result.problem is not None and not isinstance(error, JournalError):
        problem = result.problem
    planned = error if isinstance(error, PlannerError) else None
    bill = result or planned
    return Record(
        line=line.number,
        id=line.id,
        run_id=line.run_id,
        status="waiting" if result is not None and result.status == "waiting" else "failed",
        problem=problem,
        usage=None if bill is None else bill.usage,
        cost=0.0 if bill is None else bill.cost,
        seconds=0.0 if result is None else result.seconds,
        http_status=fault.status,
        body=fault.to_openai(),
    )


def invalid(line: BadLine) -> Record:
    """Return the record of a line that cannot be run."""
    problem = Problem("invalid_line", f"line {line.number}: {line.error}")
    return Record(line=line.number, id=line.id, status="invalid", problem=problem, cost=0.0)


def not_started(line: Line, why: str) -> Record:
    """Return the record of a line whose run does not fit the budget."""
    problem = Problem("budget_spent", why)
    return Record(
        line=line.number, id=line.id, run_id=line.run_id, status="not_started", problem=problem, cost=0.0
    )


@contextmanager
def _appending(
    path: Path, keeps: Callable[[Mapping[str, Any]], bool]
) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Yield a function that appends a line to a file, which no other command writes in the block.

    An incomplete last line, and the lines that `keeps` rejects, are removed before.
    """
    with ExitStack() as stack:
        try:
            lock = stack.enter_context(path.with_name(f"{path.name}.lock").open("ab"))
            _lock(lock.fileno(), path)
            _clean(path, keeps)
            file = stack.enter_context(path.open("ab", buffering=0))
        except OSError as error:
            raise ConfigError(f"{path} cannot be written: {error.strerror}") from error

        def append(row: Mapping[str, Any]) -> None:
            left = memoryview(f"{json_text(row)}\n".encode())
            while left:
                left = left[file.write(left) :]

        yield append


def _clean(path: Path, keeps: Callable[[Mapping[str, Any]], bool]) -> None:
    """Write the lines that stay into another file, which then replaces this one."""
    if not path.exists():
        return
    new = path.with_name(f"{path.name}.new")
    try:
        with new.open("wb") as file:
            for raw, row in _rows(path):
                if keeps(row):
                    file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
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


@dataclass(frozen=True, slots=True)
class Files:
    """The results and the failures of a batch."""

    form: Form
    results: Callable[[Mapping[str, Any]], None]
    failures: Callable[[Mapping[str, Any]], None] | None

    @classmethod
    @contextmanager
    def opened(cls, results: Path, failures: Path | None, kept: Kept, form: Form) -> "Iterator[Files]":
        """Yield the files, and keep them from other commands in the block."""
        with ExitStack() as stack:
            append = stack.enter_context(_appending(results, kept.keeps))
            ids = set(kept.runs.values())

            def keeps(row: Mapping[str, Any]) -> bool:
                failure = row.get("failure")
                return isinstance(failure, Mapping) and failure.get("run_id") in ids

            of_failures = None if failures is None else stack.enter_context(_appending(failures, keeps))
            yield cls(form, append, of_failures)

    def write(self, line: Line | BadLine, record: Record) -> None:
        """Append how a line ended. A failure is written first, so each failure of the results has one."""
        if self.failures is not None and record.status != "ok":
            state = {"line": record.line, "run_id": record.run_id, "status": record.status}
            problem = record.problem
            told = {} if problem is None else {"code": problem.code, "message": scrub(problem.message)}
            given = line.given if isinstance(line.given, Mapping) else {"text": line.given}
            self.failures({**given, "failure": {**state, **told}})
        self.results(json.loads(scrub(json.dumps(record.to_json(self.form)))))
