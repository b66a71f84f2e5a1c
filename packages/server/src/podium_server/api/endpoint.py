"""An ASGI endpoint: counts and logs the request, finds its caller, and turns exceptions into HTTP errors.

A caller has an API key, or the session of a browser. A browser sends the cookie of a session with each
request, and its requests reach a server on this machine. So other web sites could use both. Requests of other
sites are refused by their header `Origin`, and a request that changes something must have the CSRF token of
its session.
"""

import logging
import re
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import replace
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.types import Receive, Scope, Send

from podium.errors import PodiumError
from podium.secrets import scrub
from podium_server.errors import OPENAI_ERRORS, ErrorForm, Fault, fault_of
from podium_server.http import BadRequest, ClientGone, Exchange, InFlight, Stopping, is_loopback
from podium_server.keys import Access, Caller, CsrfMissing, Session
from podium_server.record import (
    CLIENT_GONE,
    STOPPED,
    Metrics,
    Record,
    begin_record,
    current_record,
    log_request,
)
from podium_server.settings import ServerSection

COOKIE = "podium_session"
CSRF_HEADER = "x-podium-csrf"
_SAFE = ("GET", "HEAD", "OPTIONS")


async def caller_of(exchange: Exchange, access: Access) -> Caller:
    """Return the caller of a request."""
    token = token_of(exchange)
    if token is None and (session := await session_of(exchange, access)) is not None:
        return session.caller
    return await access.authenticate(token)


async def session_of(exchange: Exchange, access: Access) -> Session | None:
    """Return the session of a request; `None` if it has no cookie, or the server has no keys."""
    sessions, cookie = access.sessions, cookie_of(exchange)
    if sessions is None or cookie is None:
        return None
    check_origin(exchange)
    session = await sessions.find(cookie)
    if exchange.method not in _SAFE:
        session.check_csrf(exchange.header(CSRF_HEADER))
    return session


def token_of(exchange: Exchange) -> str | None:
    """Return the API key of a request: a bearer token, or the header `x-api-key`."""
    given = exchange.single_header("x-api-key")
    kind, _, token = (exchange.single_header("authorization") or "").partition(" ")
    bearer = token.strip() if kind.lower() == "bearer" else ""
    if bearer and given and bearer != given.strip():
        raise BadRequest("the request has another key in `Authorization` than in `x-api-key`: send one key")
    return bearer or given


def cookie_of(exchange: Exchange) -> str | None:
    """Return the cookie of the session; `None` if there is none."""
    try:
        cookies = SimpleCookie(exchange.header("cookie") or "")
    except CookieError:
        return None
    return cookies[COOKIE].value if COOKIE in cookies else None


def check_local(exchange: Exchange) -> None:
    """Check that a program of this machine sent the request, to a name of this machine.

    A web page can make a browser send requests to this machine, also under a name of its own.
    """
    if not is_loopback(urlsplit(f"//{exchange.header('host') or ''}").hostname or ""):
        told = "a server without API keys answers only requests to localhost: create a key with `podium keys`"
        raise BadRequest(told, status=403, code="host_not_allowed")
    check_origin(exchange)


def check_origin(exchange: Exchange) -> None:
    """Raise `CsrfMissing` if a web page of another site sent the request."""
    origin = exchange.header("origin")
    if origin is not None and urlsplit(origin).netloc != exchange.header("host"):
        raise CsrfMissing(f"a page of {origin!r:.100} must not use this server: use an API key")


LOGGER = logging.getLogger("podium")
_NO_STATUS = 499
"""The status in the log and the metrics of a request that ended before its response began."""
_MOST_ID_CHARS = 200
"""Maximum characters of the id of a run in the log."""
_TRACE, _PROPAGATOR = ("traceparent", "tracestate"), TraceContextTextMapPropagator()
_REQUEST_ID = re.compile(r"[\w.:/=+-]{1,128}", re.ASCII)
Handler = Callable[[Exchange, Caller], Awaitable[None]]
"""Answers a request."""


class Service:
    """What the endpoints of a server share."""

    def __init__(self, access: Access, settings: ServerSection, *, is_local: bool) -> None:
        self.access = access
        self.settings = settings
        self.is_local = is_local
        self.stopping = Stopping()
        self.in_flight = InFlight(settings.requests, self.stopping)
        self.metrics = Metrics(lambda: float(self.in_flight.count))

    def ended(self, record: Record, status: int | None) -> None:
        """Count and log the end of a request."""
        status = _NO_STATUS if status is None else status
        self.metrics.ended(record, status)
        log_request(record, status)


class Endpoint:
    """An ASGI application that answers the requests of one route."""

    def __init__(
        self,
        service: Service,
        method: str,
        path: str,
        handle: Handler,
        errors: ErrorForm = OPENAI_ERRORS,
        *,
        is_open: bool = False,
    ) -> None:
        self._service = service
        self.method = method
        self.path = path
        self.handle = handle
        self._errors = errors
        self.is_open = is_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, in the trace that its `traceparent` names."""
        exchange = Exchange(scope, receive, send, self._service.settings)
        record = begin_record(self.method, self.path)
        if (asked := exchange.header("x-request-id")) is not None and _REQUEST_ID.fullmatch(asked):
            record.request_id = asked
        exchange.request_id, record.run_id = record.request_id, _run_of(exchange)
        named = {name: value for name in _TRACE if (value := exchange.header(name)) is not None}
        facts = {"http.request.method": self.method, "http.route": self.path}
        with trace.get_tracer("podium").start_as_current_span(
            f"{self.method} {self.path}", _PROPAGATOR.extract(named), trace.SpanKind.SERVER, facts
        ) as span:
            await self._exchange(exchange, record)
            span.set_attribute("http.response.status_code", exchange.status or _NO_STATUS)
            if record.code:
                span.set_attribute("error.type", record.code)

    async def _exchange(self, exchange: Exchange, record: Record) -> None:
        code = STOPPED
        try:
            try:
                if self.is_open:
                    await self.handle(exchange, Caller())
                else:
                    await self._answer(exchange, record)
            except ClientGone:
                raise
            except Exception as error:  # noqa: BLE001 - the outermost place; the client and the log get it
                await self._refuse(exchange, error)
            refused = exchange.status is not None and 400 <= exchange.status < 500  # by the SDK of a protocol
            code = BadRequest.code if refused else ""
        except ClientGone:
            code = CLIENT_GONE
        finally:
            record.code = record.code or code
            self._service.ended(record, exchange.status)

    async def _answer(self, exchange: Exchange, record: Record) -> None:
        if self._service.is_local:
            check_local(exchange)
        with self._service.in_flight.counted():
            caller = await caller_of(exchange, self._service.access)
            record.key_id = "" if caller.key is None else caller.key.key_id
            await self.handle(exchange, caller)

    async def _refuse(self, exchange: Exchange, error: Exception) -> None:
        fault = told_fault(error)
        if not exchange.is_begun:
            body, status = self._errors.body(fault), self._errors.status(fault)
            run_id = fault.run_id or exchange.run_id
            named = {"x-podium-run-id": run_id, self._errors.id_header: fault.request_id}
            ids = {name: value for name, value in named.items() if name and value}
            await exchange.json(body, status=status, headers={**fault.headers, **ids})


def _run_of(exchange: Exchange) -> str:
    """Return the run that the path names; empty if it names none."""
    params = exchange.path_params
    named = str(params.get("run_id", params.get("response_id", "")))
    return named.removeprefix("resp_")[:_MOST_ID_CHARS]


def told_fault(error: Exception) -> Fault:
    """Return the HTTP error for an exception, as which the current request ends; see `logged_fault`."""
    fault, record = logged_fault(error), current_record()
    record.code = fault.code
    return replace(fault, request_id=fault.run_id or record.run_id or record.request_id)


def logged_fault(error: Exception) -> Fault:
    """Return the HTTP error for an exception.

    An internal error is logged, and a message from which an address was removed.
    """
    fault = fault_of(error)
    if fault.status == 500:
        LOGGER.error("a request failed\n%s", scrub("".join(traceback.format_exception(error))))
    elif isinstance(error, PodiumError) and fault.message != (told := scrub(str(error))):
        LOGGER.warning("a request failed: %s", told)
    return fault
