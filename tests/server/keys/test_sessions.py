"""Sessions of a browser in place of a key."""

from time import time

import pytest

from podium_server.keys import CsrfMissing, KeyInvalid, KeyRules, KeyStore, Sessions

pytestmark = pytest.mark.anyio


async def test_a_session_has_the_role_of_its_key(store: KeyStore) -> None:
    """It is found by its cookie until it is ended."""
    sessions = Sessions(store)
    key, _ = await store.create("alice", KeyRules(role="approve"))
    begun = await sessions.begin(key)
    found = await sessions.find(begun.token)
    assert found == begun
    assert (found.caller.may("approve"), found.caller.may("admin")) == (True, False)
    assert found.until == pytest.approx(time() + 12 * 3600, abs=60)
    await sessions.end(begun.token)
    with pytest.raises(KeyInvalid, match="the session has ended"):
        await sessions.find(begun.token)


async def test_a_session_ends_with_its_key(store: KeyStore) -> None:
    """A revoked key ends its sessions; a key that expires sooner limits them."""
    sessions = Sessions(store)
    key, _ = await store.create("alice", KeyRules(), expires=time() + 60)
    begun = await sessions.begin(key)
    assert begun.until == key.expires
    await store.revoke("alice")
    with pytest.raises(KeyInvalid):
        await sessions.find(begun.token)


async def test_a_request_needs_the_csrf_token(store: KeyStore) -> None:
    """The token of another session, and no token, are refused."""
    sessions = Sessions(store)
    key, _ = await store.create("alice", KeyRules())
    first, second = await sessions.begin(key), await sessions.begin(key)
    first.check_csrf(first.csrf_token)
    for wrong in (None, "", "é", second.csrf_token, first.token):
        with pytest.raises(CsrfMissing, match="x-podium-csrf"):
            first.check_csrf(wrong)


async def test_a_session_that_does_not_exist(store: KeyStore) -> None:
    """Any other cookie is refused."""
    with pytest.raises(KeyInvalid):
        await Sessions(store).find("wrong")
