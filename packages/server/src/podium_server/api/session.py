"""`/session`: a browser logs in with an API key, and gets a cookie."""

from email.utils import formatdate
from typing import Literal

from pydantic import BaseModel, Field

from podium.hosts.completions import Body
from podium_server.api.bodies import read_body
from podium_server.api.endpoint import COOKIE, check_origin, session_of
from podium_server.http import BadRequest, Exchange
from podium_server.keys import Access, Caller, KeyInvalid, Role, Session


class Login(Body):
    """The body of `POST /session`."""

    key: str


class SessionState(BaseModel):
    """Whether a browser may use the server, and with which key."""

    state: Literal["open", "login", "begun"] = Field(
        description="`open`: the server has no keys. `login`: there is no session. `begun`: there is one."
    )
    reads_only: bool = Field(default=False, description="Whether the server shows runs and changes nothing.")
    key: str | None = Field(default=None, description="The name of the key, as the rest only of a session.")
    key_id: str | None = None
    role: Role | None = None
    csrf: str | None = Field(default=None, description="The CSRF token of the session.")
    expires: float | None = Field(default=None, description="The end of the session, in Unix time.")


class SessionApi:
    """The sessions of browsers."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def begin(self, exchange: Exchange, _: Caller) -> None:
        """Begin a session with the key in the body."""
        check_origin(exchange)
        sessions = self._access.sessions
        if sessions is None:
            raise BadRequest("the server has no API keys, so it needs no session", code="no_keys")
        caller = await self._access.authenticate(read_body(await exchange.body(), Login).key)
        assert caller.key is not None
        session = await sessions.begin(caller.key)
        end = formatdate(session.until, usegmt=True)
        cookie = f"{COOKIE}={session.token}; {_attributes(exchange)}; Expires={end}"
        told = _told(session).model_dump()
        await exchange.json(told, headers={"set-cookie": cookie, "cache-control": "no-store"})

    async def show(self, exchange: Exchange, _: Caller) -> None:
        """Show the session with its CSRF token, or that there is none."""
        if self._access.sessions is None:
            state = SessionState(state="open")
        else:
            try:
                state = _told(await self._session(exchange))
            except KeyInvalid:
                state = SessionState(state="login")
        await exchange.json(state.model_dump(), headers={"cache-control": "no-store"})

    async def end(self, exchange: Exchange, _: Caller) -> None:
        """End the session."""
        session, sessions = await self._session(exchange), self._access.sessions
        assert sessions is not None
        await sessions.end(session.token)
        await exchange.json({}, headers={"set-cookie": f"{COOKIE}=; {_attributes(exchange)}; Max-Age=0"})

    async def _session(self, exchange: Exchange) -> Session:
        session = await session_of(exchange, self._access)
        if session is None:
            raise KeyInvalid("there is no session: log in with POST /session")
        return session


def _attributes(exchange: Exchange) -> str:
    secure = "; Secure" if exchange.scheme == "https" else ""
    return f"Path=/; HttpOnly; SameSite=Strict{secure}"


def _told(session: Session) -> SessionState:
    key = session.caller.key
    assert key is not None
    return SessionState(
        state="begun",
        key=key.name,
        key_id=key.key_id,
        role=key.rules.role,
        csrf=session.csrf_token,
        expires=session.until,
    )
