"""Answers of earlier calls, found by what was asked. The seam, and one in memory.

An answer is found by content: who was asked, as what version, which messages and how it
was to write. It knows no worker, no plan and no order of steps.
"""

import json
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
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
    """Return what stands for a call by content.

    Args:
        identity: who is asked, as its worker says it: name, version, model.
        messages: what it is sent.
        sampling: how it is to write.
    """
    told = [identity, [message.to_wire() for message in messages], repr(sampling)]
    return sha256(json.dumps(told, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


class Cache(ResourceGroup, ABC):
    """Remembers answers by the content of what was asked.

    An answer is put there when its end was seen, by `stop`, and nothing is missing from it.
    Steps that ask the same of one worker are given one answer.
    """

    @abstractmethod
    async def get(self, key: str) -> Completion | None:
        """Return the answer that was put there; `None` when there is none."""

    @abstractmethod
    async def put(self, key: str, answer: Completion) -> None:
        """Remember an answer; one of the same key is replaced."""


class MemoryCache(Cache):
    """Remembers the answers used last, in this process, until it ends.

    Args:
        size: most answers it holds.

    Raises:
        ConfigError: it could hold none.
    """

    def __init__(self, size: int = 10_000) -> None:
        if size < 1:
            raise ConfigError(f"MemoryCache: size is {size!r}: it must be 1 or more")
        self.size = size
        self._answers: dict[str, Completion] = {}
        """The one used longest ago comes first."""

    def __len__(self) -> int:
        return len(self._answers)

    async def get(self, key: str) -> Completion | None:
        """Return the answer that was put there; `None` when there is none, or no more."""
        # Taken out and put back, not moved: a thread that looks in between only misses it.
        answer = self._answers.pop(key, None)
        if answer is not None:
            self._answers[key] = answer
        return answer

    async def put(self, key: str, answer: Completion) -> None:
        """Remember an answer; where there are too many, the one used longest ago goes."""
        self._answers.pop(key, None)
        self._answers[key] = answer
        if len(self._answers) > self.size:
            self._answers.pop(next(iter(self._answers)), None)


async def look_up(cache: Cache, key: str) -> Completion | None:
    """Return the answer of this key. A cache that fails has none: whoever asks can do without."""
    try:
        with Boundary("the cache", PodiumError):
            return await cache.get(key)
    except PodiumError:
        _log.warning("the cache could not be read: the worker is asked", exc_info=True)
        return None


async def remember(cache: Cache, key: str | None, answer: Completion) -> None:
    """Put a whole answer there. A cache that fails takes no answer away that is paid for."""
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
    """Wait until nobody else in this event loop asks the same, and keep others waiting meanwhile.

    Without this, two steps that ask the same at once would hear two answers, of which one
    is found again, and what was shown the other would not be.
    """
    locks = _asking.setdefault(cache, LoopLocal(dict)).get()
    lock = locks.setdefault(key, anyio.Lock(fast_acquire=True))
    try:
        async with lock:
            yield
    finally:
        if not lock.statistics().tasks_waiting and not lock.locked():
            locks.pop(key, None)
