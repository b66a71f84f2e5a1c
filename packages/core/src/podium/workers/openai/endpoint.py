"""One server that speaks OpenAI's API: where it is, its key, how long to wait for it.

It owns what a user says about a server, and who shares its connections. It knows no
messages: what it posts and what comes back are JSON objects.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from podium.errors import ConfigError
from podium.secrets import register
from podium.workers.openai.error_mapping import Origin
from podium.workers.openai.providers import Provider, find_provider
from podium.workers.openai.timeouts import Timeouts

if TYPE_CHECKING:
    from podium.workers.openai.json_client import Exchange

_PUBLIC_HEADERS = (
    *("accept", "accept-language", "content-type", "http-referer", "origin", "referer", "user-agent"),
    *("x-title", "anthropic-beta", "anthropic-version", "openai-beta", "openai-organization"),
)
"""Headers whose values are no secrets, and may well stand in what users write."""


@dataclass(slots=True)
class _Opened:
    """What is open in one event loop, and how many times it was asked for."""

    exchange: "Exchange"
    users: int = 0


class Endpoint:
    """One OpenAI-compatible endpoint.

    Connections are kept while it is entered, which may be any number of times, in any
    number of event loops and threads; they are shared within a loop and closed at its last
    exit. Outside of `async with`, each call opens and closes its own.

    Args:
        base_url: up to and including the version, as in `https://api.openai.com/v1`.
        api_key: sent as a bearer token; `None` sends none. From then on nothing Podium shows,
            records or raises holds it (see `podium.secrets`).
        provider: a name in the table of providers, or a row of one's own.
        timeouts: how long to wait for it; `None` leaves that to the provider's row.
        headers: more headers, sent with every request; their values are kept as the key is,
            but for those that are no secret anywhere, such as `User-Agent`.

    Raises:
        ConfigError: the URL, the key, a header or the provider is wrong.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        provider: str | Provider = "openai",
        timeouts: Timeouts | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.base_url = _checked_url(base_url)
        self.provider = find_provider(provider) if isinstance(provider, str) else provider
        self.timeouts = timeouts or self.provider.timeouts
        self._headers = _request_headers(api_key, headers or {})
        self._origin = Origin(self.base_url, has_key=api_key is not None)
        for secret in _secrets(api_key, headers or {}):
            register(secret)
        self._opened: dict[asyncio.AbstractEventLoop, _Opened] = {}

    def __repr__(self) -> str:
        return f"Endpoint({self.base_url!r}, provider={self.provider.name!r})"

    async def __aenter__(self) -> Self:
        self._enter()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        loop = asyncio.get_running_loop()
        opened = self._opened[loop]
        opened.users -= 1
        if not opened.users:
            del self._opened[loop]
            await opened.exchange.aclose()

    def quote(self, text: str) -> str:
        """Return the beginning of a text of this server's on one line, printable and without the key."""
        return self._origin.quote(text)

    async def ask(
        self, path: str, body: Mapping[str, Any], *, deadline: float | None = None
    ) -> dict[str, Any]:
        """Post `body` and return the JSON object that answers it.

        Args:
            path: below the base URL, as in `/chat/completions`.
            body: the request, as JSON.
            deadline: when the answer must be whole, on the event loop's clock, in seconds;
                `None` means that only the timeouts bound it.

        Raises:
            WorkerError: there is no such answer, and why.
        """
        async with self:
            return await self._exchange.ask(path, body, self._end(deadline))

    async def listen(
        self, path: str, body: Mapping[str, Any], *, deadline: float | None = None
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Post `body` and yield the JSON object of each event of the stream that answers it.

        A server that answers in one piece all the same gives one object. The generator ends
        with the stream, whether or not that said `[DONE]`; who stops early must `aclose` it.

        Args:
            path: as for `ask`.
            body: as for `ask`.
            deadline: as for `ask`.

        Raises:
            WorkerError: the stream did not begin, broke off, or holds an error.
        """
        async with self, aclosing(self._exchange.listen(path, body, self._end(deadline))) as events:
            async for event in events:
                yield event

    @property
    def _exchange(self) -> "Exchange":
        return self._opened[asyncio.get_running_loop()].exchange

    def _enter(self) -> None:
        loop = asyncio.get_running_loop()
        opened = self._opened.get(loop)
        if opened is None:
            from podium.workers.openai.json_client import Exchange  # noqa: PLC0415  (brings in httpx and aiohttp)

            opened = self._opened[loop] = _Opened(Exchange(self._origin, self._headers, self.timeouts))
        opened.users += 1

    def _end(self, deadline: float | None) -> float:
        return min(
            asyncio.get_running_loop().time() + self.timeouts.total, inf if deadline is None else deadline
        )


def _checked_url(base_url: str) -> str:
    try:
        parts = urlsplit(base_url)
        port_is_one = parts.port is None or parts.port > 0
    except ValueError as exc:
        raise ConfigError("base_url is no URL: write it as in https://api.openai.com/v1") from exc
    if parts.username is not None or parts.password is not None:
        raise ConfigError("base_url holds a user name or password: leave them out and give an api_key")
    if parts.query or parts.fragment:
        raise ConfigError(
            "base_url holds a query or fragment: leave it out, and give keys as api_key or headers"
        )
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_one:
        raise ConfigError(
            f"base_url {base_url!r} is no http(s) URL: write it as in https://api.openai.com/v1"
        )
    if any(char.isspace() or not char.isprintable() for char in base_url):
        raise ConfigError(f"base_url {base_url!r} holds a space or control character")
    url = base_url.rstrip("/")
    if url.endswith("/chat/completions"):
        raise ConfigError(f"base_url {base_url!r}: leave out /chat/completions, which is added to it")
    return url


def _request_headers(api_key: str | None, own: Mapping[str, str]) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", "User-Agent": "podium"}
    if api_key is not None:
        if not api_key or not api_key.isascii() or not api_key.isprintable() or " " in api_key:
            raise ConfigError(
                "api_key is empty or holds a space, line break or letter no key has: "
                "check where it is read from, or give None for a server without keys"
            )
        headers["Authorization"] = f"Bearer {api_key}"
    for name, value in own.items():
        if not (name and name.isascii() and name.isprintable() and value.isascii() and value.isprintable()):
            raise ConfigError(f"header {name!r}: names and values must be printable ASCII")
    return headers | dict(own)


def _secrets(api_key: str | None, headers: Mapping[str, str]) -> Iterator[str]:
    """Yield what must not be shown: the key, and values of headers as they are and without their scheme."""
    if api_key is not None:
        yield api_key
    for name, value in headers.items():
        if name.lower() not in _PUBLIC_HEADERS:
            yield value
            yield value.rpartition(" ")[2]
