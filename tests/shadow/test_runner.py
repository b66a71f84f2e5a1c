"""A candidate beside what is in production: never in its way, always within its bounds, nothing left over."""

import asyncio
import gc
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import pytest
from shadow.conftest import NewPairs

from podium.aio import run_sync
from podium.errors import ConfigError, JournalError
from podium.usage import Usage
from podium_shadow import Budget, Candidate, Pair, ShadowRunner, Side, Spent, SqlPairs, Tally
from podium_shadow.pairs import MOST_CHARS

GOOD = Side(status="ok", answer="the primary's", seconds=0.1)
Act = Callable[[], Awaitable[str]]


class Scripted(Candidate):
    """Does as it is told, and says what it cost."""

    def __init__(self, act: Act | None = None, cost: float | None = 0.25, answer: str = "ours") -> None:
        self._act = act
        self._cost = cost
        self._answer = answer

    async def run(self) -> str:
        """Act, or answer."""
        return await self._act() if self._act is not None else self._answer

    def spent(self) -> Spent:
        """Return what it cost."""
        return Spent(calls=1, usage=Usage(3, 2), cost=self._cost, run_id="r")


class Gate:
    """Holds candidates until it is opened, and counts how many there are at once."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.now = self.most = 0

    async def __call__(self) -> str:
        """Wait, without holding up the loop."""
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            while not self.opened.is_set():  # noqa: ASYNC110 - it is opened from other threads
                await asyncio.sleep(0.001)
        finally:
            self.now -= 1
        return "through"


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.opened.set()


@pytest.fixture
def pairs() -> SqlPairs:
    return NewPairs()


def threads() -> set[threading.Thread]:
    """Return the threads that run; the loop of all sync calls stays, with its threads, and is not counted."""
    staying = ("podium-sync", "podium-watchdog")
    return {thread for thread in threading.enumerate() if not thread.name.startswith(staying)}


@pytest.fixture(autouse=True)
def _no_threads_left() -> Iterator[None]:
    before = threads()
    yield
    end = time.monotonic() + 10.0
    while (left := threads() - before) and time.monotonic() < end:
        gc.collect()
        time.sleep(0.01)
    assert not left


def told(question: str = "Why?", side: Side = GOOD) -> Callable[[], tuple[str, Side]]:
    return lambda: (question, side)


def pairs_of(pairs: SqlPairs) -> Sequence[Pair]:
    return run_sync(pairs.pairs)


def compared(pairs: SqlPairs, *acts: Act | None, **options: Any) -> list[Side]:
    """Compare candidates with these acts, wait for all of them, and return their sides by status."""
    with ShadowRunner(pairs, sample=1.0, **options) as runner:
        for act in acts:
            runner.put(told(), Scripted(act))
        wait_for(lambda: len(pairs_of(pairs)) == len(acts))
    return sorted((pair.candidate for pair in pairs_of(pairs)), key=lambda side: side.status)


def wait_for(condition: Callable[[], object]) -> None:
    """Wait until something is so, and fail when it never is."""
    end = time.monotonic() + 20.0
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def test_a_pair_is_recorded_with_what_both_took(pairs: SqlPairs) -> None:
    with ShadowRunner(pairs, name="ours", sample=1.0) as runner:
        assert runner.draws()
        runner.put(told(), Scripted())
    (pair,) = pairs_of(pairs)
    assert (pair.shadow, pair.question, pair.primary) == ("ours", "Why?", GOOD)
    assert (pair.candidate.status, pair.candidate.answer) == ("ok", "ours")
    assert pair.candidate.spent == Spent(calls=1, usage=Usage(3, 2), cost=0.25, run_id="r")
    assert pair.candidate.seconds is not None
    (tally,) = run_sync(pairs.tallies)
    assert (tally.shadow, tally.seen, tally.sampled) == ("ours", 1, 1)


def draws(seed: int | None, sample: float, keys: Sequence[str | None]) -> list[bool]:
    with ShadowRunner(NewPairs(), sample=sample, seed=seed) as runner:
        return [runner.draws(key) for key in keys]


def test_the_draw_is_the_seeds() -> None:
    """The same requests are drawn again; those with a key also in another order. The ends are exact."""
    first = draws(7, 0.25, [None] * 200)
    assert first == draws(7, 0.25, [None] * 200)
    assert first != draws(8, 0.25, [None] * 200)
    assert 25 < sum(first) < 75
    keys = [f"run-{number}" for number in range(50)]
    assert draws(7, 0.5, keys) == draws(7, 0.5, keys[::-1])[::-1]
    assert [sum(draws(1, sample, [None] * 50)) for sample in (0.0, 1.0)] == [0, 50]


def test_numbers_that_are_none_are_refused() -> None:
    for wrong in ({"sample": 1.5}, {"concurrency": 0}, {"seconds": 0.0}, {"name": ""}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            ShadowRunner(NewPairs(), **wrong)  # type: ignore[arg-type]
    for budget in ({"runs": 0}, {"cost": 0.0}, {"unpriced": -1.0}, {"seconds": 0.0}):
        with pytest.raises(ConfigError, match="Budget"):
            Budget(**budget)  # type: ignore[arg-type]


def test_hanging_candidates_are_bounded_and_delay_nobody(pairs: SqlPairs, gate: Gate) -> None:
    """Requests go by while all candidates hang; what does not fit is dropped and counted."""
    with ShadowRunner(pairs, sample=1.0, concurrency=3) as runner:
        for _ in range(100):
            assert runner.draws()
            runner.put(told(), Scripted(gate))
        assert (runner.tally.sampled, runner.tally.busy) == (100, 97)
        wait_for(lambda: gate.most == 3)
        gate.opened.set()
    assert gate.most == 3
    assert [pair.candidate.answer for pair in pairs_of(pairs)] == ["through"] * 3


def test_a_candidate_has_its_time(pairs: SqlPairs, gate: Gate) -> None:
    """One that takes longer is cancelled and recorded as such; what it spent counts."""

    async def stubborn() -> str:
        try:
            await asyncio.sleep(60.0)
        except asyncio.CancelledError:
            return "late"
        return ""

    for side in compared(pairs, gate, stubborn, seconds=0.05):
        assert (side.status, side.problem, side.spent.cost) == ("timeout", "no answer after 0.05 s", 0.25)
    assert gate.now == 0


ERRORS = (ValueError("no sk-abcdefghijklmnop1234"), SystemExit(3), asyncio.CancelledError())


@pytest.mark.parametrize("error", ERRORS)
def test_what_a_candidate_raises_is_its_failing(pairs: SqlPairs, error: BaseException) -> None:
    """Nothing of it is raised anywhere, and the next candidate runs."""

    async def fail() -> str:
        raise error

    failed, good = compared(pairs, fail, None)
    assert (failed.status, good.status) == ("failed", "ok")
    assert failed.problem.startswith(type(error).__name__)
    assert "abcdefghijklmnop1234" not in failed.problem


def test_a_flood_is_cut_and_not_held(pairs: SqlPairs) -> None:
    """Of long answers only so much is kept, of a few at a time; text that no database takes is replaced."""
    long = told("q" * 10**6, Side(status="ok", answer="p" * 10**6))
    with ShadowRunner(pairs, sample=1.0, concurrency=2) as runner:
        for _ in range(50):
            runner.put(long, Scripted(answer="c" * 10**6))
    for pair in pairs_of(pairs):
        assert {len(pair.question), len(pair.primary.answer), len(pair.candidate.answer)} == {MOST_CHARS}
    other = NewPairs()
    with ShadowRunner(other, sample=1.0) as runner:
        runner.put(told("\0?", Side(status="ok", answer="\ud800")), Scripted(answer="a\0b"))
    (odd,) = pairs_of(other)
    assert odd.question + odd.primary.answer + odd.candidate.answer == "\ufffd?\ufffda\ufffdb"


class Broken(NewPairs):
    """Takes counts, and no pairs."""

    async def put(self, pair: Pair | None, tally: Tally) -> None:
        """Refuse pairs."""
        if pair is not None:
            raise JournalError("the disk is full")
        await super().put(pair, tally)


def test_a_journal_that_fails_is_told(caplog: pytest.LogCaptureFixture) -> None:
    pairs = Broken()
    with caplog.at_level(logging.WARNING, "podium"), ShadowRunner(pairs, sample=1.0) as runner:
        for _ in range(3):
            runner.put(told(), Scripted())
    assert "the disk is full" in caplog.text
    assert [tally.unrecorded for tally in run_sync(pairs.tallies)] == [3]


@pytest.mark.parametrize(
    ("budget", "cost", "funded"),
    [
        pytest.param(Budget(cost=1.0), 0.3, 3, id="in flight, candidates cost what the dearest did"),
        pytest.param(Budget(cost=100.0), None, 1, id="an unknown cost uses it up"),
        pytest.param(Budget(runs=2), None, 2, id="runs"),
    ],
)
def test_a_budget_is_kept(pairs: SqlPairs, budget: Budget, cost: float | None, funded: int) -> None:
    """Of requests one after the other, so many are compared, and one is not."""
    with ShadowRunner(pairs, sample=1.0, budget=budget) as runner:
        for number in range(funded + 1):
            runner.put(told(), Scripted(cost=cost))
            wait_for(lambda n=number: len(pairs_of(pairs)) + runner.tally.unfunded > n)
    assert (len(pairs_of(pairs)), runner.tally.unfunded) == (funded, 1)


def test_a_close_waits_then_cancels_and_counts(pairs: SqlPairs, gate: Gate) -> None:
    """What ends in time is recorded; what does not is cut off; afterwards nothing is drawn."""
    runner = ShadowRunner(pairs, sample=1.0)
    runner.draws()
    runner.put(told(), Scripted())
    runner.put(told(), Scripted(gate))
    assert runner.close(0.1)
    assert (gate.opened.is_set(), gate.now) == (False, 0)
    assert [pair.candidate.answer for pair in pairs_of(pairs)] == ["ours"]
    assert [tally.cut_off for tally in run_sync(pairs.tallies)] == [1]
    assert not runner.draws()
    runner.put(told(), Scripted())
    assert len(pairs_of(pairs)) == 1
    assert runner.close(0.1)


def test_code_that_never_returns_is_left_in_its_thread(pairs: SqlPairs) -> None:
    """It takes its room until it ends, so that such threads are bounded too; a close does not wait for it."""
    stuck, began = threading.Event(), list[int]()

    async def hang() -> str:
        await asyncio.to_thread(lambda: (began.append(1), stuck.wait()))
        return ""

    runner = ShadowRunner(pairs, sample=1.0, concurrency=2, seconds=0.05)
    try:
        for _ in range(2):
            runner.put(told(), Scripted(hang))
        wait_for(lambda: len(pairs_of(pairs)) == 2)
        for _ in range(20):
            runner.put(told(), Scripted(hang))
        assert (runner.tally.busy, len(began)) == (20, 2)
        assert not runner.close(0.05)
    finally:
        stuck.set()
    assert [pair.candidate.status for pair in pairs_of(pairs)] == ["timeout"] * 2
