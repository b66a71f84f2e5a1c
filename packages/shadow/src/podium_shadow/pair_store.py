"""The seam to where pairs are kept, and keeping them in memory."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from threading import Lock
from time import time
from types import TracebackType
from typing import Any, Self

from podium_shadow.pair import Pair, Tally

MOST_PAIRS = 10_000
"""How many pairs are read where nobody says."""


class Pairs(AbstractAsyncContextManager[Any], ABC):
    """Where pairs and tallies are kept. Entering it keeps open what it holds; every method works without."""

    @abstractmethod
    async def put(self, pair: Pair | None, tally: Tally) -> None:
        """Keep a pair, where there is one, and a tally in place of the one of its id.

        Raises:
            JournalError: they cannot be kept.
        """

    @abstractmethod
    async def pairs(
        self, *, shadow: str | None = None, since: float = 0.0, limit: int = MOST_PAIRS
    ) -> Sequence[Pair]:
        """Return the latest pairs, the oldest of them first.

        Args:
            shadow: of the shadow of this name; `None` means of all.
            since: not older than this, in seconds of Unix time.
            limit: how many at most.

        Raises:
            JournalError: they cannot be read.
        """

    @abstractmethod
    async def tallies(self, *, shadow: str | None = None, since: float = 0.0) -> Sequence[Tally]:
        """Return the tallies that were added to since then, the oldest first."""

    @abstractmethod
    async def prune(self, older_than: float) -> int:
        """Forget what was put longer ago than this, in seconds, and return how many pairs that were."""


class MemoryPairs(Pairs):
    """Keeps pairs in this process's memory; for tests.

    Args:
        most: how many pairs are kept; the oldest is then forgotten.
    """

    def __init__(self, most: int = MOST_PAIRS) -> None:
        self._most = most
        self._pairs: list[Pair] = []
        self._tallies: dict[str, Tally] = {}
        self._lock = Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None

    async def put(self, pair: Pair | None, tally: Tally) -> None:
        """Keep them."""
        with self._lock:
            if pair is not None:
                self._pairs.append(pair)
                del self._pairs[: -self._most]
            self._tallies[tally.tally_id] = tally

    async def pairs(
        self, *, shadow: str | None = None, since: float = 0.0, limit: int = MOST_PAIRS
    ) -> Sequence[Pair]:
        """Return the latest pairs."""
        with self._lock:
            found = [pair for pair in self._pairs if pair.at >= since and shadow in (None, pair.shadow)]
        return tuple(sorted(found, key=lambda pair: pair.at)[-limit:])

    async def tallies(self, *, shadow: str | None = None, since: float = 0.0) -> Sequence[Tally]:
        """Return the tallies."""
        with self._lock:
            found = [
                each for each in self._tallies.values() if each.at >= since and shadow in (None, each.shadow)
            ]
        return tuple(sorted(found, key=lambda tally: tally.at))

    async def prune(self, older_than: float) -> int:
        """Forget old ones."""
        end = time() - older_than
        with self._lock:
            before = len(self._pairs)
            self._pairs = [pair for pair in self._pairs if pair.at >= end]
            self._tallies = {key: tally for key, tally in self._tallies.items() if tally.at >= end}
            return before - len(self._pairs)
