"""A server with OpenAI's API: its URL, key, timeouts and shared connections.

Creating an endpoint imports no HTTP library.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, closing
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from podium.aio.loops import PerLoop
from podium.errors import ConfigError
from podium.secrets import register
from podium.workers.openai.providers import DEFAULT_PROVIDER, PROVIDERS, Provider, Timeouts, find_provider

if TYPE_CHECKING:
    from podium.workers.openai.http import Connections

_PUBLIC_HEADERS = frozenset(
    {"accept", "accept-language", "content-type", "origin", "referer", "user-agent"}
).union(*(provider.public_headers for provider in PROVIDERS.values()))
"""Headers whose values are not secret."""


class Endpoint(PerLoop["Connections"]):
    """One OpenAI-compatible endpoint.

    In a block `async with endpoint:`, connections stay open. Such blocks may nest and overlap, in any number
    of event loops and threads. All blocks of one loop share their connections; the end of the last block
    closes them. Outside `async with`, each call opens and closes its own connection.

    Args:
        base_url: the URL up to and including the version, as in `https://api.openai.com/v1`.
        api_key: the bearer token; `None` sends no token. Podium removes the key from all text that it shows,
            records or raises (see `podium.secrets`).
        provider: the name of a known provider, or your own `Provider`.
        timeouts: timeouts for the server; default: the provider's timeouts.
        headers: additional HTTP headers of every request. Their values are removed from texts like the key,
            except for headers that are not secret, such as `User-Agent`.

    Raises:
        ConfigError: the URL, the key, a header or the provider is invalid.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        provider: str | Provider = DEFAULT_PROVIDER,
        timeouts: Timeouts | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self.base_url = _checked_url(base_url)
        self.provider = find_provider(provider) if isinstance(provider, str) else provider
        self.timeouts = timeouts or self.provider.timeouts
        self._headers = _request_headers(api_key, headers or {})
        public = _PUBLIC_HEADERS | self.provider.public_headers
        secrets = [value for name, value in (headers or {}).items() if name.lower() not in public]
        for secret in (api_key or "", *secrets):
            register(secret)
            register(secret.rpartition(" ")[2])  # without the scheme of the header

    def __repr__(self) -> str:
        return f"Endpoint({self.base_url!r}, provider={self.provider.name!r})"

    async def ask(
        self,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        deadline: float | None = None,
        headers: Mapping[str, str] = {},
    ) -> dict[str, Any]:
        """Post `body`, and return the JSON object of the response.

        Args:
            path: appended to the base URL, as in `/chat/completions`.
            body: the request, as JSON data; `None` for a GET.
            deadline: when the response must be complete, in seconds on the event loop's clock; with `None`,
                only the timeouts apply.
            headers: HTTP headers of this request, in addition to those of all requests; they are not secret.

        Raises:
            WorkerError: the server did not return a JSON object.
        """
        async with self.opened() as connections:
            with closing(connections.exchange(path, body, deadline, headers)) as exchange:
                return await exchange.read()

    async def listen(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        deadline: float | None = None,
        headers: Mapping[str, str] = {},
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Post `body`, and yield the JSON object of each event of the streamed response.

        If the server does not support streaming, one object is yielded. The generator ends with the stream,
        with or without a `[DONE]`. A caller that stops early must call `aclose`. `ask` describes the
        arguments.

        Raises:
            WorkerError: the stream did not start, was interrupted, or has an error.
        """
        async with self.opened() as connections:
            with closing(connections.exchange(path, body, deadline, headers)) as exchange:
                async with aclosing(exchange.events()) as events:
                    async for event in events:
                        yield event

    async def _open(self) -> "Connections":
        from podium.workers.openai.http import Connections  # noqa: PLC0415  (imports aiohttp, which is slow)

        return Connections(self.base_url, self._headers, self.timeouts)

    async def _close(self, part: "Connections") -> None:
        await part.aclose()


def _checked_url(base_url: str) -> str:
    """Return the URL without slashes at its end. Errors do not quote the URL, because it may have a key."""
    try:
        parts = urlsplit(base_url)
        is_url = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # its message quotes a part of the URL
        is_url = False
    if not is_url or any(char.isspace() or not char.isprintable() for char in base_url):
        raise ConfigError(
            "base_url is not an http(s) URL with a host, or has a space: write it as in https://api.openai.com/v1"
        )
    if parts.username is not None or parts.password is not None:
        raise ConfigError("base_url has a user name or password: leave them out and use api_key")
    if parts.query or parts.fragment:
        raise ConfigError(
            "base_url has a query or fragment: leave it out, and pass keys as api_key or headers"
        )
    url = base_url.rstrip("/")
    if url.endswith("/chat/completions"):
        raise ConfigError("base_url ends in /chat/completions: leave that out, because Podium adds it")
    return url


def _request_headers(api_key: str | None, own: Mapping[str, str]) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", "User-Agent": "podium"}
    if api_key is not None:
        if not api_key or not api_key.isascii() or not api_key.isprintable() or " " in api_key:
            raise ConfigError(
                "api_key is empty, or has a space, a line break or a character that is not ASCII: "
                "check its source, or use None for a server without keys"
            )
        headers["Authorization"] = f"Bearer {api_key}"
    for name, value in own.items():
        if not (name and name.isascii() and name.isprintable() and value.isascii() and value.isprintable()):
            raise ConfigError(f"header {name!r}: names and values must be printable ASCII")
    return headers | dict(own)
