"""`/v1/keys`: an admin creates, lists, changes, rotates and revokes keys, and reads the log of changes."""

from collections.abc import Sequence
from dataclasses import asdict
from time import time
from typing import Any, Literal

import anyio.to_thread
from pydantic import BaseModel, Field

from podium.config import Config
from podium.errors import ConfigError
from podium.hosts.completions import Body
from podium_server.api.bodies import read_body
from podium_server.http import BadRequest, Exchange
from podium_server.keys import BILLION, Access, Caller, Key, KeyRules, KeyStore, check_policy
from podium_server.keys.account import day_of
from podium_server.keys.changes import Change
from podium_server.keys.key_store import Day
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
    """Manages keys for callers with the role `admin`.

    Args:
        access: has the keys.
        catalogue: the models that keys may name.
        config: has the workers and labels that keys may name.
    """

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
        await _send(exchange, KeyChanges(data=[_change(each) for each in changes]))

    def _store(self, caller: Caller) -> KeyStore:
        """Return the keys, for an admin.

        Raises:
            BadRequest: the server has no keys.
            RoleMissing: the caller is not an admin.
        """
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
    shown = None if days is None else [_day(day) for day in days]
    return KeyDetail(id=facts.pop("key_id"), **facts, days=shown, key=token)


def _day(day: Day) -> KeyDay:
    return KeyDay(**asdict(day) | {"cost": day.cost / BILLION})


def _change(change: Change) -> KeyChange:
    return KeyChange(**asdict(change))
