"""Finds the caller of a request: by an API key, or by the session of a browser.

A browser sends the cookie of a session with each request, and its requests reach a server on this machine.
So other web sites could use both. Requests of other sites are refused by their header `Origin`, and a request
that changes something must have the CSRF token of its session.
"""

from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from podium_server.http import BadRequest, Exchange, is_loopback
from podium_server.keys import Access, Caller, CsrfMissing, Session

COOKIE = "podium_session"
CSRF_HEADER = "x-podium-csrf"
_SAFE = ("GET", "HEAD", "OPTIONS")


async def caller_of(exchange: Exchange, access: Access) -> Caller:
    """Return the caller of a request.

    Raises:
        KeyInvalid: there is no key, or the key or the session is invalid.
        CsrfMissing: a request of a session comes from another site, or has no CSRF token.
    """
    token = token_of(exchange)
    if token is None and (session := await session_of(exchange, access)) is not None:
        return session.caller
    return await access.authenticate(token)


async def session_of(exchange: Exchange, access: Access) -> Session | None:
    """Return the session of a request; `None` if it has no cookie, or the server has no keys.

    Raises:
        KeyInvalid: the session is unknown, or has ended.
        CsrfMissing: the request changes something, and has no CSRF token.
    """
    sessions, cookie = access.sessions, cookie_of(exchange)
    if sessions is None or cookie is None:
        return None
    check_origin(exchange)
    session = await sessions.find(cookie)
    if exchange.method not in _SAFE:
        session.check_csrf(exchange.header(CSRF_HEADER))
    return session


def token_of(exchange: Exchange) -> str | None:
    """Return the API key of a request: a bearer token, or the header `x-api-key`.

    Raises:
        BadRequest: the request has one of the headers more than once, or two keys.
    """
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

    Raises:
        BadRequest: the request was sent to another name.
        CsrfMissing: another site sent the request.
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
