"""The interface of a cache of answers, and a cache in memory.

The key of an answer is a hash of the call: the worker's name and version, the messages and the sampling. The
key does not depend on the plan or the order of steps.
"""

import json
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from weakref import WeakKeyDictionary

import anyio

from podium.aio.per_loop import LoopLocal
from podium.aio.resources import ResourceGroup
from podium.errors import ConfigError, PodiumError
from podium.secrets.boundary import Boundary
from podium.types.messages import Completion, Message, Sampling

_log = logging.getLogger(__name__)


def answer_key(identity: str, messages: Sequence[Message], sampling: Sampling) -> str:
    """Return the key of a call.

    Args:
        identity: the worker's own identity: name, version, model.
        messages: the messages that the worker is sent.
        sampling: the sampling of the call.
    """
    told = [identity, [message.to_wire() for message in messages], repr(sampling)]
    return sha256(json.dumps(told, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """An answer as a cache stores it."""

    at: float
    """When it was stored, in seconds of Unix time."""
    answer: Completion


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

    async def stored(self, key: str) -> StoredAnswer | None:
        """Return the answer for a key in its stored form, for an audit; `None` if there is none.

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
    """Hold a lock on a key: one task of this event loop makes the call, and other tasks wait for the answer.

    Without the lock, two concurrent steps with the same call would get different answers.
    """
    locks = _asking.setdefault(cache, LoopLocal(dict)).get()
    lock = locks.setdefault(key, anyio.Lock(fast_acquire=True))
    try:
        async with lock:
            yield
    finally:
        if not lock.statistics().tasks_waiting and not lock.locked():
            locks.pop(key, None)
