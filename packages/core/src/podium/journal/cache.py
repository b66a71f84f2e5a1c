"""Caches of answers: the interface, one in memory, and one in a database."""

import json
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from time import time
from weakref import WeakKeyDictionary

import anyio

from podium.aio.loops import LoopLocal, ResourceGroup
from podium.errors import ConfigError, JournalBroken, PodiumError
from podium.journal.sql.database import Transaction
from podium.journal.sql.tables import Location, Schema, SqlTables
from podium.secrets import Boundary, scrub
from podium.types.codec import read_record, write_record
from podium.types.messages import Completion, Message, Sampling

_log = logging.getLogger(__name__)


def answer_key(identity: str, messages: Sequence[Message], sampling: Sampling) -> str:
    """Return the key of a call, from the identity of the worker and what it is sent."""
    told = [identity, [message.to_wire() for message in messages], repr(sampling)]
    return sha256(json.dumps(told, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


class Cache(ResourceGroup, ABC):
    """Stores answers by the content of the call.

    Only complete answers are stored: the finish reason is `stop`, and nothing is missing. So steps that make
    the same call of the same worker get the same answer.
    """

    @abstractmethod
    async def get(self, key: str) -> Completion | None:
        """Return the answer for a key; `None` if there is none."""

    @abstractmethod
    async def put(self, key: str, answer: Completion) -> None:
        """Store an answer, which replaces the answer for the same key."""

    async def stored(self, key: str) -> tuple[float, Completion] | None:
        """Return when the answer for a key was stored, in seconds of Unix time, and the answer, for an audit.

        Raises:
            JournalBroken: the stored answer was changed.
        """
        del key
        return None


class MemoryCache(Cache):
    """Stores the most recently used answers in the memory of this process.

    Args:
        size: maximum number of answers.

    Raises:
        ConfigError: the size is below 1.
    """

    def __init__(self, size: int = 10_000) -> None:
        if size < 1:
            raise ConfigError(f"MemoryCache: size is {size!r}: it must be 1 or more")
        self.size = size
        self._answers: dict[str, Completion] = {}
        """Ordered from the least to the most recently used answer."""

    def __len__(self) -> int:
        return len(self._answers)

    async def get(self, key: str) -> Completion | None:
        """Return the answer for a key; `None` if there is none, or if it was dropped."""
        # Pop and insert are safe between threads: another thread only misses the answer.
        answer = self._answers.pop(key, None)
        if answer is not None:
            self._answers[key] = answer
        return answer

    async def put(self, key: str, answer: Completion) -> None:
        """Store an answer; if there are too many, drop the least recently used answer."""
        self._answers.pop(key, None)
        self._answers[key] = answer
        if len(self._answers) > self.size:
            self._answers.pop(next(iter(self._answers)), None)


async def look_up(cache: Cache, key: str) -> Completion | None:
    """Return the answer for a key; `None` if there is none or the cache fails, which is logged."""
    try:
        with Boundary("the cache", PodiumError):
            return await cache.get(key)
    except PodiumError:
        _log.warning("the cache could not be read: the worker is called", exc_info=True)
        return None


async def remember(cache: Cache, key: str, answer: Completion) -> None:
    """Store a complete answer. A failure of the cache is logged, and does not fail the step."""
    if answer.finish_reason != "stop" or answer.missing is not None:
        return
    try:
        with Boundary("the cache", PodiumError):
            await cache.put(key, answer)
    except PodiumError:
        _log.warning("the cache could not be written: an answer is not stored", exc_info=True)


_Asking = dict[str, anyio.Lock]
_asking: WeakKeyDictionary[Cache, LoopLocal[_Asking]] = WeakKeyDictionary()


@asynccontextmanager
async def asking(cache: Cache, key: str) -> AsyncGenerator[None, None]:
    """Hold a lock on a key: one task of this event loop makes the call, the others wait for its answer."""
    locks = _asking.setdefault(cache, LoopLocal(dict)).get()
    lock = locks.setdefault(key, anyio.Lock(fast_acquire=True))
    try:
        async with lock:
            yield
    finally:
        if not lock.statistics().tasks_waiting and not lock.locked():
            locks.pop(key, None)


_TYPE = "completion"
_SCHEMA = Schema(
    "cache",
    [
        [
            """
            CREATE TABLE podium_cache (
                key TEXT PRIMARY KEY, at DOUBLE PRECISION NOT NULL, text TEXT NOT NULL, hash TEXT NOT NULL
            )
            """,
            "CREATE INDEX podium_cache_at ON podium_cache (at)",
        ],
    ],
    first=3,
)
_PUT = """
INSERT INTO podium_cache (key, at, text, hash) VALUES (?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET at = excluded.at, text = excluded.text, hash = excluded.hash
"""
_AT_ONCE = 1000
"""Maximum answers that one transaction deletes."""
_PRUNE = f"""
DELETE FROM podium_cache
WHERE key IN (SELECT key FROM podium_cache WHERE at < ? ORDER BY at LIMIT {_AT_ONCE}) AND at < ?
"""  # noqa: S608 - no value from outside
_COUNT = "SELECT count(*) AS count FROM podium_cache WHERE at < ?"
_GET = "SELECT at, text, hash FROM podium_cache WHERE key = ?"


class SqlCache(SqlTables, Cache):
    """Stores answers in a database, for all processes that use it.

    A power failure may lose the latest answers. Secrets are removed from answers, as in a journal.

    Args:
        location: see `SqlJournal`; a journal and a cache may share a database.

    Raises:
        ConfigError: the location is invalid, or needs a package that is not installed.
    """

    def __init__(self, location: Location = None) -> None:
        super().__init__(_SCHEMA, location)

    async def get(self, key: str) -> Completion | None:
        """Return the answer for a key; `None` if there is none.

        Raises:
            JournalBroken: the stored answer was changed.
            JournalError: the database cannot be used.
        """
        stored = await self.stored(key)
        return None if stored is None else stored[1]

    async def stored(self, key: str) -> tuple[float, Completion] | None:
        """Return the time and the answer for a key; raises the same errors as `get`."""
        return await self.transaction(lambda transaction: _stored(transaction, key), reads=True)

    async def put(self, key: str, answer: Completion) -> None:
        """Store an answer, which replaces the answer for the same key.

        Raises:
            JournalBroken: the stored answer for this key was changed; it is kept for an audit.
            JournalError: the database cannot be used.
        """
        at, text = time(), scrub(write_record(answer, _TYPE))
        digest = _hash(key, at, text)

        async def put(transaction: Transaction) -> None:
            await _stored(transaction, key)
            await transaction.execute(_PUT, key, at, text, digest)

        await self.transaction(put)

    async def prune(self, older_than: float) -> int:
        """Delete the answers that are older than `older_than` seconds, and return their number."""
        before, deleted = time() - older_than, 0
        while True:
            count = await self.transaction(lambda each: each.execute(_PRUNE, before, before))
            deleted += count
            if count < _AT_ONCE:
                return deleted

    async def count_old(self, older_than: float) -> int:
        """Return the number of answers that `prune` would delete now."""
        before = time() - older_than
        rows = await self.transaction(lambda each: each.fetch(_COUNT, before), reads=True)
        return int(rows[0]["count"])


async def _stored(transaction: Transaction, key: str) -> tuple[float, Completion] | None:
    for row in await transaction.fetch(_GET, key):
        if row["hash"] != _hash(key, row["at"], row["text"]):
            raise JournalBroken(
                f"the cached answer {key} was changed: `podium audit verify` lists the runs that reused it, "
                "`podium runs cache --clear` deletes all answers"
            )
        return row["at"], read_record(row["text"], Completion, _TYPE)
    return None


def _hash(key: str, at: float, text: str) -> str:
    return sha256(f"{key}\n{at!r}\n{text}".encode()).hexdigest()
