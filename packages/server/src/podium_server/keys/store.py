"""Creates, finds, lists, rotates and revokes keys in a database, which has a log of these changes.

Costs are whole billionths of a dollar, so that sums are exact. Days are in UTC, as in 2026-11-30.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import time
from typing import Any
from uuid import uuid4

from podium.errors import ConfigError, JournalBroken
from podium.journal import Location, Schema, SqlJournal, SqlTables, Transaction
from podium.journal.journal import ROOT, link
from podium.types.codec import read_record, write_record
from podium_server.keys.key import Key, KeyRules, new_token, token_hash

SCHEMA = Schema(
    "keys",
    [
        [
            """
            CREATE TABLE podium_keys (
                key_id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, rules TEXT NOT NULL,
                created DOUBLE PRECISION NOT NULL, expires DOUBLE PRECISION, revoked DOUBLE PRECISION,
                last_used DOUBLE PRECISION, requests_left DOUBLE PRECISION, tokens_left DOUBLE PRECISION,
                filled DOUBLE PRECISION
            )
            """,
            """
            CREATE TABLE podium_key_tokens (
                hash TEXT PRIMARY KEY, key_id TEXT NOT NULL, hint TEXT NOT NULL,
                created DOUBLE PRECISION NOT NULL, expires DOUBLE PRECISION
            )
            """,
            "CREATE INDEX podium_key_tokens_key ON podium_key_tokens (key_id)",
            """
            CREATE TABLE podium_key_days (
                key_id TEXT NOT NULL, day TEXT NOT NULL, cost BIGINT NOT NULL, requests BIGINT NOT NULL,
                input_tokens BIGINT NOT NULL, output_tokens BIGINT NOT NULL, PRIMARY KEY (key_id, day)
            )
            """,
            """
            CREATE TABLE podium_turns (
                turn_id TEXT PRIMARY KEY, key_id TEXT NOT NULL, run_id TEXT NOT NULL, day TEXT NOT NULL,
                cost BIGINT NOT NULL, holder TEXT, began DOUBLE PRECISION NOT NULL,
                forget_at DOUBLE PRECISION
            )
            """,
            "CREATE INDEX podium_turns_run ON podium_turns (run_id)",
            "CREATE INDEX podium_turns_open ON podium_turns (key_id) WHERE holder IS NOT NULL",
            "CREATE INDEX podium_turns_forget ON podium_turns (forget_at) WHERE forget_at IS NOT NULL",
            "CREATE TABLE podium_key_holders (holder TEXT PRIMARY KEY, until DOUBLE PRECISION NOT NULL)",
            """
            CREATE TABLE podium_sessions (
                hash TEXT PRIMARY KEY, key_id TEXT NOT NULL, until DOUBLE PRECISION NOT NULL
            )
            """,
        ],
        [
            f"ALTER TABLE {table} ADD COLUMN {column} BIGINT NOT NULL DEFAULT 0"
            for table, column in (
                ("podium_turns", "input_tokens"),
                ("podium_turns", "output_tokens"),
                ("podium_turns", "estimated_tokens"),
                ("podium_key_days", "estimated_tokens"),
            )
        ],
        ["CREATE INDEX podium_turns_key ON podium_turns (key_id, began, run_id)"],
        [
            """
            CREATE TABLE podium_key_changes (
                number BIGINT PRIMARY KEY, at DOUBLE PRECISION NOT NULL, text TEXT NOT NULL,
                hash TEXT NOT NULL
            )
            """
        ],
        ["DROP TABLE podium_key_holders"],  # a process has one lease, in the table of the journal
    ],
)
"""The tables.

`podium_turns` has a row for each admitted request. While the request runs, `cost` is its reservation and
`holder` the process that runs it. After its end, `cost` and the tokens are its charge and `holder` is NULL.
`estimated_tokens` is a part of the other tokens. The buckets of the rate limits are `requests_left` and
`tokens_left` at the time `filled`; NULL means full.
"""


COMMAND = "command line"
"""Who makes a change without an API key."""
_CHAIN = "keys"
"""What the hashes of the log have in place of the id of a run."""
_LAST = "SELECT number, hash FROM podium_key_changes ORDER BY number DESC LIMIT 1"
_ADD_CHANGE = "INSERT INTO podium_key_changes (number, at, text, hash) VALUES (?, ?, ?, ?)"
_ALL = "SELECT number, at, text, hash FROM podium_key_changes ORDER BY number"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of a key."""

    at: float
    """Seconds of Unix time."""
    who: str
    """The id of an admin's key, or `COMMAND` with the name of the user."""
    what: str
    """`create`, `update`, `rotate` or `revoke`."""
    key_id: str
    details: str = ""
    """The rules that it set, as JSON."""


async def add_change(transaction: Transaction, key_id: str, what: str, who: str, details: str = "") -> None:
    """Add a change that the transaction makes."""
    last: Sequence[Any] = await transaction.fetch(_LAST)
    number, before = (last[0]["number"] + 1, last[0]["hash"]) if last else (0, ROOT)
    at = time()
    text = write_record(Change(at=at, who=who, what=what, key_id=key_id, details=details), "change")
    await transaction.execute(_ADD_CHANGE, number, at, text, link(before, _CHAIN, number, at, text))


async def read_changes(transaction: Transaction) -> Sequence[Change]:
    """Return all changes, oldest first."""
    found, before = [], ROOT
    for place, row in enumerate(await transaction.fetch(_ALL)):
        if row["number"] != place or row["hash"] != link(before, _CHAIN, place, row["at"], row["text"]):
            raise JournalBroken(f"change {place} in the log of the API keys was altered, or is missing")
        before = row["hash"]
        found.append(read_record(row["text"], Change, "change"))
    return found


_RECORD = "key"
_HINT = 4
"""Number of the last characters of a key that are stored, so that users can tell keys apart."""

_COLUMNS = "key_id, name, rules, created, expires, revoked, last_used"
_SELECT = f"SELECT {_COLUMNS} FROM podium_keys"  # noqa: S608 - no value from outside
_BY_HASH = f"""
SELECT {", ".join(f"k.{column}" for column in _COLUMNS.split(", "))}, t.expires AS token_expires
FROM podium_key_tokens AS t JOIN podium_keys AS k ON k.key_id = t.key_id WHERE t.hash = ?
"""  # noqa: S608 - as above
_ADD = "INSERT INTO podium_keys (key_id, name, rules, created, expires) VALUES (?, ?, ?, ?, ?)"
_ADD_TEXT = """
INSERT INTO podium_key_tokens (hash, key_id, hint, created, expires) VALUES (?, ?, ?, ?, NULL)
"""
_END_TEXTS = """
UPDATE podium_key_tokens SET expires = ? WHERE key_id = ? AND hash <> ? AND (expires IS NULL OR expires > ?)
"""
_TOKENS = "SELECT hint, created, expires FROM podium_key_tokens WHERE key_id = ? ORDER BY created"
_DAYS = """
SELECT day, cost, requests, input_tokens, output_tokens, estimated_tokens FROM podium_key_days
WHERE key_id = ? AND day >= ? ORDER BY day
"""


_AT_ONCE = 500
_PRUNE = f"""
DELETE FROM podium_turns WHERE turn_id IN (
    SELECT turn_id FROM podium_turns AS turn WHERE key_id = ? AND began < ? AND holder IS NULL
    AND NOT EXISTS (SELECT 1 FROM podium_runs AS run WHERE run.run_id = turn.run_id)
    ORDER BY began LIMIT {_AT_ONCE}
)
"""  # noqa: S608 - no value from outside


@dataclass(frozen=True, slots=True)
class Found:
    """A key, and when the text that was given ends."""

    key: Key
    until: float | None
    """Seconds of Unix time; `None` if neither the key nor its text has an end."""


@dataclass(frozen=True, slots=True)
class Token:
    """A valid or former text of a key."""

    hint: str
    """Its last characters."""
    created: float
    expires: float | None


@dataclass(frozen=True, slots=True)
class Day:
    """What a key spent on one day."""

    day: str
    """In UTC, as in 2026-11-30."""
    cost: int
    """In billionths of a dollar."""
    requests: int
    input_tokens: int
    output_tokens: int
    estimated_tokens: int
    """The part of the tokens that is estimated."""


class KeyStore(SqlTables):
    """The keys in the database of a journal.

    Args:
        journal: the journal, whose lease counts for reservations, too; or its location, see `SqlJournal`.
        patience: how long to retry while the database fails, in seconds.
    """

    def __init__(self, journal: SqlJournal | Location = None, *, patience: float = 5.0) -> None:
        self.journal = journal if isinstance(journal, SqlJournal) else SqlJournal(journal)
        super().__init__(SCHEMA, self.journal.url, patience=patience)

    async def create(
        self, name: str, rules: KeyRules, *, expires: float | None = None, by: str = COMMAND
    ) -> tuple[Key, str]:
        """Create a key, and return it with its text, which is stored nowhere.

        Args:
            name: a new name.
            rules: what the key may do.
            expires: its end, in seconds of Unix time; `None` if it has none.
            by: who does it, for the log, here and in the other methods.

        Raises:
            ConfigError: another key has this name.
            JournalError: the database cannot be used.
        """
        if not name.strip() or not name.isprintable():
            raise ConfigError(f"name {name!r:.80} of a key is invalid: write printable characters")
        token = new_token()
        key = Key(key_id=uuid4().hex[:12], name=name, rules=rules, created=time(), expires=expires)
        text = write_record(rules, _RECORD)

        async def add(transaction: Transaction) -> bool:
            if await transaction.fetch("SELECT 1 FROM podium_keys WHERE name = ?", name):
                return False
            await transaction.execute(_ADD, key.key_id, name, text, key.created, expires)
            await _add_text(transaction, key.key_id, token)
            await add_change(transaction, key.key_id, "create", by, text)
            return True

        if not await self.transaction(add):
            raise ConfigError(f"a key named {name!r} exists: choose another name, or `podium keys rotate` it")
        return key, token

    async def find(self, token: str) -> Found | None:
        """Return the key with this text; `None` if there is none."""
        digest = token_hash(token)
        rows = await self.transaction(lambda transaction: transaction.fetch(_BY_HASH, digest), reads=True)
        if not rows:
            return None
        key = _key(rows[0])
        ends = [end for end in (key.expires, rows[0]["token_expires"]) if end is not None]
        return Found(key, min(ends, default=None))

    async def keys(self) -> Sequence[Key]:
        """Return all keys, by name."""
        query = f"{_SELECT} ORDER BY name"
        return [_key(row) for row in await self.transaction(lambda each: each.fetch(query), reads=True)]

    async def key(self, name: str) -> Key:
        """Return the key with this name or id.

        Raises:
            ConfigError: there is none.
        """
        query = f"{_SELECT} WHERE name = ? OR key_id = ?"
        rows = await self.transaction(lambda each: each.fetch(query, name, name), reads=True)
        if not rows:
            raise ConfigError(f"there is no key {name!r}: `podium keys list` lists the keys")
        return _key(rows[0])

    async def by_id(self, key_id: str) -> Key | None:
        """Return the key with this id; `None` if there is none."""
        query = f"{_SELECT} WHERE key_id = ?"
        rows = await self.transaction(lambda each: each.fetch(query, key_id), reads=True)
        return _key(rows[0]) if rows else None

    async def tokens(self, key_id: str) -> Sequence[Token]:
        """Return the valid and former texts of a key, oldest first."""
        rows = await self.transaction(lambda each: each.fetch(_TOKENS, key_id), reads=True)
        return [Token(row["hint"], row["created"], row["expires"]) for row in rows]

    async def days(self, key_id: str, since: str) -> Sequence[Day]:
        """Return what a key spent on each day since a day."""
        rows = await self.transaction(lambda each: each.fetch(_DAYS, key_id, since), reads=True)
        return [Day(**dict(row)) for row in rows]

    async def prune(self, before: float) -> int:
        """Delete the rows of requests that began before a time and whose run does not exist.

        Requests that run are kept. Budgets do not need the others, because they have the sums of each day.

        Returns:
            The number of deleted rows.
        """
        deleted = 0
        for key in await self.keys():
            count = _AT_ONCE
            while count == _AT_ONCE:
                count = await self.transaction(
                    lambda each, key_id=key.key_id: each.execute(_PRUNE, key_id, before)  # type: ignore[misc]
                )
                deleted += count
        return deleted

    async def update(self, name: str, rules: KeyRules, *, expires: float | None, by: str = COMMAND) -> Key:
        """Replace the rules and the end of a key, and return it. Running requests keep the former rules.

        Raises:
            ConfigError: there is no such key, or it is revoked.
        """
        key, text = await self.key(name), write_record(rules, _RECORD)
        if key.revoked is not None:
            raise ConfigError(f"the key {key.name!r} is revoked: create another")

        async def update(transaction: Transaction) -> None:
            await transaction.execute(
                "UPDATE podium_keys SET rules = ?, expires = ? WHERE key_id = ?", text, expires, key.key_id
            )
            await add_change(transaction, key.key_id, "update", by, text)

        await self.transaction(update)
        return replace(key, rules=rules, expires=expires)

    async def changes(self) -> Sequence[Change]:
        """Return all changes of keys, oldest first.

        Raises:
            JournalBroken: a change was altered or deleted.
        """
        return await self.transaction(read_changes, reads=True)

    async def revoke(self, name: str, *, by: str = COMMAND) -> Key:
        """Revoke a key: new requests are refused at once, and running requests end as usual.

        Raises:
            ConfigError: there is no such key.
        """
        key = await self.key(name)
        at = time()

        async def revoke(transaction: Transaction) -> None:
            await transaction.execute(
                "UPDATE podium_keys SET revoked = coalesce(revoked, ?) WHERE key_id = ?", at, key.key_id
            )
            await transaction.execute("DELETE FROM podium_sessions WHERE key_id = ?", key.key_id)
            await add_change(transaction, key.key_id, "revoke", by)

        await self.transaction(revoke)
        return key

    async def rotate(self, name: str, *, grace: float = 0.0, by: str = COMMAND) -> tuple[Key, str]:
        """Give a key a new text, and return it.

        Args:
            name: name or id of the key.
            grace: seconds for which the former text stays valid.
            by: see `create`.

        Raises:
            ConfigError: there is no such key, or it is revoked.
        """
        key, token, at = await self.key(name), new_token(), time()
        if key.revoked is not None:
            raise ConfigError(f"the key {key.name!r} is revoked: create another")

        async def rotate(transaction: Transaction) -> None:
            await _add_text(transaction, key.key_id, token)
            end = at + grace
            await transaction.execute(_END_TEXTS, end, key.key_id, token_hash(token), end)
            await add_change(transaction, key.key_id, "rotate", by)

        await self.transaction(rotate)
        return key, token


async def _add_text(transaction: Transaction, key_id: str, token: str) -> None:
    await transaction.execute(_ADD_TEXT, token_hash(token), key_id, token[-_HINT:], time())


def _key(row: object) -> Key:
    facts = dict(row)  # type: ignore[call-overload]  # a row of either driver
    rules: KeyRules = read_record(facts["rules"], KeyRules, _RECORD)
    names = ("key_id", "name", "created", "expires", "revoked", "last_used")
    return Key(rules=rules, **{name: facts[name] for name in names})
