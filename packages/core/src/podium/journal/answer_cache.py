"""A cache of answers, found by the content of the call: the seam, and a cache in memory.

The key covers the worker's name and version, the messages and the sampling. It does not cover the plan or
the order of steps.
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
        messages: what the worker is sent.
        sampling: how the worker samples.
    """
    told = [identity, [message.to_wire() for message in messages], repr(sampling)]
    return sha256(json.dumps(told, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """An answer as a cache stores it."""

    at: float
    """When it was put, in seconds of Unix time."""
    answer: Completion


class Cache(ResourceGroup, ABC):
    """Keeps answers by the content of the call.

    Only complete answers are kept: the model stopped by itself and nothing is missing. Steps that make the
    same call of one worker get one answer.
    """

    @abstractmethod
    async def get(self, key: str) -> Completion | None:
        """Return the answer of this key; `None` if there is none."""

    @abstractmethod
    async def put(self, key: str, answer: Completion) -> None:
        """Keep an answer; it replaces the answer of the same key."""

    async def stored(self, key: str) -> StoredAnswer | None:
        """Return the answer of this key as it is stored, for an audit; `None` if there is none.

        Raises:
            JournalBroken: the answer is not as it was put.
        """
        del key
        return None


class MemoryCache(Cache):
    """Keeps the answers used last, in the memory of this process.

    Args:
        size: most answers to keep.

    Raises:
        ConfigError: the size is below 1.
    """

    def __init__(self, size: int = 10_000) -> None:
        if size < 1:
            raise ConfigError(f"MemoryCache: size is {size!r}: it must be 1 or more")
        self.size = size
        self._answers: dict[str, Completion] = {}
        """The answer used longest ago comes first."""

    def __len__(self) -> int:
        return len(self._answers)

    async def get(self, key: str) -> Completion | None:
        """Return the answer of this key; `None` if there is none, or if it was dropped."""
        # Removed and inserted again, not moved: another thread in between only misses it.
        answer = self._answers.pop(key, None)
        if answer is not None:
            self._answers[key] = answer
        return answer

    async def put(self, key: str, answer: Completion) -> None:
        """Keep an answer; if there are too many, drop the answer used longest ago."""
        self._answers.pop(key, None)
        self._answers[key] = answer
        if len(self._answers) > self.size:
            self._answers.pop(next(iter(self._answers)), None)


async def look_up(cache: Cache, key: str) -> Completion | None:
    """Return the answer of this key. A cache that fails has none: the worker can be asked."""
    try:
        with Boundary("the cache", PodiumError):
            return await cache.get(key)
    except PodiumError:
        _log.warning("the cache could not be read: the worker is asked", exc_info=True)
        return None


async def remember(cache: Cache, key: str | None, answer: Completion) -> None:
    """Keep a complete answer. A cache that fails costs no answer that is paid for."""
    if key is None or answer.finish_reason != "stop" or answer.missing is not None:
        return
    try:
        with Boundary("the cache", PodiumError):
            await cache.put(key, answer)
    except PodiumError:
        _log.warning("the cache could not be written: an answer is not kept", exc_info=True)


_Asking = dict[str, anyio.Lock]
_asking: WeakKeyDictionary[Cache, LoopLocal[_Asking]] = WeakKeyDictionary()


@asynccontextmanager
async def asking(cache: Cache, key: str) -> AsyncGenerator[None, None]:
    """Hold a lock on a key: one caller in this event loop makes the call, the others wait for its answer.

    Without it, two steps that make the same call at once would get two answers, and the cache would keep only
    one of them.
    """
    locks = _asking.setdefault(cache, LoopLocal(dict)).get()
    lock = locks.setdefault(key, anyio.Lock(fast_acquire=True))
    try:
        async with lock:
            yield
    finally:
        if not lock.statistics().tasks_waiting and not lock.locked():
            locks.pop(key, None)
