"""Exceptions of providers' client libraries, and the error of Podium for each in every adapter.

Classes with the same names and attributes replace libraries that are not installed here.
"""

import errno
import json
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import aiohttp
import httpx
import openai
import pytest
import requests
import urllib3
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from podium.errors import (
    WorkerBroken,
    WorkerError,
    WorkerFailed,
    WorkerRefused,
    WorkerTimeout,
    WorkerUnavailable,
)

REQUEST = httpx.Request("POST", "https://api.example/v1/chat")


@dataclass(frozen=True)
class ProviderError:
    """One exception, and the expected error."""

    name: str
    make: Callable[[], Exception]
    kind: type[WorkerError]
    says: str
    retry_after: float | None = None
    status: int | None = None
    maybe_paid: bool = False


def response(status: int, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, headers=named, request=REQUEST)


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


class OverloadedError(Exception):
    """Like Anthropic's client: with a status, a response, and the body."""

    def __init__(self) -> None:
        super().__init__("Error code: 529 - overloaded")
        self.status_code = 529
        self.response = response(529, retry_after_ms="1500")
        self.body = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


class ClientError(Exception):
    """Like botocore: the response is a dict."""

    def __init__(self) -> None:
        super().__init__("An error occurred (ThrottlingException) when calling the Converse operation")
        self.response = {
            "Error": {"Code": "ThrottlingException", "Message": "Too many tokens, please wait."},
            "ResponseMetadata": {"HTTPStatusCode": 429, "HTTPHeaders": {"Retry-After": "3"}},
        }


class ResourceExhausted(Exception):
    """Like google.api_core: the code is an `HTTPStatus`."""

    code = HTTPStatus.TOO_MANY_REQUESTS


class GenAIError(Exception):
    """Like google.genai: the code is a number, the status is a word."""

    code = 400
    status = "INVALID_ARGUMENT"


def wrapped() -> Exception:
    """Return the error of an integration that wraps that of google.genai."""
    return caused(Exception("Invalid argument"), GenAIError("bad image"))


class ProxiedConnectionError(openai.APIConnectionError):
    """Like litellm: with a status that no server sent."""

    status_code = 500


def openai_status(kind: type[openai.APIStatusError], status: int, body: Any, **headers: str) -> Exception:
    return kind(f"Error code: {status} - {body}", response=response(status, **headers), body=body)


def aiohttp_status(status: int) -> Exception:
    headers = CIMultiDictProxy(CIMultiDict({"Retry-After": "2"}))
    info = aiohttp.RequestInfo(URL("https://api.example"), "POST", headers, URL("https://api.example"))
    return aiohttp.ClientResponseError(info, (), status=status, message="down", headers=headers)


def no_key() -> Exception:
    with pytest.raises(openai.OpenAIError) as raised:
        openai.OpenAI(api_key="")
    return raised.value


def no_json() -> Exception:
    return json.JSONDecodeError("Expecting value", "<html>", 0)


def over(cause: Exception) -> Exception:
    """Return the error of OpenAI's client for an error of its connection."""
    return caused(openai.APIConnectionError(request=REQUEST), cause)


def not_connected() -> Exception:
    """Return the error of requests for a connection that was refused."""
    refused = urllib3.exceptions.NewConnectionError(urllib3.connection.HTTPConnection("h"), "refused")
    return caused(requests.ConnectionError("no route"), refused)


def no_file() -> Exception:
    return caused(httpx.ConnectError("no"), OSError(errno.EMFILE, "Too many open files"))


def rate_limited(body: Any, **headers: str) -> Exception:
    return openai_status(openai.RateLimitError, 429, body, **headers)


def key_refused() -> Exception:
    return openai_status(openai.AuthenticationError, 401, {"message": "no key"})


def unavailable(name: str, says: str, make: Any, status: Any = None, after: Any = None, **more: Any) -> Any:
    """Expect that the worker is unavailable, and may be asked again after a time."""
    return ProviderError(name, make, WorkerUnavailable, says, after, status, **more)


def late(name: str, make: Callable[[], Exception]) -> ProviderError:
    return ProviderError(name, make, WorkerTimeout, "did not answer in time", maybe_paid=True)


def refused(name: str, says: str, make: Callable[[], Exception], status: int | None = None) -> ProviderError:
    return ProviderError(name, make, WorkerRefused, says, status=status)


def broken(name: str, says: str, make: Callable[[], Exception], status: int | None = None) -> ProviderError:
    """Expect a broken answer, which is perhaps paid."""
    return ProviderError(name, make, WorkerBroken, says, status=status, maybe_paid=True)


PAID = {"maybe_paid": True}
QUOTA = {"message": "You exceeded your quota", "type": "insufficient_quota", "code": "insufficient_quota"}
SLOW = {"message": "slow down"}
NO_ANSWER = "closed the connection without an answer"
WRONG_URL = "the client cannot read the answer (does the base URL lead to"
CUT = "peer closed connection without sending complete message body"
PROVIDER_ERRORS = (
    unavailable("openai-429", "answered 429: slow", lambda: rate_limited(SLOW, retry_after="7"), 429, 7.0),
    refused("openai-quota", "exceeded your quota", lambda: rate_limited(QUOTA), 429),
    refused("openai-401", "the key was refused", key_refused, 401),
    broken("openai-odd", WRONG_URL, lambda: openai.APIResponseValidationError(response(200), None), 200),
    late("openai-timeout", lambda: openai.APITimeoutError(REQUEST)),
    unavailable("openai-not-connected", "cannot be reached", lambda: over(httpx.ConnectError("refused"))),
    unavailable("openai-dropped", NO_ANSWER, lambda: over(httpx.ReadError("reset")), **PAID),
    unavailable("litellm-dropped", NO_ANSWER, lambda: ProxiedConnectionError(request=REQUEST), **PAID),
    unavailable("anthropic-529", "answered 529: Overloaded", OverloadedError, 529, 1.5, **PAID),
    unavailable("httpx-no-file-descriptor", "no free file descriptor", no_file),
    unavailable("httpx-connect-timeout", "cannot be reached", lambda: httpx.ConnectTimeout("late")),
    unavailable("httpx-no-free-connection", "cannot be reached", lambda: httpx.PoolTimeout("full")),
    broken("httpx-cut-off", "was cut off", lambda: httpx.RemoteProtocolError("incomplete")),
    broken("openai-cut-off", "was cut off", lambda: over(httpx.RemoteProtocolError(CUT))),
    unavailable("requests-not-connected", "cannot be reached", not_connected),
    late("requests-read-timeout", lambda: requests.ReadTimeout("late")),
    unavailable("aiohttp-500", "answered 500", lambda: aiohttp_status(500), 500, 2.0, **PAID),
    unavailable("botocore-throttled", "Too many tokens", ClientError, 429, 3.0),
    unavailable("google-429", "answered 429", lambda: ResourceExhausted("quota"), 429),
    refused("google-wrapped", "answered 400: bad image", wrapped, 400),
    unavailable("refused", "cannot be reached", ConnectionRefusedError),
    unavailable("reset", "lost the connection", lambda: ConnectionResetError("reset"), **PAID),
    late("timeout", lambda: TimeoutError("late")),
    late("in-a-group", lambda: ExceptionGroup("tasks", [TimeoutError("late")])),
    unavailable("closed-loop", "another event loop", lambda: RuntimeError("Event loop is closed"), **PAID),
    refused("no-key", "was not called", no_key),
    refused("no-key-in-crewai", "was not called", lambda: ValueError("ANTHROPIC_API_KEY is required")),
    broken("no-json", "sent no JSON (does the base URL", no_json),
    ProviderError("any-other", lambda: ValueError("x"), WorkerFailed, "ValueError: x", maybe_paid=True),
)
