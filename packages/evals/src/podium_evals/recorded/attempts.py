"""Repeats HTTP requests after broken connections and errors of servers."""

from collections.abc import Awaitable, Callable
from random import random
from typing import TypeVar

import anyio
import httpx2

from podium_evals.errors import OriginUnavailable

T = TypeVar("T")
ATTEMPTS = 5
"""Maximum number of failed requests in a row without any progress."""
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
"""Seconds before the second request. The time doubles with each failure, up to a maximum."""
TIMEOUTS = httpx2.Timeout(30.0, connect=10.0)
"""Maximum seconds for each read, each write and each wait for a connection."""


class RequestFailed(Exception):
    """A request failed, but the next one may succeed.

    Args:
        told: why the request failed.
        wait: seconds that the server asks to wait.
    """

    progressed = False
    """Whether some bytes arrived before the failure."""

    def __init__(self, told: str, wait: float = 0.0) -> None:
        super().__init__(told)
        self.wait = wait


async def until_served(url: str, request: Callable[[], Awaitable[T]]) -> T:
    """Return the result of a request. The request is repeated while it raises `RequestFailed`.

    Args:
        url: the URL for error messages.
        request: makes one request.

    Raises:
        OriginUnavailable: `ATTEMPTS` requests in a row made no progress.
    """
    failures = 0
    while True:
        try:
            return await request()
        except RequestFailed as failed:
            failures = 1 if failed.progressed else failures + 1
            if failures >= ATTEMPTS:
                raise OriginUnavailable(f"{url}: {failed}; {ATTEMPTS} requests failed") from failed
            wait = min(FIRST_WAIT * 2**failures, LONGEST_WAIT) * random()  # noqa: S311 - spreads requests over time
            await anyio.sleep(min(max(wait, failed.wait), LONGEST_WAIT))


def check_status(response: httpx2.Response) -> None:
    """Check the status of a response.

    Raises:
        RequestFailed: the server is busy or broken.
        OriginUnavailable: the server does not serve this URL.
    """
    status = response.status_code
    if status in (200, 206):
        return
    if status == 429 or status >= 500:
        raise RequestFailed(f"the server answered {status}", _retry_after(response))
    raise OriginUnavailable(f"{response.url}: the server answered {status}")


def _retry_after(response: httpx2.Response) -> float:
    """Return the seconds that the server asks to wait; 0 if the header is missing, or has a date."""
    told = response.headers.get("retry-after", "")
    return float(told) if told.isdecimal() else 0.0
