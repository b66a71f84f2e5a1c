"""Run a candidate in parallel to the primary (the production system), on a sample of its requests.

Nothing here waits, raises in the caller, or touches the primary. The candidate runs in its own thread after
the primary has answered, with limits on time, concurrency and budget.
"""

import asyncio
import random
import weakref
from abc import ABC, abstractmethod
from asyncio import CancelledError
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from math import inf
from threading import Lock
from time import monotonic, perf_counter, time
from types import TracebackType
from typing import Literal, Self
from uuid import uuid4

import anyio.to_thread

from podium.errors import ConfigError
from podium.secrets import scrub
from podium.types.messages import storable
from podium_shadow.background import Background
from podium_shadow.budget import Budget, Spending
from podium_shadow.counters import LOGGER, Count, Counters
from podium_shadow.pair import MOST_CHARS, Pair, Side, Spent, Tally
from podium_shadow.pair_store import Pairs

_MOST_PROBLEM = 1000
"""Maximum length of a stored error message, in characters."""
Unasked = Literal["abandoned", "unread"]


class Candidate(ABC):
    """One request to a candidate; an adapter implements it."""

    @abstractmethod
    async def run(self) -> str:
        """Return the answer.

        Raises:
            Exception: any exception is recorded as the candidate's failure.
        """

    @abstractmethod
    def spent(self) -> Spent:
        """Return the spending of the request; called when it ended, failed or was cancelled."""


class ShadowRunner:
    """Draws a sample of requests, runs the candidate on each, and records the pairs.

    Its thread starts with the first drawn request. Close the runner, or use it as a context manager, to end
    running candidates. A runner ends by itself when no code refers to it any more, and when the interpreter
    ends.

    Args:
        pairs: the store of pairs.
        name: the name of the shadow in reports.
        sample: the share of requests that is drawn, from 0 to 1.
        seed: the seed of the draw; the same seed draws the same requests of a sequence. `None` uses a new
            seed in each process.
        concurrency: maximum number of concurrent candidates; further requests are dropped.
        seconds: timeout of a candidate, in seconds.
        budget: the limits of the candidates; `None` sets no limit.

    Raises:
        ConfigError: a number is out of range, or the name cannot be printed.
    """

    def __init__(  # noqa: PLR0913 - one parameter for each limit
        self,
        pairs: Pairs,
        *,
        name: str = "shadow",
        sample: float = 0.1,
        seed: int | None = None,
        concurrency: int = 4,
        seconds: float = 120.0,
        budget: Budget | None = None,
    ) -> None:
        _check(name, sample, concurrency, seconds)
        self.name = name
        self._sample = sample
        self._seed = random.SystemRandom().getrandbits(64) if seed is None else seed
        self._seconds = seconds
        self._lock = Lock()
        self._requests = 0
        self._spending = Spending(budget or Budget())
        self._counters = Counters(pairs, name)
        self._background = Background(f"podium-{name}", concurrency, pairs, self._counters.flush)
        weakref.finalize(self, self._background.release)

    @property
    def pairs(self) -> Pairs:
        """The store of pairs."""
        return self._counters.pairs

    @property
    def tally(self) -> Tally:
        """The counts of this hour's requests."""
        return self._counters.tally

    def draws(self, key: str | None = None) -> bool:
        """Count a request, and return whether it is drawn.

        Args:
            key: decides the draw together with the seed; `None` uses the request's number.
        """
        if self._background.is_closed:
            return False
        with self._lock:
            self._requests += 1
            seed = f"{self._seed}:{self._requests if key is None else key}"
        drawn = int.from_bytes(sha256(seed.encode()).digest()[:8]) < self._sample * 2**64
        self._counters.count("seen", *(("sampled",) if drawn else ()))
        return drawn

    def drop(self, why: Unasked) -> None:
        """Count a drawn request that the candidate does not get."""
        self._counters.count(why)

    def put(self, told: Callable[[], tuple[str, Side]], candidate: Candidate) -> None:
        """Run the candidate in the background, if `concurrency` and the budget allow it.

        Args:
            told: returns the question and the primary's side; called in the background.
            candidate: the request to run.
        """
        with self._lock:
            funded = self._spending.take(monotonic())
        if not funded:
            self._counters.count("unfunded")
        elif not self._background.start(lambda: self._compare(told, candidate)):
            self._give_back("busy")

    def close(self, seconds: float = 10.0) -> bool:
        """Accept no more requests, wait for running candidates, and end the thread.

        Args:
            seconds: seconds to wait before running candidates are cancelled and counted.

        Returns:
            Whether all candidates have ended. Code that does not return, and cannot be cancelled, still runs.
        """
        return self._background.close(seconds)

    async def aclose(self, seconds: float = 10.0) -> bool:
        """Close like `close`, without blocking the event loop."""
        return await anyio.to_thread.run_sync(self.close, seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def _compare(self, told: Callable[[], tuple[str, Side]], candidate: Candidate) -> None:
        try:
            question, primary = told()
        except Exception:  # noqa: BLE001 - an error in `told` must not end the thread
            LOGGER.warning("shadow %s: the primary's answer cannot be read", self.name, exc_info=True)
            self._give_back("unread")
            return
        began, asked = perf_counter(), Side(status="failed")
        try:
            async with asyncio.timeout(self._seconds) as timeout:
                asked = await _ask(candidate)
        except TimeoutError:
            pass  # reported below, because the candidate may swallow the cancellation
        except CancelledError:
            self._counters.count("cut_off")
            raise
        finally:
            seconds, spent = perf_counter() - began, candidate.spent()
            with self._lock:
                self._spending.settle(spent.cost)
        if timeout.expired():
            asked = Side(status="timeout", problem=f"no answer after {self._seconds:g} s")
        here = _kept(replace(asked, seconds=seconds, spent=spent))
        text, there = storable(question[:MOST_CHARS]), _kept(primary)
        pair = Pair(
            pair_id=uuid4().hex, shadow=self.name, at=time(), question=text, primary=there, candidate=here
        )
        await self._counters.put(pair)

    def _give_back(self, why: Count) -> None:
        with self._lock:
            self._spending.give_back()
        self._counters.count(why)


async def _ask(candidate: Candidate) -> Side:
    """Run a candidate, and return its side; any exception becomes its failure."""
    try:
        return Side(status="ok", answer=await candidate.run())
    except CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raised: BaseException = error
    except BaseException as error:  # noqa: BLE001 - `sys.exit()` in a candidate must not end the thread
        raised = error
    return failed(raised)


def failed(error: BaseException) -> Side:
    """Return the side of a primary or candidate that raised."""
    return Side(status="failed", problem=f"{type(error).__name__}: {error}")


def _kept(side: Side) -> Side:
    """Return a side as it is stored: cut to length, and without secrets."""
    return replace(
        side,
        answer=storable(side.answer[:MOST_CHARS]),
        problem=storable(scrub(side.problem)[:_MOST_PROBLEM]),
    )


def _check(name: str, sample: float, concurrency: int, seconds: float) -> None:
    if not name or not name.isprintable():
        raise ConfigError(f"the shadow's name is {name!r}: use a printable name")
    if not 0 <= sample <= 1:
        raise ConfigError(f"sample is {sample!r}: it must be a share of the requests, from 0 to 1")
    if concurrency < 1:
        raise ConfigError(f"concurrency is {concurrency!r}: it must be a whole number, 1 or more")
    if not 0 < seconds < inf:
        raise ConfigError(f"seconds is {seconds!r}: it must be a number above 0")
