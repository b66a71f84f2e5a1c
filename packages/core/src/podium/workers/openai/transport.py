"""Sends requests and reads what comes back: the only module that holds sockets.

It is imported when an endpoint is first opened, since httpx and aiohttp take a while to
import. httpx's transport is used without its client: what the client would add (cookies,
redirects, auth flows, decompression) is what an endpoint must not do, and costs about as
much CPU again. It knows bytes, statuses and failures of the network, no JSON.
"""

import ssl
from collections.abc import AsyncIterator, Mapping
from functools import cache

import aiohttp
import anyio
import httpx
from httpx_aiohttp import AiohttpTransport

from podium.errors import ConfigError, WorkerBroken, WorkerError, WorkerUnavailable
from podium.workers.openai.proxies import find_proxy

KEEPALIVE_SECONDS = 30.0
"""How long an unused connection is kept; beyond that, load balancers close it unannounced."""
CLOSE_SECONDS = 1.0
"""How long the orderly end of an answer or of all connections may take."""


class Upload(httpx.AsyncByteStream):
    """A request's body that remembers whether it was sent."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.begun = False
        """Whether a byte may have reached the server: from here on the call may be paid."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self.begun = True
        yield self.content


class Download:
    """An answer whose status and headers have come; its body is read piece by piece."""

    def __init__(self, response: httpx.Response) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self._response = response
        self._ended = False
        assert isinstance(response.stream, httpx.AsyncByteStream)
        self._pieces = response.stream.__aiter__()  # its `aiter_raw` doubles the cost of a small answer

    async def read(self) -> bytes:
        """Return the next piece of the body; empty at its end.

        Raises:
            WorkerBroken: the connection ended before the body did.
        """
        try:
            piece = await anext(self._pieces, b"")
        except (httpx.HTTPError, aiohttp.ClientError, OSError) as exc:
            message = f"the answer of {self._response.url} was cut off: {_cause(exc)}"
            raise WorkerBroken(message, maybe_paid=True) from exc
        self._ended = not piece
        return piece

    async def aclose(self) -> None:
        """End the answer; a connection whose body was not read to its end is closed."""
        if self._ended:  # nothing is left to wait for
            await self._response.aclose()
            return
        with anyio.move_on_after(CLOSE_SECONDS):
            await self._response.aclose()


class Transport:
    """The connections to one server, within one event loop; none is made before the first request.

    Raises:
        ConfigError: the URL is none, or the environment names a proxy that cannot be used.
    """

    def __init__(self, base_url: str, headers: Mapping[str, str]) -> None:
        try:
            httpx.URL(base_url)
        except httpx.InvalidURL as exc:
            raise ConfigError(f"base_url {base_url!r} is no URL: {exc}") from exc
        self._headers = httpx.Headers(headers)
        self._url = cache(lambda path: httpx.URL(base_url + path))
        proxy = find_proxy(base_url)
        # an endpoint bounds nothing here: how many calls run at once is its callers' business
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,
                keepalive_timeout=KEEPALIVE_SECONDS,
                ssl=_tls() if base_url.startswith("https:") else True,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        self._transport = AiohttpTransport(
            client=session, verify=_no_tls(), proxy=httpx.Proxy(proxy) if proxy else None
        )

    async def post(self, path: str, upload: Upload, *, connect_seconds: float) -> Download:
        """Send a request and return its answer as soon as its headers have come.

        Raises:
            WorkerUnavailable: no connection could be made, or it ended before the answer began.
            WorkerBroken: what came back is not HTTP.
        """
        headers = self._headers.copy()
        headers["Content-Length"] = str(len(upload.content))
        request = httpx.Request(
            "POST",
            self._url(path),
            headers=headers,
            stream=upload,
            # httpx's wait for the pool is what aiohttp counts as name lookup, TCP and TLS together
            extensions={"timeout": {"pool": connect_seconds}},
        )
        try:
            response = await self._transport.handle_async_request(request)
        except (httpx.HTTPError, aiohttp.ClientError, OSError) as exc:
            fault = _unanswered(request.url, exc, sent=upload.begun)
            if not isinstance(_cause(exc), aiohttp.ClientResponseError):
                raise fault from exc
        else:
            response.request = request
            return Download(response)
        raise fault  # not from its cause, whose repr shows the request's headers and so the key

    async def aclose(self) -> None:
        """Close all connections."""
        with anyio.move_on_after(CLOSE_SECONDS, shield=True):
            await self._transport.aclose()


def _unanswered(url: httpx.URL, exc: Exception, *, sent: bool) -> WorkerError:
    cause = _cause(exc)
    match cause:
        case aiohttp.ClientHttpProxyError():
            said = f"{cause.status} {cause.message}"
            return WorkerUnavailable(f"the proxy let nothing through to {url} (see HTTPS_PROXY): {said}")
        case aiohttp.ClientResponseError():
            return WorkerBroken(f"{url} did not answer in HTTP: {cause.message:.200}", maybe_paid=True)
        case aiohttp.ConnectionTimeoutError():
            return WorkerUnavailable(f"no connection to {url} in time: check base_url, network and proxy")
        case aiohttp.ClientSSLError():
            hint = "SSL_CERT_FILE may name the certificates to trust"
            return WorkerUnavailable(f"no secure connection to {url} ({hint}): {cause}")
        case aiohttp.ClientConnectorError():
            return WorkerUnavailable(f"no connection to {url} (is the server up?): {cause}")
        case _:
            return WorkerUnavailable(
                f"{url} closed the connection without an answer: {cause}", maybe_paid=sent
            )


def _cause(exc: Exception) -> BaseException:
    """Return what aiohttp raised: httpx's names for it do not tell a reset from a refusal."""
    return exc.__cause__ if isinstance(exc, httpx.HTTPError) and exc.__cause__ else exc


@cache
def _tls() -> ssl.SSLContext:
    # one for all: reading the certificates takes about 20 ms
    return httpx.create_ssl_context()


@cache
def _no_tls() -> ssl.SSLContext:
    # keeps httpx-aiohttp from reading certificates for a session that has its own connector
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
