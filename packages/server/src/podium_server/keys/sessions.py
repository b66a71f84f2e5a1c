"""Sessions of a browser: a cookie in place of a key, and a second text against requests of other sites.

The browser sends the cookie with every request, also with a request that another site makes. So a request
that changes something must also have the CSRF token, which other sites cannot read.
"""

import hmac
import secrets
from dataclasses import dataclass
from time import time

from podium.journal import Transaction
from podium_server.keys.key import Caller, CsrfMissing, Key, KeyInvalid, token_hash
from podium_server.keys.store import KeyStore

SESSION_SECONDS = 12 * 3600.0
_BYTES = 32
_ADD = "INSERT INTO podium_sessions (hash, key_id, until) VALUES (?, ?, ?)"
_FIND = "SELECT key_id, until FROM podium_sessions WHERE hash = ? AND until > ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session of a browser."""

    token: str
    """The value of the cookie."""
    caller: Caller
    until: float
    """End of the session, in seconds of Unix time."""

    @property
    def csrf_token(self) -> str:
        """The text that a request of this session must have, if it changes something."""
        return hmac.digest(self.token.encode(), b"podium csrf", "sha256").hex()

    def check_csrf(self, given: str | None) -> None:
        """Raise `CsrfMissing` if a text is not the CSRF token."""
        if not hmac.compare_digest((given or "").encode(), self.csrf_token.encode()):
            told = "the session needs its CSRF token in the header `x-podium-csrf`"
            raise CsrfMissing(f"{told}: GET /session returns the token")


class Sessions:
    """The sessions in the database of the keys.

    Args:
        store: the keys.
    """

    def __init__(self, store: KeyStore) -> None:
        self._store = store

    async def begin(self, key: Key) -> Session:
        """Begin a session of a key. It ends after 12 hours, or with the key."""
        token, now = secrets.token_urlsafe(_BYTES), time()
        until = now + SESSION_SECONDS
        if key.expires is not None:
            until = min(until, key.expires)

        async def add(transaction: Transaction) -> None:
            await transaction.execute("DELETE FROM podium_sessions WHERE until < ?", now)
            await transaction.execute(_ADD, token_hash(token), key.key_id, until)

        await self._store.transaction(add)
        return Session(token=token, caller=Caller(key), until=until)

    async def find(self, token: str) -> Session:
        """Return the session with this cookie.

        Raises:
            KeyInvalid: there is no such session, or it has ended.
        """
        digest, now = token_hash(token), time()
        rows = await self._store.transaction(lambda each: each.fetch(_FIND, digest, now), reads=True)
        if not rows:
            raise KeyInvalid("the session has ended: log in with your API key")
        key = await self._store.key(rows[0]["key_id"])
        if key.revoked is not None:
            raise KeyInvalid("the API key of the session is revoked")
        return Session(token=token, caller=Caller(key), until=rows[0]["until"])

    async def end(self, token: str) -> None:
        """End a session."""
        digest = token_hash(token)
        await self._store.transaction(
            lambda each: each.execute("DELETE FROM podium_sessions WHERE hash = ?", digest)
        )
