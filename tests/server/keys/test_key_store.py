"""Keys are stored as hashes, found by their text, rotated and revoked."""

import sqlite3
from pathlib import Path
from time import time

import pytest
from hypothesis import given, strategies as st
from server.keys.conftest import both

from podium.errors import ConfigError
from podium.secrets import scrub
from podium_server.keys import KeyInvalid, KeyRules, KeyStore, Sessions
from podium_server.keys.key import is_token, new_token

pytestmark = pytest.mark.anyio
RULES = KeyRules(
    role="approve",
    models=("mini", "ultra"),
    day_cost=1.5,
    month_cost=20,
    run_cost=0.25,
    requests_per_minute=60,
    tokens_per_minute=10_000,
    concurrency=4,
    labels=("eu",),
    allowed=("a", "b"),
    denied=("c",),
    regions=("eu",),
    steps=3,
    retention_days=30,
)


async def test_a_key_is_found_by_its_text(store: KeyStore) -> None:
    """The store returns all rules of the key."""
    async with store:
        key, token = await store.create("alice", RULES, expires=time() + 60)
        found = await store.find(token)
        assert found is not None
        assert found.key == key
        assert found.key.rules == RULES
        assert await store.find(new_token()) is None
        assert await store.key("alice") == await store.key(key.key_id) == key


async def test_the_text_is_not_stored(tmp_path: Path) -> None:
    """The file of the database has the last four characters of the text only."""
    path = tmp_path / "keys.db"
    _, token = await KeyStore(path).create("alice", KeyRules())
    dump = "\n".join(sqlite3.connect(path).iterdump())
    assert token[-4:] in dump
    assert token[10:30] not in dump


@both
async def test_a_rotated_key_has_another_text(store: KeyStore) -> None:
    """The former text ends after its grace; the key keeps its id and its rules."""
    async with store:
        key, first = await store.create("alice", RULES)
        _, second = await store.rotate("alice", grace=60)
        _, third = await store.rotate("alice")
        ends = []
        for token in (first, second, third):
            found = await store.find(token)
            assert found is not None
            assert found.key == key
            ends.append(found.until)
        assert [end is None for end in ends] == [False, False, True]
        assert all(end is None or end <= time() for end in ends)


async def test_a_revoked_key_cannot_be_rotated(store: KeyStore) -> None:
    """Its key is found with the time of the revocation, which does not change."""
    await store.create("alice", KeyRules())
    await store.revoke("alice")
    first = (await store.key("alice")).revoked
    await store.revoke("alice")
    assert (await store.key("alice")).revoked == first
    with pytest.raises(ConfigError, match="is revoked"):
        await store.rotate("alice")


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ({"day_cost": 0}, "day_cost of a key is 0"),
        ({"month_cost": float("nan")}, "month_cost of a key is nan"),
        ({"requests_per_minute": 0}, "requests_per_minute of a key is 0"),
        ({"retention_days": -1}, "retention_days of a key is -1"),
        ({"models": ("",)}, "an entry of models of a key is"),
        ({"role": "boss"}, "role 'boss' of a key is invalid"),
    ],
)
def test_invalid_rules_are_refused(rules: dict[str, object], told: str) -> None:
    """The error names the rule and its value."""
    with pytest.raises(ConfigError, match=told):
        KeyRules(**rules)  # type: ignore[arg-type]


async def test_a_session_ends_with_its_key(store: KeyStore) -> None:
    """A revoked key ends its sessions; a key that expires sooner limits them."""
    sessions = Sessions(store)
    key, _ = await store.create("alice", KeyRules(), expires=time() + 60)
    begun = await sessions.begin(key)
    assert begun.until == key.expires
    await store.revoke("alice")
    with pytest.raises(KeyInvalid):
        await sessions.find(begun.token)


@given(at=st.integers(0, 58), digit=st.sampled_from("0aZ-é"))
def test_a_mistyped_key_is_recognized(at: int, digit: str) -> None:
    """A key with one wrong character, a cut key and a key with more text are malformed."""
    token = new_token()
    mistyped = token[:at] + digit + token[at + 1 :]
    assert is_token(token)
    assert mistyped == token or not is_token(mistyped)
    assert not is_token(token[:at])
    assert not is_token(token + digit)
    assert token not in scrub(f"the key {token} was refused")
