"""One line of the results of a batch."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from podium.errors import JournalError, PlannerError, PodiumError
from podium.types import Problem, Result
from podium.usage import Usage
from podium_server.api.errors import fault_of
from podium_server.batch.answer import Answer
from podium_server.batch.input import BadLine, Form, Line

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
    """Return the record of a run that raised an error.

    Args:
        line: the line.
        error: the error.
        result: the result of the run; `None` if it has none.
    """
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
