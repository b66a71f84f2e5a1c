"""Sends JSON objects over HTTP, and reads JSON objects, whole or as server-sent events."""

import asyncio
import codecs
import json
import os
import ssl
import sys
from asyncio import get_running_loop
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterator, Mapping
from errno import errorcode
from functools import cache
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import anyio

from podium.errors import (
    AnswerNotUtf8,
    ConfigError,
    WorkerBroken,
    WorkerError,
    WorkerRefused,
    WorkerTimeout,
    WorkerUnavailable,
)
from podium.secrets import register
from podium.workers.openai.errors import ASK_URL, answer_fault, out_of_files, quoted, status_fault
from podium.workers.openai.providers import Timeouts

MAX_LINE = 2**20
"""Maximum length of a line of a stream, in bytes."""
MAX_ANSWER = 32 * 2**20
"""Maximum size of a response, streamed or whole, in bytes."""
KEEPALIVE_SECONDS = 30.0
"""How long an idle connection is kept. Load balancers close connections that are idle for longer."""
CLOSE_SECONDS = 1.0
"""Timeout for closing all connections."""
TAIL_SECONDS = 1.0
"""Timeout for the end of a stream after `[DONE]`. Only a finished stream frees its connection."""
_MAX_ERROR_BODY = 64 * 1024
_ANSWERS = {"choices", "object", "type"}
"""Fields that answers have; an object with `detail` and without them is an error."""

T = TypeVar("T")


class Connections:
    """The connections to one server in one event loop. The first request opens the first connection."""

    def __init__(self, url: str, headers: Mapping[str, str], timeouts: Timeouts) -> None:
        self.url = url
        self.timeouts = timeouts
        self.headers = headers
        self.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,  # callers limit the concurrent calls
                keepalive_timeout=KEEPALIVE_SECONDS,
                ssl=_trusted() if url.startswith("https:") else True,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(connect=timeouts.connect),  # name lookup, TCP and TLS together
            proxy=find_proxy(url),
        )

    async def aclose(self) -> None:
        """Close all connections."""
        with anyio.move_on_after(CLOSE_SECONDS, shield=True):
            await self.session.close()

    def exchange(
        self, path: str, body: Mapping[str, Any] | None, deadline: float | None, headers: Mapping[str, str]
    ) -> "Exchange":
        """Return a request and its response; without a body, it is a GET."""
        end = get_running_loop().time() + self.timeouts.total
        return Exchange(self, path, body, end if deadline is None else min(end, deadline), headers)


class Exchange:
    """One request and its response. As an async iterable, it is the body of the request."""

    def __init__(
        self,
        connections: Connections,
        path: str,
        body: Mapping[str, Any] | None,
        end: float,
        headers: Mapping[str, str],
    ) -> None:
        self._connections = connections
        self._server = connections.url
        self._url = connections.url + path
        self._end = end
        # Headers of the session would also be sent to a proxy.
        self._headers = {**connections.headers, **headers}
        if end <= get_running_loop().time():  # an expired timeout would still send on an open connection
            raise WorkerTimeout(f"{self._server} was not called: the deadline had passed")
        try:
            self._content = None if body is None else json.dumps(body).encode()
        except (TypeError, ValueError, RecursionError) as exc:
            raise WorkerRefused(f"the messages have a value that is not JSON data: {exc}") from exc
        self._is_sent = False
        """Whether a byte may have reached the server, so that the call may be charged."""
        self._response: aiohttp.ClientResponse | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self._is_sent = True
        yield self._content or b""

    def close(self) -> None:
        """Close the connection if the response was not read to its end."""
        if self._response is not None:
            self._response.close()

    async def read(self) -> dict[str, Any]:
        """Return the JSON object of the whole response."""
        return self._read_object(await self._within(self._end, self._fetch()))

    async def events(self) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the JSON object of each event of a streamed response, or the one of a whole response."""
        loop, timeouts = get_running_loop(), self._connections.timeouts
        limit = min(self._end, loop.time() + timeouts.first_byte)
        response = await self._within(limit, self._respond())
        if "json" in response.headers.get("Content-Type", ""):
            yield self._read_object(await self._within(self._end, self._body(response, MAX_ANSWER)))
            return
        reader, done, is_first = SseReader(), False, True
        while piece := await self._next_piece(response, limit, done=done):
            if is_first and self._is_page(piece):
                raise self._page_told()
            is_first = False
            for event in reader.feed(piece):
                raw = self._read_event(event)
                done = done or raw is None
                if raw:
                    yield raw
            limit = min(self._end, loop.time() + (TAIL_SECONDS if done else timeouts.idle))
        for event in reader.close():
            if raw := self._read_event(event, cut=True):
                yield raw
        if not (done or self._has_end):
            told = f"the stream of {self._server} ended with its connection, without [DONE]"
            raise WorkerBroken(told, maybe_paid=True)

    async def _within(self, limit: float, answer: Awaitable[T]) -> T:
        seconds = max(0.0, limit - get_running_loop().time())
        try:
            # Not an anyio scope, which takes three times as long on every call.
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError as exc:
            raise WorkerTimeout(
                f"{self._server} did not respond within {seconds:.3g} s: "
                "raise the endpoint's timeouts or the limits of the run if it needs more time",
                maybe_paid=self._is_sent,
            ) from exc

    async def _fetch(self) -> bytes:
        return await self._body(await self._respond(), MAX_ANSWER)

    async def _respond(self) -> aiohttp.ClientResponse:
        """Send the request, and return its response if the status is 200 and the body is not compressed."""
        response = self._response = await self._send()
        encoding = response.headers.get("Content-Encoding", "identity")
        if response.status == HTTPStatus.OK and encoding == "identity":
            return response
        if response.status == HTTPStatus.OK:
            raise WorkerBroken(
                f"{self._server} compressed its answer ({encoding}), although the request forbids "
                "compression: the size of such an answer cannot be limited",
                maybe_paid=True,
            )
        content = await self._body(response, _MAX_ERROR_BODY, cut=True)
        has_key = "Authorization" in self._connections.headers
        raise status_fault(self._server, response.status, response.headers, content, has_key=has_key)

    async def _send(self) -> aiohttp.ClientResponse:
        session, url, headers = self._connections.session, self._url, self._headers
        try:
            if self._content is None:
                return await session.get(url, headers=headers, allow_redirects=False)
            headers["Content-Length"] = str(len(self._content))
            return await session.post(url, data=self, headers=headers, allow_redirects=False)
        except asyncio.CancelledError as cancelled:
            cancelled.is_unsent = not self._is_sent  # type: ignore[attr-defined]
            raise
        except aiohttp.InvalidURL:  # its text is the URL
            fault: ConfigError | WorkerError = ConfigError(
                "base_url is not a URL: write it as in https://api.openai.com/v1"
            )
        except (aiohttp.ClientError, OSError) as exc:
            fault = out_of_files(self._server, exc) or _unanswered(self._url, exc, sent=self._is_sent)
            if not isinstance(exc, aiohttp.ClientResponseError):
                raise fault from exc
        raise fault  # without its cause, whose repr has the request's headers with the key

    async def _body(self, response: aiohttp.ClientResponse, most: int, *, cut: bool = False) -> bytes:
        """Return the body. If it is over `most` bytes, truncate it if `cut` is true, else raise an error."""
        pieces, size = [], 0
        while piece := await self._piece(response):
            pieces.append(piece)
            size += len(piece)
            if size > most and not cut:
                told = f"the answer is over {most:,} bytes: no answer is that long"
                raise WorkerBroken(told, maybe_paid=True)
            if size > most:
                break
        return b"".join(pieces)

    async def _piece(self, response: aiohttp.ClientResponse) -> bytes:
        try:
            return await response.content.readany()
        except (aiohttp.ClientError, OSError) as exc:
            raise WorkerBroken(f"the answer of {self._url} was cut off: {exc}", maybe_paid=True) from exc

    async def _next_piece(self, response: aiohttp.ClientResponse, limit: float, *, done: bool) -> bytes:
        try:
            return await self._within(limit, self._piece(response))
        except (WorkerTimeout, WorkerBroken):
            if done:
                return b""
            raise

    @property
    def _has_end(self) -> bool:
        """Whether the end of the body can be distinguished from the end of the connection."""
        assert self._response is not None
        headers = self._response.headers
        return "Content-Length" in headers or "Transfer-Encoding" in headers

    def _read_object(self, content: bytes) -> dict[str, Any]:
        try:
            raw = json.loads(content)
        except UnicodeDecodeError as exc:
            told = f"{self._server}: its answer is not UTF-8: {exc}"
            raise AnswerNotUtf8(told, maybe_paid=True, received=self._received(content)) from exc
        except (ValueError, RecursionError) as exc:
            if self._is_page(content):
                raise self._page_told() from exc
            raise self._broken("its answer is not JSON", content.decode(errors="replace"), content) from exc
        return self._checked(raw, content)

    def _read_event(self, event: "SseEvent", *, cut: bool = False) -> dict[str, Any] | None:
        """Return the object of an event: `None` for `[DONE]`, an empty object for an event without data."""
        data = event.data.strip()
        if data == "[DONE]":
            return None
        try:
            raw = json.loads(data) if data else {}
        except (ValueError, RecursionError) as exc:
            if cut:
                return {}
            if event.name == "error":
                raise answer_fault(self._server, {"error": data}) from exc
            raise self._broken("an event of its stream is not JSON", data) from exc
        if event.name == "error":
            raise answer_fault(self._server, raw if isinstance(raw, dict) else {"error": data})
        return self._checked(raw)

    def _checked(self, raw: object, content: bytes | None = None) -> dict[str, Any]:
        if isinstance(raw, list) and len(raw) == 1:  # Gemini wraps an error in a list
            raw = raw[0]
        if not isinstance(raw, dict):
            raise self._broken("its answer is not a JSON object", repr(raw), content)
        if raw.get("object") == "error" or (raw.get("detail") and not raw.keys() & _ANSWERS):
            raise answer_fault(self._server, raw)
        for part in (raw, *_choices(raw)):
            if part.get("error") not in (None, "", False) or part.get("errors"):
                raise answer_fault(self._server, part)
        return raw

    def _broken(self, what: str, said: str, content: bytes | None = None) -> WorkerBroken:
        received = None if content is None else self._received(content)
        told = f"{self._server}: {what}: {quoted(said)!r}; {ASK_URL}"
        return WorkerBroken(told, maybe_paid=True, received=received)

    def _received(self, content: bytes) -> str | None:
        return content.decode(errors="replace") if self._has_end else None

    def _is_page(self, content: bytes) -> bool:
        """Return whether a response, or its beginning, is a web page."""
        assert self._response is not None
        start = content[:200].lstrip().lower()
        is_html = "html" in self._response.headers.get("Content-Type", "")
        return start.startswith(b"<") and (is_html or start.startswith((b"<!doctype html", b"<html")))

    def _page_told(self) -> WorkerRefused:
        """Return the error of a web page. No model wrote it, so it is neither charged nor retried."""
        told = f"{self._url} answered with a web page: {ASK_URL}"
        return WorkerRefused(told, status=HTTPStatus.OK)


def _choices(raw: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the choices of a chat completion and their messages, in which some servers report errors."""
    choices = raw.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict):
            yield choice
            yield from (
                part for part in (choice.get("delta"), choice.get("message")) if isinstance(part, dict)
            )


def _unanswered(url: str, exc: Exception, *, sent: bool) -> WorkerError:
    match exc:
        case aiohttp.ClientHttpProxyError():
            said = f"{exc.status} {exc.message}"
            return WorkerUnavailable(f"the proxy refused the connection to {url} (see HTTPS_PROXY): {said}")
        case aiohttp.ClientResponseError():
            told = f"{url} sent an answer that is not HTTP: {exc.message:.200}"
            return WorkerBroken(told, maybe_paid=True)
        case aiohttp.ConnectionTimeoutError():
            return WorkerUnavailable(f"no connection to {url} in time: check base_url, network and proxy")
        case aiohttp.ClientSSLError():
            hint = "set SSL_CERT_FILE to the file of trusted certificates if needed"
            return WorkerUnavailable(f"no secure connection to {url} ({hint}): {_why(exc)}")
        case aiohttp.ClientConnectorError():
            fault = WorkerUnavailable(f"no connection to {url} (is the server up?): {_why(exc)}")
            fault.is_down = True
            return fault
    return WorkerUnavailable(f"{url} closed the connection without an answer: {exc}", maybe_paid=sent)


def _why(exc: aiohttp.ClientError) -> str:
    """Return the error of the system; aiohttp's own text has the address again, and an internal setting."""
    if isinstance(exc, aiohttp.ClientConnectorCertificateError):
        return str(exc.certificate_error)
    if not isinstance(exc, aiohttp.ClientConnectorError) or isinstance(exc.os_error, ssl.SSLError):
        return str(exc)
    error = exc.os_error
    if error.errno is not None and error.errno in errorcode:
        return os.strerror(error.errno)
    return error.strerror or str(error)


def find_proxy(base_url: str) -> str | None:
    """Return the proxy of the environment or the system for a URL; none for a server on this machine."""
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
    user, has_user, _ = rest.partition("/")[0].rpartition("@")
    if has_user:
        password = user.partition(":")[2] or user
        register(password)
        register(unquote(password))
    if scheme not in ("http", "https"):
        raise ConfigError(
            f"the proxy for {base_url} in the environment uses {scheme!r}, which is not supported: "
            "use an HTTP proxy, or put the host into NO_PROXY"
        )
    return proxy


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


@cache
def _trusted() -> ssl.SSLContext:
    """Return the certificates of the system or of `SSL_CERT_FILE`, read once, which takes about 20 ms."""
    paths = ssl.get_default_verify_paths()
    is_named = any(name in os.environ for name in (paths.openssl_cafile_env, paths.openssl_capath_env))
    if is_named or (sys.platform not in ("darwin", "win32") and (paths.cafile or paths.capath)):
        return ssl.create_default_context()
    import truststore  # noqa: PLC0415  (only where OpenSSL does not know the certificates of the system)

    return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class SseEvent(NamedTuple):
    """A server-sent event."""

    name: str
    """Its `event` field; often empty."""
    data: str
    """Its `data` fields, joined by newlines."""


class SseReader:
    """Parses the pieces of a stream into events, as the HTML standard (section 9.2) defines."""

    def __init__(self) -> None:
        self._rest = bytearray()
        """The last line, without its end."""
        self._size = 0
        self._name = ""
        self._data: list[str] = []

    def feed(self, piece: bytes) -> list[SseEvent]:
        """Return the events that `piece` completes."""
        self._size += len(piece)
        has_end = b"\n" in piece or b"\r" in piece or self._rest.endswith(b"\r")
        self._rest += piece
        lines = self._rest.splitlines(keepends=True) if has_end else []
        if lines:  # a carriage return at the end may be the first half of a line break
            self._rest = bytearray() if lines[-1].endswith(b"\n") else lines.pop()
        if len(self._rest) > MAX_LINE or self._size > MAX_ANSWER:
            raise WorkerBroken(
                f"the stream has a line over {MAX_LINE:,} bytes or is over {MAX_ANSWER:,} bytes, "
                "which is too long for an answer",
                maybe_paid=True,
            )
        return [event for line in lines if (event := self._take(line))]

    def close(self) -> list[SseEvent]:
        """Return the event that the end of the stream truncated, if any. Its data may be incomplete."""
        return [event for line in (self._rest, bytearray()) if (event := self._take(line, cut=True))]

    def _take(self, line: bytearray, *, cut: bool = False) -> SseEvent | None:
        """Process a line, and return the event that it completes."""
        line = line.rstrip(b"\r\n").removeprefix(codecs.BOM_UTF8)
        if not line:
            event = SseEvent(self._name, "\n".join(self._data)) if self._data else None
            self._name, self._data = "", []
            return event
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            try:  # the last character of truncated data may be incomplete
                self._data.append(value.decode(errors="replace" if cut else "strict"))
            except UnicodeDecodeError as exc:
                raise AnswerNotUtf8(f"an event of the stream is not UTF-8: {exc}", maybe_paid=True) from exc
        elif field == b"event":
            self._name = value.decode(errors="replace")
        elif field.lstrip().startswith((b"{", b"[")):  # the standard ignores unknown fields; this is data
            raise WorkerBroken("a line of the stream has JSON without `data:`", maybe_paid=True)
        return None
