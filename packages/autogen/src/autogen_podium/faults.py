"""Where a worker calls what was written against AutoGen: what that raises becomes one of our errors.

Client libraries have their own classes for the same few things; what they share is a status,
a response's headers, and the words in the names of their classes. It owns no retries.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from podium.errors import (
    PodiumError,
    WorkerBroken,
    WorkerError,
    WorkerFailed,
    WorkerTimeout,
    WorkerUnavailable,
)
from podium.secrets import Boundary
from podium.workers.openai.error_mapping import Origin, status_fault

_STATUSES: Final = range(300, 600)
_UNSENT: Final = ("ConnectError", "ConnectTimeout", "ConnectionRefusedError", "ClientConnectorError")
_LATE: Final = ("Timeout",)
_CUT: Final = ("ReadError", "RemoteProtocolError", "IncompleteRead", "ClientPayloadError", "JSONDecodeError")
_LOST: Final = ("Connection",)


@contextmanager
def calling(name: str) -> Iterator[None]:
    """Translate what is raised in the block, where worker `name` calls AutoGen."""
    with Boundary(f"worker {name!r}", partial(WorkerFailed, maybe_paid=True)):
        try:
            yield
        except PodiumError:
            raise
        except (
            Exception
        ) as error:  # client libraries share no base; what is not known goes on to the boundary
            known = _known(error, Origin(f"the model of worker {name!r}"))
            if known is None:
                raise
            raise known from error


def _known(error: Exception, origin: Origin) -> WorkerError | None:
    """Return the error for one of a model's client library; `None` where it is none."""
    status = getattr(error, "status_code", None)
    if isinstance(status, int) and status in _STATUSES:
        return status_fault(origin, status, _headers(error), _body(error))
    kinds, said = _kinds(error), origin.quote(f"{type(error).__name__}: {error}")
    if _any(_UNSENT, kinds):
        return WorkerUnavailable(f"{origin.url} cannot be reached (is its server up?): {said}")
    if _any(_LATE, kinds):
        return WorkerTimeout(f"{origin.url} did not answer in time: {said}", maybe_paid=True)
    if _any(_CUT, kinds):
        return WorkerBroken(f"{origin.url} was cut off: {said}", maybe_paid=True)
    if _any(_LOST, kinds):
        return WorkerUnavailable(f"{origin.url} closed the connection: {said}", maybe_paid=True)
    return None


def _any(words: tuple[str, ...], kinds: list[str]) -> bool:
    return any(word in kind for word in words for kind in kinds)


def _kinds(error: BaseException) -> list[str]:
    """Return the names of the classes of an error and of what it came from."""
    names: list[str] = []
    seen: list[BaseException] = []
    each: BaseException | None = error
    while each is not None and each not in seen:
        seen.append(each)
        names += [kind.__name__ for kind in type(each).__mro__]
        each = each.__cause__ or each.__context__
    return names


def _headers(error: Exception) -> Mapping[str, str]:
    headers: Any = getattr(getattr(error, "response", None), "headers", None) or {}
    return {str(name).lower(): str(value) for name, value in dict(headers).items()}


def _body(error: Exception) -> bytes:
    body = getattr(error, "body", None)
    return json.dumps(str(error) if body is None else body, default=str).encode()
