"""Says in Podium's errors what something of LlamaIndex's raised, or the client library behind it.

Libraries have their own classes for the same few things; what they share is a status, a
response's headers, and the words in the names of their classes. It owns no retries.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from llama_index_podium.spent import Spent
from podium.errors import (
    PodiumError,
    WorkerBroken,
    WorkerError,
    WorkerFailed,
    WorkerTimeout,
    WorkerUnavailable,
)
from podium.secrets import scrub_error
from podium.workers.openai.error_mapping import Origin, status_fault

_STATUSES: Final = range(100, 600)
_WORDS: Final[Sequence[tuple[tuple[str, ...], type[WorkerError], bool]]] = (
    (
        ("ConnectError", "ConnectTimeout", "ConnectionRefused", "ClientConnectorError"),
        WorkerUnavailable,
        False,
    ),
    (("Timeout",), WorkerTimeout, True),
    (("RemoteProtocolError", "ReadError", "IncompleteRead", "ClientPayloadError"), WorkerBroken, True),
    (("JSONDecodeError",), WorkerBroken, True),
    (("Connection",), WorkerUnavailable, True),
)
"""What stands in the names of the classes of an error, or of one it came from: the first row that fits says
what it is told as, and whether it may be paid for."""


@contextmanager
def calling(name: str, spent: Spent | None = None) -> Iterator[None]:
    """Translate what is raised in the block; Podium's own errors pass.

    Args:
        name: the worker's.
        spent: what its calls of models came to until then; `None` where nobody counted.
    """
    try:
        yield
    except PodiumError:
        raise
    except Exception as error:  # noqa: BLE001 - of any library
        fault = fault_of(error, name)
        fault.usage = None if spent is None else spent.known
        raise fault from (error if scrub_error(error) else None)


def fault_of(error: Exception, name: str) -> WorkerError:
    """Return the error for what calling worker `name` raised."""
    origin = Origin(f"worker {name!r}")
    status = _status(error)
    if status is not None:
        return status_fault(origin, status, _headers(error), _body(error))
    said = f"worker {name!r} raised {origin.quote(f'{type(error).__name__}: {error}')}"
    kinds = _kinds(error)
    for words, kind, paid in _WORDS:
        if any(word in known for word in words for known in kinds):
            return kind(said, maybe_paid=paid)
    return WorkerFailed(said, maybe_paid=True)


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
    holders = ((error, "status_code"), (response, "status_code"), (error, "code"), (error, "status"))
    for holder, key in holders:
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
