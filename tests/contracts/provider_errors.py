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


REQUEST = httpx.Request("POST", "https://api.example/v1/chat")


def response(status: int, **headers: str) -> httpx.Response:
    """Return a response with a status and headers."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, headers=named, request=REQUEST)


def caused(error: Exception, cause: Exception) -> Exception:
    """Return an exception with a cause."""
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

    def __init__(self, code: str, status: int) -> None:
        super().__init__(f"An error occurred ({code}) when calling the Converse operation")
        self.response = {
            "Error": {"Code": code, "Message": "Too many tokens, please wait."},
            "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": {"Retry-After": "3"}},
        }


class EndpointConnectionError(Exception):
    """Like botocore, for an endpoint that does not listen."""


class ResourceExhausted(Exception):
    """Like google.api_core: the code is an `HTTPStatus`."""

    code = HTTPStatus.TOO_MANY_REQUESTS


class GenAIError(Exception):
    """Like google.genai: the code is a number, the status is a word."""

    code = 400
    status = "INVALID_ARGUMENT"


class ChatGoogleError(Exception):
    """Like an integration that wraps the error."""


class ProxiedConnectionError(openai.APIConnectionError):
    """Like litellm: with a status that no server sent."""

    status_code = 500


def openai_status(kind: type[openai.APIStatusError], status: int, body: Any, **headers: str) -> Exception:
    """Return a status error of OpenAI's client."""
    return kind(f"Error code: {status} - {body}", response=response(status, **headers), body=body)


def aiohttp_status(status: int) -> Exception:
    """Return a status error of aiohttp."""
    headers = CIMultiDictProxy(CIMultiDict({"Retry-After": "2"}))
    info = aiohttp.RequestInfo(URL("https://api.example"), "POST", headers, URL("https://api.example"))
    return aiohttp.ClientResponseError(info, (), status=status, message="down", headers=headers)


def no_key() -> Exception:
    """Return the error of OpenAI's client without a key."""
    with pytest.raises(openai.OpenAIError) as raised:
        openai.OpenAI(api_key="")
    return raised.value


def no_json() -> Exception:
    """Return the exception of the standard library for invalid JSON."""
    return json.JSONDecodeError("Expecting value", "<html>", 0)


QUOTA = {"message": "You exceeded your quota", "type": "insufficient_quota", "code": "insufficient_quota"}

PROVIDER_ERRORS = (
    ProviderError(
        "openai-429",
        lambda: openai_status(openai.RateLimitError, 429, {"message": "slow down"}, retry_after="7"),
        WorkerUnavailable,
        "answered 429: slow down",
        7.0,
        429,
    ),
    ProviderError(
        "openai-quota",
        lambda: openai_status(openai.RateLimitError, 429, QUOTA),
        WorkerRefused,
        "exceeded your quota",
        None,
        429,
    ),
    ProviderError(
        "openai-401",
        lambda: openai_status(openai.AuthenticationError, 401, {"message": "no key"}),
        WorkerRefused,
        "the key was refused",
        None,
        401,
    ),
    ProviderError(
        "openai-504",
        lambda: openai_status(openai.InternalServerError, 504, None),
        WorkerUnavailable,
        "answered 504",
        None,
        504,
        maybe_paid=True,
    ),
    ProviderError(
        "openai-unreadable",
        lambda: openai.APIResponseValidationError(response(200), None),
        WorkerBroken,
        "the client cannot read the answer (does the base URL lead to",
        None,
        200,
        maybe_paid=True,
    ),
    ProviderError(
        "openai-timeout",
        lambda: openai.APITimeoutError(REQUEST),
        WorkerTimeout,
        "did not answer in time",
        maybe_paid=True,
    ),
    ProviderError(
        "openai-not-connected",
        lambda: caused(openai.APIConnectionError(request=REQUEST), httpx.ConnectError("refused")),
        WorkerUnavailable,
        "cannot be reached",
    ),
    ProviderError(
        "openai-dropped",
        lambda: caused(openai.APIConnectionError(request=REQUEST), httpx.ReadError("reset")),
        WorkerUnavailable,
        "closed the connection without an answer",
        maybe_paid=True,
    ),
    ProviderError(
        "litellm-dropped",
        lambda: ProxiedConnectionError(request=REQUEST),
        WorkerUnavailable,
        "closed the connection without an answer",
        maybe_paid=True,
    ),
    ProviderError(
        "anthropic-529",
        OverloadedError,
        WorkerUnavailable,
        "answered 529: Overloaded",
        1.5,
        529,
        maybe_paid=True,
    ),
    ProviderError(
        "httpx-503",
        lambda: httpx.HTTPStatusError("503", request=REQUEST, response=response(503)),
        WorkerUnavailable,
        "answered 503",
        None,
        503,
        maybe_paid=True,
    ),
    ProviderError(
        "httpx-no-file-descriptor",
        lambda: caused(httpx.ConnectError("no"), OSError(errno.EMFILE, "Too many open files")),
        WorkerUnavailable,
        "no free file descriptor",
    ),
    ProviderError(
        "httpx-read-timeout",
        lambda: httpx.ReadTimeout("late"),
        WorkerTimeout,
        "did not answer in time",
        maybe_paid=True,
    ),
    ProviderError(
        "httpx-connect-timeout",
        lambda: httpx.ConnectTimeout("late"),
        WorkerUnavailable,
        "cannot be reached",
    ),
    ProviderError(
        "httpx-no-free-connection",
        lambda: httpx.PoolTimeout("full"),
        WorkerUnavailable,
        "cannot be reached",
    ),
    ProviderError(
        "httpx-cut-off",
        lambda: httpx.RemoteProtocolError("incomplete"),
        WorkerBroken,
        "was cut off",
        maybe_paid=True,
    ),
    ProviderError(
        "openai-cut-off",
        lambda: caused(
            openai.APIConnectionError(request=REQUEST),
            httpx.RemoteProtocolError("peer closed connection without sending complete message body"),
        ),
        WorkerBroken,
        "was cut off",
        maybe_paid=True,
    ),
    ProviderError(
        "requests-not-connected",
        lambda: caused(
            requests.ConnectionError("no route"),
            urllib3.exceptions.NewConnectionError(urllib3.connection.HTTPConnection("h"), "refused"),
        ),
        WorkerUnavailable,
        "cannot be reached",
    ),
    ProviderError(
        "requests-read-timeout",
        lambda: requests.ReadTimeout("late"),
        WorkerTimeout,
        "in time",
        maybe_paid=True,
    ),
    ProviderError(
        "requests-cut-off",
        lambda: requests.exceptions.ChunkedEncodingError("broken"),
        WorkerBroken,
        "was cut off",
        maybe_paid=True,
    ),
    ProviderError(
        "aiohttp-500",
        lambda: aiohttp_status(500),
        WorkerUnavailable,
        "answered 500",
        2.0,
        500,
        maybe_paid=True,
    ),
    ProviderError(
        "aiohttp-dropped",
        aiohttp.ServerDisconnectedError,
        WorkerUnavailable,
        "lost the connection",
        maybe_paid=True,
    ),
    ProviderError(
        "botocore-throttled",
        lambda: ClientError("ThrottlingException", 429),
        WorkerUnavailable,
        "Too many tokens",
        3.0,
        429,
    ),
    ProviderError(
        "botocore-not-connected",
        lambda: EndpointConnectionError("Could not connect"),
        WorkerUnavailable,
        "cannot be reached",
    ),
    ProviderError(
        "google-429", lambda: ResourceExhausted("quota"), WorkerUnavailable, "answered 429", None, 429
    ),
    ProviderError(
        "google-wrapped",
        lambda: caused(ChatGoogleError("Invalid argument"), GenAIError("bad image")),
        WorkerRefused,
        "answered 400: bad image",
        None,
        400,
    ),
    ProviderError("refused", ConnectionRefusedError, WorkerUnavailable, "cannot be reached"),
    ProviderError(
        "reset",
        lambda: ConnectionResetError("reset"),
        WorkerUnavailable,
        "lost the connection",
        maybe_paid=True,
    ),
    ProviderError(
        "timeout", lambda: TimeoutError("late"), WorkerTimeout, "did not answer in time", maybe_paid=True
    ),
    ProviderError(
        "in-a-group",
        lambda: ExceptionGroup("tasks", [TimeoutError("late")]),
        WorkerTimeout,
        "did not answer in time",
        maybe_paid=True,
    ),
    ProviderError(
        "closed-loop",
        lambda: RuntimeError("Event loop is closed"),
        WorkerUnavailable,
        "another event loop",
        maybe_paid=True,
    ),
    ProviderError("no-key", no_key, WorkerRefused, "was not called"),
    ProviderError(
        "no-key-in-crewai",
        lambda: ValueError("ANTHROPIC_API_KEY is required"),
        WorkerRefused,
        "was not called",
    ),
    ProviderError("no-json", no_json, WorkerBroken, "sent no JSON (does the base URL", maybe_paid=True),
    ProviderError(
        "any-other",
        lambda: ValueError("out of order"),
        WorkerFailed,
        "ValueError: out of order",
        maybe_paid=True,
    ),
)
