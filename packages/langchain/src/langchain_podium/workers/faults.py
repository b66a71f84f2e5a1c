"""Says in Podium's errors what the client library of a chat model raised.

Libraries have their own classes for the same few things; what they share is a status, a
response's headers, and the words in the names of their classes. It owns no retries.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final

from podium.errors import (
    PodiumError,
    WorkerBroken,
    WorkerError,
    WorkerFailed,
    WorkerTimeout,
    WorkerUnavailable,
)
from podium.workers.openai.error_mapping import Origin, status_fault

_STATUSES: Final = range(100, 600)
_WORDS: Final[Sequence[tuple[tuple[str, ...], type[WorkerError], str, bool]]] = (
    (
        ("ConnectError", "ConnectTimeout", "ConnectionRefused", "ClientConnectorError", "gaierror"),
        WorkerUnavailable,
        "cannot be reached (is its server up?)",
        False,
    ),
    (("Timeout",), WorkerTimeout, "did not answer in time", True),
    (("APIConnectionError",), WorkerUnavailable, "closed the connection without an answer", True),
    (
        ("RemoteProtocolError", "ReadError", "IncompleteRead", "ClientPayloadError"),
        WorkerBroken,
        "was cut off",
        True,
    ),
    (("JSONDecodeError",), WorkerBroken, "sent no JSON", True),
    (("Connection",), WorkerUnavailable, "lost the connection", True),
)
"""What stands in the names of the classes of an error, or of one it came from: the first row that fits says
what it is told as, in which words, and whether it may be paid for."""
_EMPTY: Final = ("null value for", "No generation")
"""How ChatOpenAI, and the base of all chat models, say that an answer had nothing in it."""


@contextmanager
def asking(name: str) -> Iterator[None]:
    """Translate what asking the model of worker `name` raises in the block; Podium's own errors pass."""
    try:
        yield
    except PodiumError:
        raise
    except Exception as error:
        raise fault_of(error, name) from error


def fault_of(error: Exception, name: str) -> WorkerError:
    """Return the error for what calling the model of worker `name` raised."""
    origin = Origin(f"the model of worker {name!r}")
    status = _status(error)
    if status is not None:
        fault = status_fault(origin, status, _headers(error), _body(error))
        fault.maybe_paid = (
            fault.maybe_paid or status < HTTPStatus.MULTIPLE_CHOICES
        )  # an answer nobody can read
        return fault
    said = origin.quote(f"{type(error).__name__}: {error}")
    if any(words in str(error) for words in _EMPTY):
        return WorkerBroken(f"{origin.url} sent no answer: {said}", maybe_paid=True)
    kinds = _kinds(error)
    for words, kind, told, paid in _WORDS:
        if any(word in name for word in words for name in kinds):
            return kind(f"{origin.url} {told}: {said}", maybe_paid=paid)
    return WorkerFailed(f"worker {name!r} raised {said}", maybe_paid=True)


def _kinds(error: BaseException) -> list[str]:
    """Return the names of the classes of an error and of what it came from."""
    names, seen = list[str](), set[int]()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        names += [kind.__name__ for kind in type(each).__mro__]
        each = each.__cause__ or each.__context__
    return names


def _status(error: Exception) -> int | None:
    response = getattr(error, "response", None)
    for holder, key in (
        (error, "status_code"),
        (response, "status_code"),
        (error, "code"),
        (error, "status"),
    ):
        status = getattr(holder, key, None)
        if isinstance(status, int) and status in _STATUSES:
            return status
    return None


def _headers(error: Exception) -> Mapping[str, str]:
    headers: Any = getattr(getattr(error, "response", None), "headers", None) or {}
    return {str(name).lower(): str(value) for name, value in dict(headers).items()}


def _body(error: Exception) -> bytes:
    body = getattr(error, "body", None)
    return json.dumps(body if body is not None else str(error), default=str).encode()
