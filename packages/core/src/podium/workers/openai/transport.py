"""Sends HTTP requests and reads responses."""

import os
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from errno import errorcode
from functools import cache
from ipaddress import ip_address
from typing import Literal
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import anyio
import httpx2
from httpx_aiohttp.httpx2 import AiohttpTransport

from podium.errors import ConfigError, WorkerBroken, WorkerError, WorkerUnavailable
from podium.secrets import register
from podium.workers.openai.errors import Origin, out_of_files


def find_proxy(base_url: str) -> str | None:
    """Return the URL of the proxy for `base_url`; `None` for a direct connection.

    The proxy is read from `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`, in upper or lower case,
    and from the system's settings if there are any. A server on this machine never has a proxy.

    Raises:
        ConfigError: the environment has a proxy that is not an HTTP proxy.
    """
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    if _is_loopback(host) or proxy_bypass(host):
        return None
    proxies = getproxies()
    named = proxies.get(parts.scheme) or proxies.get("all")
    if not named:
        return None
    proxy = named if "://" in named else f"http://{named}"
    scheme, _, rest = proxy.partition("://")
    for secret in _secrets(rest):
        register(secret)
    if scheme not in ("http", "https"):
        raise ConfigError(
            f"the proxy for {base_url} in the environment uses {scheme!r}, which is not supported: "
            "use an HTTP proxy, or put the host into NO_PROXY"
        )
    return proxy


def _secrets(rest: str) -> Iterator[str]:
    """Yield the password of a URL without its scheme, both verbatim and decoded."""
    user, found, _ = rest.partition("/")[0].rpartition("@")
    password = user.partition(":")[2] or user
    if found:
        yield from {password, unquote(password)}


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


KEEPALIVE_SECONDS = 30.0
"""How long an idle connection is kept. Load balancers close connections that are idle for longer."""
CLOSE_SECONDS = 1.0
"""Timeout for closing a response or all connections, in seconds."""


class Upload(httpx2.AsyncByteStream):
    """The body of a request and its own headers; it records whether sending has started."""

    def __init__(self, content: bytes, headers: Mapping[str, str] = {}) -> None:
        self.content = content
        self.headers = headers
        self.begun = False
        """Whether a byte may have reached the server, so that the call may be charged."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self.begun = True
        yield self.content


class Download:
    """A response after its status and headers; its body is read in pieces."""

    def __init__(self, response: httpx2.Response) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self.has_end = "content-length" in self.headers or "transfer-encoding" in self.headers
        """Whether the end of the body can be distinguished from the end of the connection."""
        self._response = response
        self._ended = False
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        self._pieces = (
            response.stream.__aiter__()
        )  # `Response.aiter_raw` doubles the CPU time of a small answer

    async def read(self) -> bytes:
        """Return the next piece of the body, or `b""` at its end.

        Raises:
            WorkerBroken: the connection ended before the body was complete.
        """
        try:
            piece = await anext(self._pieces, b"")
        except (httpx2.HTTPError, aiohttp.ClientError, OSError) as exc:
            message = f"the answer of {self._response.url} was cut off: {_cause(exc)}"
            raise WorkerBroken(message, maybe_paid=True) from exc
        self._ended = not piece
        return piece

    async def aclose(self) -> None:
        """Release the connection, or close it if the body was not read to its end."""
        if self._ended:  # releasing does not wait
            await self._response.aclose()
            return
        with anyio.move_on_after(CLOSE_SECONDS):
            await self._response.aclose()


class Transport:
    """The connections to one server in one event loop. The first request opens the first connection.

    Args:
        base_url: the common part of all URLs.
        headers: the HTTP headers of every request.

    Raises:
        ConfigError: `base_url` is not a URL, or the environment has a proxy that is not supported.
    """

    def __init__(self, base_url: str, headers: Mapping[str, str]) -> None:
        try:
            httpx2.URL(base_url)
        except httpx2.InvalidURL:  # its message quotes a part of the URL
            is_url = False
        else:
            is_url = True
        if not is_url:
            raise ConfigError("base_url is not a URL: write it as in https://api.openai.com/v1")
        self._headers = httpx2.Headers(headers)
        self._url = cache(lambda path: httpx2.URL(base_url + path))
        proxy = find_proxy(base_url)
        # No limit on connections, because callers limit the concurrent calls.
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,
                keepalive_timeout=KEEPALIVE_SECONDS,
                ssl=_tls() if base_url.startswith("https:") else True,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        self._transport = AiohttpTransport(
            client=session, verify=_no_tls(), proxy=httpx2.Proxy(proxy) if proxy else None
        )

    async def send(
        self, path: str, upload: Upload, *, connect_seconds: float, method: Literal["GET", "POST"] = "POST"
    ) -> Download:
        """Send a request, and return the response as soon as its headers have arrived.

        Args:
            path: appended to the base URL.
            upload: the body.
            connect_seconds: timeout for name lookup, TCP and TLS together.
            method: the HTTP method.

        Raises:
            WorkerUnavailable: the connection failed, or ended before the response started.
            WorkerBroken: the response is not HTTP.
        """
        headers = self._headers.copy()
        headers.update(upload.headers)
        headers["Content-Length"] = str(len(upload.content))
        request = httpx2.Request(
            method,
            self._url(path),
            headers=headers,
            stream=upload,
            # The transport passes `pool` to aiohttp as the timeout for name lookup, TCP and TLS together.
            extensions={"timeout": {"pool": connect_seconds}},
        )
        try:
            response = await self._transport.handle_async_request(request)
        except (httpx2.HTTPError, aiohttp.ClientError, OSError) as exc:
            fault: WorkerError | None = out_of_files(Origin(str(request.url)), _cause(exc))
            fault = fault or _unanswered(request.url, exc, sent=upload.begun)
            if not isinstance(_cause(exc), aiohttp.ClientResponseError):
                raise fault from exc
        else:
            response.request = request
            return Download(response)
        raise fault  # without its cause, whose repr has the request's headers with the key

    async def aclose(self) -> None:
        """Close all connections."""
        with anyio.move_on_after(CLOSE_SECONDS, shield=True):
            await self._transport.aclose()


def _unanswered(url: httpx2.URL, exc: Exception, *, sent: bool) -> WorkerError:
    cause = _cause(exc)
    match cause:
        case aiohttp.ClientHttpProxyError():
            said = f"{cause.status} {cause.message}"
            return WorkerUnavailable(f"the proxy refused the connection to {url} (see HTTPS_PROXY): {said}")
        case aiohttp.ClientResponseError():
            return WorkerBroken(
                f"{url} sent an answer that is not HTTP: {cause.message:.200}", maybe_paid=True
            )
        case aiohttp.ConnectionTimeoutError():
            return WorkerUnavailable(f"no connection to {url} in time: check base_url, network and proxy")
        case aiohttp.ClientSSLError():
            hint = "set SSL_CERT_FILE to the file of trusted certificates if needed"
            return WorkerUnavailable(f"no secure connection to {url} ({hint}): {_why(cause)}")
        case aiohttp.ClientConnectorError():
            fault = WorkerUnavailable(f"no connection to {url} (is the server up?): {_why(cause)}")
            fault.is_down = True
            return fault
        case _:
            return WorkerUnavailable(
                f"{url} closed the connection without an answer: {cause}", maybe_paid=sent
            )


def _why(cause: BaseException) -> str:
    """Return the error of the system; aiohttp's own text has the address again, and an internal setting."""
    if isinstance(cause, aiohttp.ClientConnectorCertificateError):
        return str(cause.certificate_error)
    if not isinstance(cause, aiohttp.ClientConnectorError) or isinstance(cause.os_error, ssl.SSLError):
        return str(cause)
    error = cause.os_error
    if error.errno is not None and error.errno in errorcode:
        return os.strerror(error.errno)
    return error.strerror or str(error)


def _cause(exc: Exception) -> BaseException:
    """Return the exception of aiohttp, which distinguishes a reset from a refused connection."""
    return exc.__cause__ if isinstance(exc, httpx2.HTTPError) and exc.__cause__ else exc


@cache
def _tls() -> ssl.SSLContext:
    # Shared by all transports, because reading the certificates takes about 20 ms.
    return httpx2.create_ssl_context()


@cache
def _no_tls() -> ssl.SSLContext:
    # Without it, the transport would read the certificates, which only the connector needs.
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
