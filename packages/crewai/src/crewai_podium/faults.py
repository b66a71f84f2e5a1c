"""Where a worker calls what was written against CrewAI: what that raises becomes one of our errors.

Providers' libraries have classes of their own for the same few things; what they share is a
status, and the words in the names of their classes. It owns no retries.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from podium.errors import WorkerError, WorkerFailed, WorkerRefused, WorkerTimeout, WorkerUnavailable
from podium.secrets import Boundary
from podium.usage import Usage
from podium.workers.openai.error_mapping import Origin, status_fault

_STATUSES: Final = range(400, 600)
_WORDS: Final[Sequence[tuple[tuple[str, ...], type[WorkerError], str, bool]]] = (
    (("HookAborted", "CallBlocked"), WorkerRefused, "was stopped by a hook", False),
    (("ConnectError", "ConnectTimeout", "ConnectionRefused"), WorkerUnavailable, "cannot be reached", False),
    (("Timeout",), WorkerTimeout, "did not answer in time", True),
    (("APIConnection", "ConnectionError"), WorkerUnavailable, "lost its connection", True),
)
"""What stands in the names of the classes of an error, or of one it came from: the first row that fits says
what it is told as, in which words, and whether it may be paid for."""


@contextmanager
def calling(name: str, usage: Callable[[], Usage | None] = lambda: None) -> Iterator[None]:
    """Translate what is raised in the block.

    Args:
        name: the worker's.
        usage: tells what was spent until then; `None` where that is not known.
    """
    with Boundary(f"worker {name!r}", partial(WorkerFailed, maybe_paid=True)):
        try:
            yield
        except WorkerError:
            raise
        except Exception as error:  # client libraries share no base; each becomes an error of ours
            fault = _fault_of(error, name)
            fault.usage = usage()
            raise fault from error


def _fault_of(error: Exception, name: str) -> WorkerError:
    origin, chain = Origin(f"the model of worker {name!r}"), list(_chain(error))
    for each in chain:
        status = getattr(each, "status_code", None)
        if isinstance(status, int) and status in _STATUSES:
            return status_fault(origin, status, _headers(each), _body(each))
    said = origin.quote(f"{type(error).__name__}: {error}")
    names = [kind.__name__ for each in chain for kind in type(each).__mro__]
    for words, kind, told, paid in _WORDS:
        if any(word in each for word in words for each in names):
            return kind(f"{origin.url} {told}: {said}", maybe_paid=paid)
    return WorkerFailed(f"worker {name!r} raised {said}", maybe_paid=True)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what it came from, each once."""
    seen = set[int]()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        yield each
        each = each.__cause__ or each.__context__


def _headers(error: BaseException) -> Mapping[str, str]:
    headers: Any = getattr(getattr(error, "response", None), "headers", None) or {}
    return {str(name).lower(): str(value) for name, value in dict(headers).items()}


def _body(error: BaseException) -> bytes:
    body = getattr(error, "body", None)
    return json.dumps(body if body is not None else str(error), default=str).encode()
