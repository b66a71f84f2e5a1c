"""The budget of a shadow's candidates, and the spending so far."""

import asyncio
import logging
import random
import weakref
from abc import ABC, abstractmethod
from asyncio import CancelledError
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, replace
from hashlib import sha256
from math import inf
from threading import Lock
from time import monotonic, perf_counter, time
from typing import Any, Literal
from uuid import uuid4

import anyio.to_thread

from podium.errors import ConfigError, JournalError
from podium.secrets import scrub
from podium.types.messages import storable
from podium_shadow.background import Background
from podium_shadow.pairs import MOST_CHARS, Pair, Side, Spent, SqlPairs, Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The limits of a shadow's candidates, per process.

    While a candidate runs, it counts with the highest cost of a candidate so far. So the first candidates
    that run at the same time may together exceed `cost`. `Limits.cost` of a conductor bounds each single
    candidate.
    """

    runs: int | None = None
    """Maximum number of started candidates; `None`, here and below, sets no limit."""
    cost: float | None = None
    """Maximum cost of all candidates, in USD."""
    unpriced: float | None = None
    """The cost in USD to assume for a candidate of unknown cost. With `None`, the first such candidate uses
    up `cost`.
    """
    seconds: float | None = None
    """Seconds after which the budget is renewed, such as 3600 for hourly; `None` never renews it."""

    def __post_init__(self) -> None:
        whole = isinstance(self.runs, int) and not isinstance(self.runs, bool)
        if self.runs is not None and not (whole and self.runs > 0):
            raise ConfigError(f"Budget.runs is {self.runs!r}: it must be a whole number, 1 or more")
        for name, least in (("cost", "above 0"), ("unpriced", "0 or more"), ("seconds", "above 0")):
            value = getattr(self, name)
            if value is not None and not (0 < value < inf or (value == 0 and name == "unpriced")):
                raise ConfigError(f"Budget.{name} is {value!r}: it must be a number, {least}")


class Spending:
    """The spending of a budget. Not thread-safe: its owner holds a lock."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._end: float | None = None
        self._runs = 0
        self._cost = 0.0
        self._in_flight = 0
        self._highest = 0.0

    def take(self, now: float) -> bool:
        """Return whether one more candidate may start, and count it if so."""
        budget = self._budget
        if budget.seconds is not None and (self._end is None or now >= self._end):
            self._end, self._runs, self._cost = now + budget.seconds, 0, 0.0
        if budget.runs is not None and self._runs >= budget.runs:
            return False
        if budget.cost is not None:
            expected = self._cost + (self._in_flight + 1) * self._highest
            if self._cost >= budget.cost or expected > budget.cost:
                return False
        self._runs += 1
        self._in_flight += 1
        return True

    def give_back(self) -> None:
        """Undo a `take` after which no candidate was started."""
        self._runs -= 1
        self._in_flight -= 1

    def settle(self, cost: float | None) -> None:
        """Count the cost of a candidate, in USD; `None` means unknown."""
        self._in_flight -= 1
        known = cost if cost is not None else self._budget.unpriced
        self._cost += inf if known is None else known
        if known is not None:
            self._highest = max(self._highest, known)


Count = Literal["seen", "sampled", "busy", "unfunded", "abandoned", "unread", "cut_off", "unrecorded"]

LOGGER = logging.getLogger("podium")
_HOUR = 3600.0


class Counters:
    """The counts of one shadow in this process. Thread-safe."""

    def __init__(self, pairs: SqlPairs, shadow: str) -> None:
        self.pairs = pairs
        self._shadow = shadow
        self._mark = uuid4().hex
        self._lock = Lock()
        self.tally = self._new(time())
        """The counts of this hour."""
        self._unsaved: dict[str, Tally] = {}
        """The tallies that have changed since they were stored."""

    def count(self, *counts: Count) -> None:
        """Add one to each count."""
        now = time()
        with self._lock:
            fresh = self._new(now)
            tally = self.tally if self.tally.tally_id == fresh.tally_id else fresh
            self.tally = replace(tally, at=now, **{name: getattr(tally, name) + 1 for name in counts})
            self._unsaved[tally.tally_id] = self.tally

    async def put(self, pair: Pair) -> None:
        """Store a pair; if this fails, count and log the failure."""
        try:
            await self._keep(pair)
        except (JournalError, TypeError, ValueError) as error:
            self.count("unrecorded")
            LOGGER.warning("shadow %s: a pair was not recorded: %s", self._shadow, error)

    async def flush(self) -> None:
        """Store the counts, if they have changed."""
        if not self._unsaved:
            return
        try:
            await self._keep(None)
        except JournalError as error:
            LOGGER.warning("shadow %s: its counts were not recorded: %s", self._shadow, error)

    async def _keep(self, pair: Pair | None) -> None:
        with self._lock:
            *full, tally = [*self._unsaved.values()] or [self.tally]
        for each in full:
            await self.pairs.put(None, each)
        await self.pairs.put(pair, tally)
        with self._lock:
            for each in (*full, tally):
                if self._unsaved.get(each.tally_id) is each:
                    del self._unsaved[each.tally_id]

    def _new(self, now: float) -> Tally:
        return Tally(tally_id=f"{self._mark}-{int(now // _HOUR)}", shadow=self._shadow, at=now)


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


class ShadowRunner(AbstractContextManager[Any], AbstractAsyncContextManager[Any]):
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
        pairs: SqlPairs,
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
    def pairs(self) -> SqlPairs:
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

    def __exit__(self, *raised: object) -> None:
        self.close()

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()

    async def _compare(self, told: Callable[[], tuple[str, Side]], candidate: Candidate) -> None:
        try:
            question, primary = told()
        except Exception:
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
