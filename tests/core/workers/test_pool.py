"""A pool numbers its workers, keeps them open, bounds their calls, and remembers what they took."""

from typing import Any, Self

import anyio
import pytest
from anyio.lowlevel import checkpoint

from podium.errors import ConfigError
from podium.workers import Card, Pool, ScriptedWorker
from podium.workers.pool import KEPT, CallRecord

pytestmark = pytest.mark.anyio


def test_a_pool_that_cannot_be_is_refused() -> None:
    """Of nobody, or with two workers of one name, whom the message names."""
    with pytest.raises(ConfigError, match="at least one worker"):
        Pool([])
    with pytest.raises(ConfigError, match="'twin'"):
        Pool([ScriptedWorker("twin", "a"), ScriptedWorker("other", "b"), ScriptedWorker("twin", "c")])


@pytest.mark.parametrize(
    ("card", "reason"),
    [({"name": " a"}, "name"), ({"name": "a\nb"}, "name"), ({"concurrency": 0}, "concurrency")],
)
def test_a_card_that_cannot_be_is_refused(card: dict[str, Any], reason: str) -> None:
    """A name that could not be told from the text around it; a bound that would wait for ever."""
    with pytest.raises(ConfigError, match=reason):
        Card(**{"name": "a", **card})


def test_workers_are_numbered_in_the_order_given() -> None:
    """Numbers, cards and names go together."""
    workers = [ScriptedWorker(name, name) for name in "xyz"]
    pool = Pool(workers)
    assert list(pool) == workers
    assert [pool[number] for number in range(len(pool))] == workers
    assert pool.names == ("x", "y", "z")
    assert pool.cards[1] is workers[1].card


def test_loops_one_after_the_other_have_slots_of_their_own() -> None:
    """A pool outlives the loop it was first used in."""
    pool = Pool([ScriptedWorker(Card(name="b", concurrency=1), "b"), ScriptedWorker("a", "a")])

    async def take() -> None:
        assert pool.states[1].slot is None  # nothing is waited for where nothing is bounded
        slot = pool.states[0].slot
        assert slot is not None
        async with slot:
            await checkpoint()

    anyio.run(take)
    anyio.run(take)


class _Noting(ScriptedWorker):
    """Notes when it is opened and closed."""

    def __init__(self, name: str, notes: list[str], *, fails: bool = False) -> None:
        super().__init__(name, "x")
        self._notes = notes
        self._fails = fails

    async def __aenter__(self) -> Self:
        if self._fails:
            raise OSError("cannot open")
        self._notes.append(f"open {self.card.name}")
        return self

    async def __aexit__(self, *error: object) -> None:
        self._notes.append(f"close {self.card.name}")


async def test_workers_are_closed_in_the_opposite_order() -> None:
    """What was opened first is closed last; a pool that fails to open closes what it opened."""
    notes: list[str] = []
    async with Pool([_Noting("a", notes), _Noting("b", notes)]):
        notes.append("work")
    assert notes == ["open a", "open b", "work", "close b", "close a"]
    notes.clear()
    with pytest.raises(OSError, match="cannot open"):
        async with Pool([_Noting("a", notes), _Noting("b", notes, fails=True)]):
            notes.append("never")
    assert notes == ["open a", "close a"]


async def test_pools_share_the_state_of_a_worker() -> None:
    """The slot, the circuit breaker and the history; also of workers that only the shared pool has."""
    narrow, other = ScriptedWorker(Card(name="b", concurrency=1), "b"), ScriptedWorker("a", "a")
    whole = Pool([other, narrow])
    part = Pool([narrow], shares=whole)
    assert part.states[0].slot is whole.states[1].slot
    assert part.states[0].breaker is whole.states[1].breaker
    assert part.states[0].history is whole.states[1].history
    assert part.state_of(other.card) is whole.state_of(other.card)
    assert Pool([narrow]).states[0].slot is not whole.states[1].slot


def test_a_pool_remembers_what_calls_took() -> None:
    """For each worker by itself; the oldest of many are forgotten."""
    pool = Pool([ScriptedWorker("a", "A"), ScriptedWorker("b", "B")])
    history = pool.states[1].history
    for number in range(KEPT + 100):
        history.add(CallRecord(float(number), ok=True))
    assert (len(history.calls), history.calls[0].seconds, pool.states[0].history.calls) == (KEPT, 100.0, ())
