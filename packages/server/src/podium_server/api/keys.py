"""The keys of a server: an admin manages them, a caller reads its own, and a browser logs in with one."""

from collections.abc import Sequence
from dataclasses import asdict
from email.utils import formatdate
from time import time
from typing import Any, Literal

import anyio.to_thread
from pydantic import BaseModel, Field

from podium.config import Config
from podium.errors import ConfigError
from podium.hosts.completions import Body
from podium_server.api.endpoint import COOKIE, check_origin, session_of
from podium_server.http import BadRequest, Exchange
from podium_server.http.exchange import read_body
from podium_server.keys import (
    BILLION,
    Access,
    Caller,
    Key,
    KeyInvalid,
    KeyRules,
    KeyStore,
    Period,
    Role,
    Session,
    check_policy,
)
from podium_server.keys.account import day_of
from podium_server.keys.store import Day
from podium_server.models import Catalogue

PATH = "/v1/keys"
_SHOWN_SECONDS = 31 * 86_400.0


class ChangedKey(Body):
    """The body of a change of a key: all its rules."""

    rules: KeyRules = Field(default_factory=KeyRules, description="A rule that is left out limits nothing.")
    expires: float | None = Field(None, description="In seconds of Unix time; null for no end.")


class NewKey(ChangedKey):
    """The body of a new key."""

    name: str = Field(description="A new name, for people.")


class Rotation(Body):
    """The body of a rotation."""

    grace_seconds: float = Field(0.0, ge=0, description="How long the former text stays valid.")


class KeyDay(BaseModel):
    """What a key spent on a day."""

    day: str = Field(description="In UTC.")
    cost: float = Field(description="In USD.")
    requests: int
    input_tokens: int
    output_tokens: int
    estimated_tokens: int


class KeyDetail(BaseModel):
    """A key, without its text."""

    object: Literal["key"] = "key"
    id: str
    name: str
    rules: dict[str, Any]
    created: float = Field(description="In seconds of Unix time, like the next three.")
    expires: float | None
    revoked: float | None
    last_used: float | None
    days: list[KeyDay] | None = Field(None, description="What it spent in the last 31 days, in one key.")
    key: str | None = Field(None, description="The text of a new or rotated key: it is shown only once.")


class KeyList(BaseModel):
    """All keys, by name."""

    object: Literal["list"] = "list"
    data: list[KeyDetail]


class KeyChange(BaseModel):
    """A change of a key."""

    at: float = Field(description="In seconds of Unix time.")
    who: str
    what: str
    key_id: str
    details: str


class KeyChanges(BaseModel):
    """The log of the changes of keys, oldest first."""

    object: Literal["list"] = "list"
    data: list[KeyChange]


class KeysApi:
    """Manages keys for callers with the role `admin`."""

    def __init__(self, access: Access, catalogue: Catalogue, config: Config) -> None:
        self._access = access
        self._catalogue = catalogue
        self._config = config

    async def list(self, exchange: Exchange, caller: Caller) -> None:
        """List the keys."""
        keys = await self._store(caller).keys()
        await _send(exchange, KeyList(data=[_detail(key) for key in keys]))

    async def create(self, exchange: Exchange, caller: Caller) -> None:
        """Create a key."""
        store, asked = self._store(caller), read_body(await exchange.body(), NewKey)
        await self._check(asked.rules)
        key, token = await store.create(asked.name, asked.rules, expires=asked.expires, by=caller.caller_id)
        await _send(exchange, _detail(key, token=token), status=201)

    async def show(self, exchange: Exchange, caller: Caller) -> None:
        """Show a key, with what it spent each day."""
        store = self._store(caller)
        key = await _key(store, exchange)
        days = await store.days(key.key_id, day_of(time() - _SHOWN_SECONDS))
        await _send(exchange, _detail(key, days))

    async def update(self, exchange: Exchange, caller: Caller) -> None:
        """Replace the rules and the end of a key."""
        store, asked = self._store(caller), read_body(await exchange.body(), ChangedKey)
        key = await _key(store, exchange)
        await self._check(asked.rules)
        changed = await store.update(key.key_id, asked.rules, expires=asked.expires, by=caller.caller_id)
        await _send(exchange, _detail(changed))

    async def rotate(self, exchange: Exchange, caller: Caller) -> None:
        """Give a key a new text."""
        store, asked = self._store(caller), read_body(await exchange.body(), Rotation)
        key = await _key(store, exchange)
        key, token = await store.rotate(key.key_id, grace=asked.grace_seconds, by=caller.caller_id)
        await _send(exchange, _detail(key, token=token))

    async def revoke(self, exchange: Exchange, caller: Caller) -> None:
        """Revoke a key."""
        store = self._store(caller)
        key = await _key(store, exchange)
        await store.revoke(key.key_id, by=caller.caller_id)
        await _send(exchange, _detail(await _key(store, exchange)))

    async def changes(self, exchange: Exchange, caller: Caller) -> None:
        """Show who changed which key when."""
        changes = await self._store(caller).changes()
        await _send(exchange, KeyChanges(data=[KeyChange(**asdict(each)) for each in changes]))

    def _store(self, caller: Caller) -> KeyStore:
        """Return the keys, for an admin."""
        if (store := self._access.store) is None:
            told = "the server has no API keys: create the first with `podium keys create --role admin`"
            raise BadRequest(told, status=404, code="no_keys")
        caller.check_role("admin")
        return store

    async def _check(self, rules: KeyRules) -> None:
        """Raise `ConfigError` if the rules name a model, worker or label that does not exist."""
        known = [model.name for model in self._catalogue]
        if unknown := [name for name in rules.models or () if name not in known]:
            raise ConfigError(f"there is no model {unknown[0]!r}: the models are {', '.join(known)}")
        if rules.policy is not None or rules.labels:
            await anyio.to_thread.run_sync(check_policy, self._config, rules)


async def _key(store: KeyStore, exchange: Exchange) -> Key:
    name = str(exchange.path_params["key"])
    try:
        return await store.key(name)
    except ConfigError as error:
        raise BadRequest(f"there is no key {name!r:.200}", status=404, code="key_not_found") from error


async def _send(exchange: Exchange, shown: BaseModel, status: int = 200) -> None:
    await exchange.json(shown.model_dump(), status=status, headers={"cache-control": "no-store"})


def _detail(key: Key, days: Sequence[Day] | None = None, token: str | None = None) -> KeyDetail:
    facts: dict[str, Any] = asdict(key)
    shown = None if days is None else [KeyDay(**asdict(day) | {"cost": day.cost / BILLION}) for day in days]
    return KeyDetail(id=facts.pop("key_id"), **facts, days=shown, key=token)


class Budget(BaseModel):
    """A budget of a key, in USD."""

    period: Literal["day", "month"]
    most: float
    spent: float
    reserved: float = Field(description="The reservations of running requests.")
    ends: float = Field(description="When the next day or month begins, in seconds of Unix time.")


class OwnKey(BaseModel):
    """The key of a request."""

    object: Literal["key"] = "key"
    id: str
    name: str
    role: Role
    models: list[str] | None = Field(description="The models that the key may call; null for all.")
    expires: float | None = Field(description="In seconds of Unix time; null if it has no end.")
    budgets: list[Budget] = Field(description="Empty if the key has no budget of a day or month.")


class OwnKeyApi:
    """Shows callers their keys."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def show(self, exchange: Exchange, caller: Caller) -> None:
        """Show the key of the request or of the session."""
        key = caller.key
        if key is None:
            raise BadRequest("the server has no API keys", status=404, code="no_keys")
        rules = key.rules
        shown = OwnKey(
            id=key.key_id,
            name=key.name,
            role=rules.role,
            models=None if rules.models is None else list(rules.models),
            expires=key.expires,
            budgets=[_budget(period) for period in await self._access.budgets(caller)],
        )
        await exchange.json(shown.model_dump(), headers={"cache-control": "no-store"})


def _budget(period: Period) -> Budget:
    return Budget(
        period=period.name,
        most=period.most / BILLION,
        spent=period.spent / BILLION,
        reserved=period.reserved / BILLION,
        ends=period.end,
    )


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
