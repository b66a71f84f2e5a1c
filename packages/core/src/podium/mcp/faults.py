"""Translates exceptions of the MCP SDK."""

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus

import anyio

from podium.errors import (
    WorkerBroken,
    WorkerError,
    WorkerFailed,
    WorkerRefused,
    WorkerTimeout,
    WorkerUnavailable,
)
from podium.hosts import worker_error
from podium.mcp.sdk import HttpFault, error_code, is_closed, is_session_unknown
from podium.workers.openai.error_mapping import Origin, status_fault

_REFUSED = frozenset({-32600, -32601, -32602})
"""JSON-RPC codes: invalid request, unknown method, invalid arguments."""


class SessionLost(Exception):
    """The session ended before the server answered."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Facts about a failed call besides its exception."""

    name: str
    """The server's name."""
    seconds: float
    """Timeout of the call."""
    stderr: str
    """The last lines that the server's process wrote to stderr."""
    http: Sequence[HttpFault]
    """The error responses of the HTTP server during the call."""

    @property
    def who(self) -> str:
        """The name of the server in messages."""
        return f"MCP server {self.name!r}"

    @property
    def wrote(self) -> str:
        """The server's stderr output, as the end of a message."""
        return f"; it wrote: {self.quote(self.stderr)}" if self.stderr else ""

    def quote(self, text: str) -> str:
        """Return the beginning of a text from the server, on one printable line without secrets."""
        return Origin(self.who).quote(text)


def open_fault(error: Exception, seen: Seen) -> WorkerError:
    """Return the error for a session that could not be opened, so that no call was made.

    Args:
        error: the exception of the SDK.
        seen: other facts.
    """
    cause = _innermost(error)
    if isinstance(cause, FileNotFoundError | PermissionError | NotADirectoryError):
        return WorkerRefused(f"{seen.who} cannot be started: {cause}: check its command and its folder")
    if isinstance(cause, TimeoutError):
        return WorkerTimeout(f"{seen.who} did not start within {seen.seconds:g} s{seen.wrote}")
    fault: WorkerError
    if seen.http:
        fault = _http_fault(seen)
    elif error_code(cause) is not None or is_closed(cause) or isinstance(cause, SessionLost):
        fault = WorkerUnavailable(f"{seen.who} did not open a session: {_said(seen, cause)}{seen.wrote}")
    else:
        fault = worker_error(cause, seen.name)
    fault.maybe_paid = fault.acted = False
    return fault


def call_fault(error: Exception, seen: Seen) -> WorkerError:
    """Return the error for a call that failed.

    Args:
        error: the exception of the SDK.
        seen: other facts.
    """
    cause = _innermost(error)
    if isinstance(cause, TimeoutError):
        return WorkerTimeout(f"{seen.who} did not answer within {seen.seconds:g} s", maybe_paid=True)
    if seen.http or is_closed(cause) or isinstance(cause, SessionLost):
        return _connection_fault(cause, seen)
    if (code := error_code(cause)) is not None:
        kind = WorkerRefused if code in _REFUSED else WorkerFailed
        told = f"{seen.who} answered with error {code}: {_said(seen, cause)}"
        return kind(told, maybe_paid=kind is WorkerFailed)
    if isinstance(cause, RuntimeError | ValueError):  # an answer that its schema does not allow
        return WorkerBroken(f"{seen.who} sent an invalid answer: {_said(seen, cause)}", maybe_paid=True)
    return worker_error(cause, seen.name)


def _connection_fault(cause: BaseException, seen: Seen) -> WorkerError:
    if is_session_unknown(cause):
        return WorkerUnavailable(f"{seen.who} has ended the session; the next call opens a new one")
    if seen.http:
        return _http_fault(seen)
    if isinstance(cause, anyio.ClosedResourceError | anyio.BrokenResourceError):
        # The server may have read the call before it closed the connection.
        return WorkerUnavailable(f"{seen.who} has closed the connection{seen.wrote}", maybe_paid=True)
    why = None if cause.__cause__ is None else _innermost(cause.__cause__)
    if why is not None and not is_closed(why):
        return worker_error(why, seen.name)
    told = f"{seen.who} closed the connection before it answered{seen.wrote}"
    return WorkerBroken(told, maybe_paid=True)


def _http_fault(seen: Seen) -> WorkerError:
    status, headers = seen.http[-1]
    if status == HTTPStatus.NOT_FOUND:
        return WorkerRefused(f"{seen.who} answered 404: check its URL", status=status)
    lowered = {name.lower(): value for name, value in headers.items()}
    return status_fault(Origin(seen.who), status, lowered, b"")


def _innermost(error: BaseException) -> BaseException:
    """Return the exception inside nested groups of one exception."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _said(seen: Seen, error: BaseException) -> str:
    return seen.quote(str(error) or type(error).__name__)
