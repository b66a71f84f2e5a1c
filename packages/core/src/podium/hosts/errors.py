"""Translates the exceptions of a worker's foreign code into `WorkerError`s.

The exceptions of client libraries have no common base class. But most have an HTTP status and the headers of
a response, and their class names contain similar words. `podium.workers.openai.errors` maps a status
to an error, also for Podium's own HTTP client.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from traceback import walk_tb
from typing import Any, Final

from pydantic import BaseModel

from podium.errors import (
    AnswerCut,
    AnswerNotUtf8,
    AnswerRefused,
    PodiumError,
    WorkerBroken,
    WorkerError,
    WorkerFailed,
    WorkerRefused,
    WorkerTimeout,
    WorkerUnavailable,
)
from podium.secrets import Boundary
from podium.types.messages import storable
from podium.usage import Usage
from podium.workers.openai.chat_response import read_usage
from podium.workers.openai.errors import ASK_URL, answer_fault, out_of_files, quoted, status_fault

HostErrorReader = Callable[[BaseException], WorkerError | None]
"""Returns the error for an exception that only this host raises; `None` for any other exception."""


class GuardrailTripped(WorkerRefused):
    """A guardrail of the host stopped a step. The step is not retried."""

    code = "guardrail_tripped"


_STATUSES: Final = range(100, 600)
_CLIENT_SIDE: Final = "APIConnectionError"
"""Base class of the connection and timeout errors of OpenAI's and Anthropic's clients.

Libraries that use these clients give such errors an HTTP status, although no server sent a status.
"""

_CUT: Final = "LengthFinishReasonError"
_FILTERED: Final = "ContentFilterFinishReasonError"
"""Exceptions that OpenAI's client raises if it cannot parse an answer because it was cut at the token
limit, or by a content filter."""

_CLIENT: Final = re.compile(r"(^|[._])openai(\b|_chatcompletions$)")
"""In the names of modules of clients of OpenAI's API."""
_UNREAD: Final = re.compile(
    "object has no attribute|object is not (subscriptable|iterable)|indices must be|index out of range"
)
"""Texts of Python's errors for a value of another type, or an empty list, such as in an answer."""

_TEXTS: Final[Sequence[tuple[re.Pattern[str], type[WorkerError], str, bool]]] = (
    # messages of OpenAI's and Anthropic's clients, and of CrewAI, which make a client at the first call
    (
        re.compile(
            "^Missing credentials|Could not resolve authentication"
            "|(API_KEY|API key|token|URL|endpoint|Authentication)( is)? required"
        ),
        WorkerRefused,
        "was not called, because its client has no key or no URL",
        False,
    ),
    # httpx's message for an answer that was cut off; clients of models wrap it in a connection error
    (
        re.compile("without sending complete message body|incomplete chunked read"),
        WorkerBroken,
        "was cut off",
        True,
    ),
    # asyncio's message for a client whose connection belongs to a closed event loop
    (
        re.compile("^Event loop is closed$"),
        WorkerUnavailable,
        "lost a connection of another event loop",
        True,
    ),
)
"""Texts in messages of exceptions and their causes, the error for each, and if the call may be billed."""

_CLASS_WORDS: Final[Sequence[tuple[tuple[str, ...], type[WorkerError], str, bool]]] = (
    (
        (
            "ConnectError", "ConnectTimeout", "ConnectionRefused", "ClientConnectorError", "PoolTimeout",
            "EndpointConnectionError", "NewConnectionError", "NameResolutionError", "gaierror",
        ),
        WorkerUnavailable,
        "cannot be reached (is its server up?)",
        False,
    ),
    (("Timeout",), WorkerTimeout, "did not answer in time", True),
    ((_CLIENT_SIDE,), WorkerUnavailable, "closed the connection without an answer", True),
    (
        ("RemoteProtocolError", "ReadError", "IncompleteRead", "ClientPayloadError", "ChunkedEncodingError"),
        WorkerBroken,
        "was cut off",
        True,
    ),
    (("JSONDecodeError",), WorkerBroken, f"sent no JSON ({ASK_URL})", True),
    (("Connection",), WorkerUnavailable, "lost the connection", True),
)  # fmt: skip
"""Words in class names of exceptions, and the error for each set of words.

A row has the words, the class and the message of the error, and whether the call may be billed. Of the rows
that match the class name of the exception or of one of its causes, the first is used.
"""


@contextmanager
def worker_errors(
    worker: str,
    *,
    usage: Callable[[], Usage | None] | None = None,
    reader: HostErrorReader | None = None,
    has_run: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Translate every exception that foreign code raises in the block.

    Errors of Podium and requested cancellations are raised unchanged. Secrets are removed from the
    messages of the error and of its causes.

    Args:
        worker: the name on the worker's card.
        usage: returns the tokens that the block used; `None` if they are unknown. These tokens are used
            instead of the tokens of a foreign exception, which are the tokens of a single call.
        reader: recognises exceptions that only this host raises; it is called first.
        has_run: whether code of the user, such as a tool, may have run before the exception. Then, and if
            tokens were used, a refused connection does not show that nothing was done: `maybe_paid` is set.

    Raises:
        WorkerError: the block raised an exception. `__cause__` is this exception; it is left out if it has a
            secret that cannot be removed.
    """
    try:
        with Boundary(f"worker {worker!r}", partial(WorkerFailed, maybe_paid=True), is_library=True):
            try:
                yield
            except PodiumError:
                raise
            except Exception as error:  # foreign code; `reader` knows its exceptions
                translated = worker_error(error, worker, reader=reader)
                used = None if usage is None else usage()
                translated.usage = used or translated.usage
                if has_run() or (used is not None and used.total_tokens):
                    translated.maybe_paid = True
                raise translated from error
    except WorkerError as error:
        if usage is not None and error.usage is None:
            error.usage = usage()
        raise


def worker_error(error: BaseException, worker: str, *, reader: HostErrorReader | None = None) -> WorkerError:
    """Return the `WorkerError` for an exception: by the reader, by a status, or by words in class names."""
    who, chain = f"worker {worker!r}", tuple(_chain(error))
    if reader is not None:
        for each in chain:
            if (known := reader(each)) is not None:
                return known
    said = quoted(f"{type(error).__name__}: {error}")
    if any(isinstance(each, UnicodeDecodeError) for each in chain):
        return AnswerNotUtf8(f"{who} sent bytes that are not UTF-8: {said}", maybe_paid=True)
    for each in chain:
        if (unparsed := _unparsed(who, each, said)) is not None:
            return unparsed
        if (reported := _reported(each)) is not None:
            return answer_fault(who, {"error": reported})
        if (status := _status(each)) is not None:
            fault = status_fault(who, status, _headers(each), _body(each))
            # with a status below 300, the client could not read the answer, which is billed
            fault.maybe_paid = fault.maybe_paid or status < HTTPStatus.MULTIPLE_CHOICES
            return fault
    return _by_words(who, chain, said)


def _unparsed(who: str, error: BaseException, said: str) -> WorkerError | None:
    """Return the error for an answer that OpenAI's client could not parse; `None` for other exceptions."""
    names = _class_names(error)
    if _CUT in names:
        told = f"{who} was cut at its token limit, and the answer cannot be read: {said}"
        return AnswerCut(told, maybe_paid=True, usage=cut_answer_usage(error))
    if _FILTERED in names:
        return AnswerRefused(f"{who} was stopped by a content filter: {said}", maybe_paid=True)
    if _is_of_client(error) and _UNREAD.search(str(error)):
        return WorkerBroken(f"{who} did not send a chat completion ({ASK_URL}): {said}", maybe_paid=True)
    return None


def _is_of_client(error: BaseException) -> bool:
    """Return whether the code of a client of OpenAI's API raised, and not what it calls."""
    place = None
    for place, _ in walk_tb(error.__traceback__):  # noqa: B007 - the innermost frame is wanted
        pass
    return place is not None and _CLIENT.search(place.f_globals.get("__name__", "")) is not None


def cut_answer_usage(error: BaseException) -> Usage | None:
    """Return the tokens of an answer that OpenAI's client could not parse because it was cut."""
    if _CUT not in _class_names(error):
        return None
    reported = getattr(getattr(error, "completion", None), "usage", None)
    return read_usage(reported.model_dump()) if isinstance(reported, BaseModel) else None


def _by_words(who: str, chain: Sequence[BaseException], said: str) -> WorkerError:
    """Return the error for the texts or class names of an exception and its causes."""
    for text, kind, message, maybe_paid in _TEXTS:
        if any(text.search(str(each)) for each in chain):
            return kind(f"{who} {message}: {said}", maybe_paid=maybe_paid)
    names = [name for each in chain for name in _class_names(each)]
    for words, kind, message, maybe_paid in _CLASS_WORDS:
        if any(word in name for word in words for name in names):
            full = None if maybe_paid else next(filter(None, (out_of_files(who, e) for e in chain)), None)
            return full or kind(f"{who} {message}: {said}", maybe_paid=maybe_paid)
    return WorkerFailed(f"{who} raised {said}", maybe_paid=True)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and its causes, each once; after a group with one exception, that exception."""
    seen = set[int]()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        yield each
        if isinstance(each, BaseExceptionGroup) and len(each.exceptions) == 1:
            each = each.exceptions[0]
        else:
            each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)


def _class_names(error: BaseException) -> list[str]:
    return [kind.__name__ for kind in type(error).__mro__]


def _reported(error: BaseException) -> object:
    """Return the error that a server reported inside a stream; `None` if there is none."""
    is_base = type(error).__name__ == "APIError" and getattr(error, "response", None) is None
    return getattr(error, "body", None) if is_base else None


def _status(error: BaseException) -> int | None:
    if _CLIENT_SIDE in _class_names(error):
        return None
    response = getattr(error, "response", None)
    for holder, name in (
        (error, "status_code"),
        (response, "status_code"),
        (error, "http_status"),
        (error, "status"),
        (error, "code"),
    ):
        status = getattr(holder, name, None)
        if isinstance(status, int) and status in _STATUSES:
            return int(status)
    status = _botocore(response, "ResponseMetadata").get("HTTPStatusCode")
    return status if isinstance(status, int) else None


def _headers(error: BaseException) -> Mapping[str, str]:
    response = getattr(error, "response", None)
    headers: Any = getattr(response, "headers", None) or getattr(error, "headers", None)
    headers = headers or _botocore(response, "ResponseMetadata").get("HTTPHeaders") or {}
    return {str(name).lower(): str(value) for name, value in dict(headers).items()}


def _body(error: BaseException) -> bytes:
    """Return the server's message, as the body of an error response."""
    body = getattr(error, "body", None)
    if body is None and (said := _botocore(getattr(error, "response", None), "Error")):
        body = {"error": {key.lower(): value for key, value in said.items()}}
    return storable(str(error)).encode() if body is None else json.dumps(body, default=str).encode()


def _botocore(response: object, key: str) -> Mapping[str, Any]:
    """Return a part of the response of an AWS client, which is a mapping; empty for any other response."""
    part = response.get(key) if isinstance(response, Mapping) else None
    return part if isinstance(part, Mapping) else {}
