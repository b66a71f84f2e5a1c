"""The HTTP errors of all APIs: the status and the code of each error of Podium, and the body of each API.

Messages for clients have no addresses of upstream servers; the log and the journal keep them.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import ceil
from typing import Any
from urllib.parse import urlsplit

from podium.errors import (
    ConfigError,
    JournalError,
    LimitExceeded,
    PlanError,
    PlanForbidden,
    PlannerError,
    PodiumError,
    QueryError,
    RunDead,
    RunExists,
    RunFailed,
    RunHeld,
    RunUnknown,
    RunWaiting,
    WorkerError,
)
from podium.execution.graph import WAITING
from podium.secrets import scrub, scrub_data
from podium.types import Action, Call, Outcome, Proposal, Result
from podium.types.outcome import usage_note

NO_RETRY = {"x-should-retry": "false"}
"""Tells OpenAI's and Anthropic's clients not to repeat a request that was paid for."""
_OF_CLASS: tuple[tuple[type[PodiumError], int], ...] = (
    (QueryError, 400),
    (ConfigError, 400),
    (PlanForbidden, 403),
    (PlanError, 400),
    (RunUnknown, 404),
    (RunExists, 409),
    (RunHeld, 409),
    (RunDead, 409),
    (JournalError, 503),
)
_UPSTREAM = (RunFailed, PlannerError, WorkerError)
"""Errors whose messages may have the addresses of the servers of workers."""
_RETRIED = (JournalError, RunHeld)
"""Errors after which a client should repeat the request."""
_OF_PROBLEM: Mapping[str, int] = {
    "waiting": 409,
    "policy": 403,
    "limit": 422,
    "planner_limit": 422,
    "planner_refused": 502,
    "planner_unreachable": 503,
    "worker_unavailable": 503,
    "worker_timeout": 504,
    "answer_refused": 422,
}
"""The status for the problem of a run without an answer; 502 for all others."""
_TYPES: Mapping[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    422: "run_error",
    429: "rate_limit_error",
    503: "overloaded_error",
}

_ANTHROPIC: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    409: "invalid_request_error",
    413: "request_too_large",
    415: "invalid_request_error",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
"""The types of errors of Anthropic's API, by status; `api_error` for all others."""
_OVERLOADED = 529
"""The status of an overloaded server in Anthropic's API."""

_URL = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s'\"<>]*[^\s'\"<>.,:;!?)\]}]", re.IGNORECASE)
_SERVER = "its server"


class ServerError(PodiumError):
    """An error that only the server has, with its response."""

    status = 409
    """Status of the HTTP response."""
    param: str | None = None
    """The field of the request that is invalid; `None` if the error is not in one field."""
    run_id: str | None = None
    """The run that the error ended, or may have ended."""
    knows_actions = True
    """Whether `actions` has the actions of this run."""
    repeats = False
    """Whether the client should repeat the request even if the run has begun actions."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of the HTTP response."""
        return NO_RETRY


class RunCancelled(ServerError):
    """The run of the request was cancelled over the runs API."""

    code = "run_cancelled"
    knows_actions = False

    def __init__(self, run_id: str) -> None:
        super().__init__(f"run {run_id} was cancelled over the runs API: `POST …/resume` there continues it")
        self.run_id = run_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """An error of a request."""

    status: int
    code: str
    message: str
    param: str | None = None
    """The field of the request that is invalid."""
    run_id: str | None = None
    request_id: str | None = None
    """Names the request in the body of an error of Anthropic's API, and in the log."""
    retry_after: float | None = None
    """Seconds after which the request may succeed, as a worker said; `None` if none said so."""
    actions: tuple[Action, ...] | None = None
    """What the run had done, or begun, before the error ended it; `None` if that is not known here."""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def type(self) -> str:
        """The type of the error, by its status."""
        return _TYPES.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")

    def to_openai(self) -> dict[str, Any]:
        """Return the body of an error of OpenAI's APIs."""
        error = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        if self.run_id is not None:
            error["run_id"] = self.run_id
        return {"error": {**error, **self.more}}

    def to_anthropic(self) -> dict[str, Any]:
        """Return the body of an error of Anthropic's API."""
        kind = _ANTHROPIC.get(self.status, "api_error")
        error = {"type": kind, "message": f"{self.message} ({self.code})", "code": self.code}
        return {
            "type": "error",
            "error": {**error, **self.more, "details": {"error_code": self.code}},  # which clients read
            "request_id": self.request_id or self.run_id,
        }

    @property
    def more(self) -> Mapping[str, Any]:
        """The wait, for clients of a stream, whose headers were sent before; and the actions of the run."""
        told: dict[str, Any] = {} if self.retry_after is None else {"retry_after": self.retry_after}
        if self.actions or (self.actions is not None and self.status >= 500):  # another Podium may retry it
            told["podium"] = {"actions": actions_form(self.actions)}
        return told


@dataclass(frozen=True, slots=True)
class ErrorForm:
    """The form of the errors of an API."""

    body: Callable[[Fault], Mapping[str, Any]]
    status: Callable[[Fault], int]
    id_header: str | None = None
    """The header with the id of the request; `None` if the API has none."""


OPENAI_ERRORS = ErrorForm(Fault.to_openai, lambda fault: fault.status)
ANTHROPIC_ERRORS = ErrorForm(
    Fault.to_anthropic, lambda fault: _OVERLOADED if fault.status == 503 else fault.status, "request-id"
)


def fault_of(error: Exception) -> Fault:
    """Return the HTTP error for an exception; the message has no secrets.

    A client must not repeat a request whose run has begun an action.
    """
    if not isinstance(error, PodiumError):
        told = "an internal error occurred; the log of the server has the details"
        actions = getattr(error, "actions", None)  # of an error that ended a run
        return Fault(status=500, code="internal_error", message=told, actions=actions, headers=NO_RETRY)
    fault = _fault_of(error)
    if isinstance(error, ServerError) and not error.knows_actions:
        return fault
    if not error.actions or (isinstance(error, ServerError) and error.repeats):
        return replace(fault, actions=error.actions)
    headers = {name: value for name, value in fault.headers.items() if name != "retry-after"}
    return replace(fault, actions=error.actions, retry_after=None, headers=headers | NO_RETRY)


def _fault_of(error: PodiumError) -> Fault:
    match error:
        case RunFailed() | RunWaiting():
            return _of_result(error, error.result)
        case PlannerError():
            headers = NO_RETRY if error.usage.total_tokens else {}
            fault = _fault(error, _OF_PROBLEM.get(error.code, 502), headers, run_id=error.run_id or None)
            last = error.calls[-1].problem if error.calls else None
            return _billed(fault, error.calls, None if last is None else last.retry_after)
        case ServerError():
            return _fault(error, error.status, error.headers, param=error.param, run_id=error.run_id)
    status = _status(error)
    return _fault(error, status, {"retry-after": "1"} if isinstance(error, _RETRIED) else NO_RETRY)


def _status(error: PodiumError) -> int:
    if isinstance(error, LimitExceeded) and error.limit == "seconds":
        return 504
    if isinstance(error, WorkerError | LimitExceeded):
        return _OF_PROBLEM.get(error.code, 502)
    return next((status for kind, status in _OF_CLASS if isinstance(error, kind)), 500)


def _of_result(error: RunFailed | RunWaiting, result: Result | None) -> Fault:
    """Return the error for a run without an answer. Clients should repeat it only if nothing was paid."""
    if result is None:
        return _fault(error, 502, NO_RETRY)
    is_waiting = isinstance(error, RunWaiting)
    code = error.code if is_waiting or result.problem is None else result.problem.code
    is_free = not result.usage.total_tokens and not result.maybe_paid
    headers = {} if is_free and code == "worker_unavailable" else NO_RETRY
    fault = replace(_fault(error, _OF_PROBLEM.get(code, 502), headers, run_id=result.run_id), code=code)
    if is_waiting:  # the message of the error is for callers of the Python functions
        path = f"/v1/runs/{result.run_id}"
        why = "the plan waits for approval" if result.problem is None else result.problem.message
        is_of_steps = any(
            each.problem is not None and each.problem.code == WAITING for each in result.outcomes
        )
        edit = "" if is_of_steps else f", {path}/edit"
        told = f"run {result.run_id}: {without_urls(why)}: POST {path}/approve{edit} or {path}/refuse"
        if "waits for an answer" in why:
            told = f"run {result.run_id}: {without_urls(why)}: POST {path}/decide"
        fault = replace(fault, message=scrub(told))
    return _billed(fault, result.bills, None if result.problem is None else result.problem.retry_after)


def _billed(fault: Fault, bills: Sequence[Proposal | Call | Outcome], retry_after: float | None) -> Fault:
    """Return the error of a run with what its calls are charged for, and the wait that a worker asked for."""
    note = usage_note(bills)
    headers = {} if retry_after is None else {"retry-after": str(ceil(retry_after))}
    return replace(
        fault,
        message=f"{fault.message} ({note})" if note else fault.message,
        retry_after=retry_after,
        headers={**fault.headers, **headers},
    )


def _fault(
    error: PodiumError,
    status: int,
    headers: Mapping[str, str],
    *,
    param: str | None = None,
    run_id: str | None = None,
) -> Fault:
    told = scrub(str(error))
    return Fault(
        status=status,
        code=error.code,
        message=without_urls(told) if isinstance(error, _UPSTREAM) else told,
        param=param,
        run_id=run_id,
        headers=headers,
    )


def without_urls(text: str) -> str:
    """Return a message without URLs and their hosts."""
    hosts = {_host(url) for url in _URL.findall(text)} - {""}
    text = _URL.sub(_SERVER, text)
    for host in hosts:
        text = re.sub(rf"(?<![\w.-]){re.escape(host)}(:\d+)?(?![\w.-])", _SERVER, text, flags=re.IGNORECASE)
    return text


def public_data(value: Any) -> Any:
    """Return JSON data without secrets, and with problems that name no upstream server.

    A problem is an object with the fields `code` and `message`.
    """
    text = json.dumps(value, ensure_ascii=False)
    is_clean = scrub(text) == text  # one pass over the whole text is cheaper than one for each string
    return _without_addresses(value if is_clean else scrub_data(value))


def actions_form(actions: Iterable[Action]) -> list[dict[str, Any]]:
    """Return the actions of a run as JSON data for clients, without secrets and addresses."""
    form: list[dict[str, Any]] = public_data([asdict(action) for action in actions])
    return [{**action, "output": without_urls(action["output"])} for action in form]


def _without_addresses(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_without_addresses(item) for item in value]
    if not isinstance(value, dict):
        return value
    clean = {key: _without_addresses(item) for key, item in value.items()}
    if "code" in clean and isinstance(clean.get("message"), str):
        clean["message"] = without_urls(clean["message"])
    return clean


def _host(url: str) -> str:
    """Return the host of a URL; empty if it has none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
