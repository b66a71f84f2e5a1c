"""Translates HTTP statuses and error bodies into Podium's errors."""

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from errno import EMFILE, ENFILE
from http import HTTPStatus
from typing import Any

from podium.errors import (
    AnswerRefused,
    RunWaiting,
    WorkerActs,
    WorkerBroken,
    WorkerError,
    WorkerRefused,
    WorkerUnavailable,
)
from podium.secrets import scrub
from podium.types.messages import storable

MAX_QUOTE = 300
"""Maximum characters of a server's text in an error message."""

ASK_URL = "does the base URL lead to an OpenAI-compatible server, and end with /v1?"
"""What to check if a server answers with something else than a chat completion."""
_BUSY = (408, 409, 425, 429)
_STATUSES = range(300, 600)
_GATEWAYS = (408, 502, 504, 520, 522, 524)
"""Statuses after which the model may have written an answer that a gateway did not pass on. After another 5xx
it has read the prompt at most."""
_REFUSING_WORDS = (
    "insufficient_quota", "billing", "credit", "invalid", "authentication", "permission", "unauthenticated",
    "not_found", "notfound", "badrequest", "bad_request", "content", "context_length", "unsupported",
)  # fmt: skip
_FILTER_WORDS = ("content_filter", "content_policy", "responsibleaipolicy", "moderation")
_BUSY_WORDS = (
    "rate_limit", "ratelimit", "overloaded", "unavailable", "server_error", "servererror", "internal",
    "timeout", "capacity", "exhausted",
)  # fmt: skip


class ReportedFault(WorkerBroken):
    """The server reported an error in its answer. The error may be after the answer's finish reason."""


def quoted(text: str) -> str:
    """Return the beginning of a foreign text on one printable line without secrets."""
    text = storable(" ".join(scrub(text).split()))
    text = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    return text if len(text) <= MAX_QUOTE else f"{text[:MAX_QUOTE]}…"


def status_fault(
    server: str, status: int, headers: Mapping[str, str], body: bytes, *, has_key: bool | None = None
) -> WorkerError:
    """Return the error for a status other than 200; without `has_key`, a foreign client has the key."""
    said, words, acted = _read_body(body)
    kind = _kind_of_status(status, words)
    is_fault = status >= HTTPStatus.INTERNAL_SERVER_ERROR and status not in _GATEWAYS
    error = kind(
        f"{server} answered {status}{_remedy(status, has_key)}: {quoted(said) or 'no reason given'}",
        status=status,
        retry_after=retry_after(headers),
        maybe_paid=status in _GATEWAYS or is_fault or RunWaiting.code in words or bool(acted),
        received="" if is_fault else None,
    )
    error.acted = acted
    return error


def answer_fault(server: str, body: Mapping[str, Any]) -> WorkerError:
    """Return the error for an error body in a response with status 200."""
    said, words = _read_error(body)
    status = next((int(word) for word in words if word.isdecimal() and int(word) in _STATUSES), None)
    kind: type[WorkerError]
    if status is not None:
        kind = _kind_of_status(status, words)
    elif RunWaiting.code in words or _any_of(_REFUSING_WORDS, words):
        kind = AnswerRefused if _any_of(_FILTER_WORDS, words) else WorkerRefused
    else:
        kind = WorkerUnavailable if _any_of(_BUSY_WORDS, words) else ReportedFault
    message = f"{server} answered with an error: {quoted(said) or 'no reason given'}"
    error = kind(message, status=status, maybe_paid=True)
    error.acted = _acted(body)
    return error


def out_of_files(server: str, error: BaseException) -> WorkerUnavailable | None:
    """Return the error for an exception of a process, or a machine, without a free file descriptor."""
    if not isinstance(error, OSError) or error.errno not in (EMFILE, ENFILE):
        return None
    told = f"no connection to {server}, because this process has no free file descriptor: "
    fault = WorkerUnavailable(told + "raise its limit (`ulimit -n`), or lower the concurrency")
    fault.is_local = True
    return fault


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the server asks to wait; `None` if it does not."""
    try:
        if (milliseconds := headers.get("retry-after-ms")) is not None:
            seconds = float(milliseconds) / 1000
        elif (said := headers.get("retry-after", "").strip()).replace(".", "", 1).isdecimal():
            seconds = float(said)
        else:
            moment = parsedate_to_datetime(said)
            seconds = (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    except (ValueError, OverflowError):
        return None
    return None if math.isnan(seconds) else max(seconds, 0.0)


def _kind_of_status(status: int, words: list[str]) -> type[WorkerError]:
    if status < HTTPStatus.MULTIPLE_CHOICES:
        return WorkerBroken
    if status == HTTPStatus.PRECONDITION_REQUIRED and WorkerActs.code in words:
        return WorkerActs
    if status == HTTPStatus.TOO_MANY_REQUESTS and _any_of(("insufficient_quota", "billing"), words):
        return WorkerRefused
    if status == HTTPStatus.BAD_REQUEST and _any_of(_FILTER_WORDS, words):
        return AnswerRefused
    if RunWaiting.code in words:  # a run of another Podium: a retry would start another run that waits
        return WorkerRefused
    busy = status in _BUSY or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    return WorkerUnavailable if busy else WorkerRefused


def _remedy(status: int, has_key: bool | None) -> str:  # noqa: FBT001 - also `None`
    if status < HTTPStatus.MULTIPLE_CHOICES:
        return f", and the client cannot read the answer ({ASK_URL})"
    if status < HTTPStatus.BAD_REQUEST and has_key is not None:
        return " (redirects are not followed: use the final URL as base_url)"
    if has_key is None:
        keys = " (the key was refused, or none was sent: check the key of its client)"
        paths = " (no such model or path: check the model's name and the URL of its client)"
        return keys if status in (401, 403) else paths if status == HTTPStatus.NOT_FOUND else ""
    if status in (401, 403):
        told = "the key was refused" if has_key else "no key was sent"
        return f" ({told}: check the endpoint's api_key, or the variable in its key_env)"
    if status == HTTPStatus.NOT_FOUND:
        return " (no such model or path: check the worker's model and the endpoint's base_url)"
    return ""


def _read_body(body: bytes) -> tuple[str, list[str], bool | None]:
    """Return the message of an error body, its codes, and `WorkerError.acted`."""
    text = body.decode(errors="replace")
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        return text, [], None
    if isinstance(raw, list) and raw:  # Gemini wraps its error in a list
        raw = raw[0]
    said, words = _read_error(raw) if isinstance(raw, dict) else ("", [])
    return said or text, words, _acted(raw)


def _acted(body: object) -> bool | None:
    """Return `WorkerError.acted` of an error body."""
    match body:
        case {"error": {"podium": {"actions": list(actions)}}}:
            return bool(actions)
    return None


def _read_error(body: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return the message of an error body, and its codes in lower case."""
    error = body.get("error") or body.get("errors") or body.get("detail") or body
    if not isinstance(error, dict):
        return str(error), []
    words = [str(error[key]).lower() for key in ("code", "status", "type") if error.get(key) is not None]
    said = error.get("message") or error.get("detail") or error
    return (said if isinstance(said, str) else json.dumps(said)), words


def _any_of(parts: tuple[str, ...], words: list[str]) -> bool:
    return any(part in word for word in words for part in parts)
