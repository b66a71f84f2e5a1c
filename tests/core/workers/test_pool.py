"""A pool numbers its workers, keeps them open, and bounds their calls."""

from typing import Self

import anyio
import pytest
from anyio.lowlevel import checkpoint

from podium.errors import ConfigError
from podium.workers import Card, Pool, ScriptedWorker

pytestmark = pytest.mark.anyio


def test_a_pool_of_none_is_refused() -> None:
    """There is nobody to do the work."""
    with pytest.raises(ConfigError, match="at least one worker"):
        Pool([])


def test_two_workers_of_one_name_are_refused() -> None:
    """The message names them."""
    with pytest.raises(ConfigError, match="'twin'"):
        Pool([ScriptedWorker("twin", "a"), ScriptedWorker("other", "b"), ScriptedWorker("twin", "c")])


@pytest.mark.parametrize("name", ["", " a", "a ", "a\nb", "\0"])
def test_a_name_is_a_printable_word_or_more(name: str) -> None:
    """A name that could not be told from the text around it is refused."""
    with pytest.raises(ConfigError, match="name"):
        Card(name=name)


@pytest.mark.parametrize("concurrency", [0, -1])
def test_a_worker_takes_one_call_at_least(concurrency: int) -> None:
    """A bound of none would wait for ever."""
    with pytest.raises(ConfigError, match="concurrency"):
        Card(name="a", concurrency=concurrency)


def test_workers_are_numbered_in_the_order_given() -> None:
    """Numbers, cards and names go together."""
    workers = [ScriptedWorker(name, name) for name in "xyz"]
    pool = Pool(workers)
    assert list(pool) == workers
    assert [pool[number] for number in range(len(pool))] == workers
    assert pool.names == ("x", "y", "z")
    assert pool.cards[1] is workers[1].card


async def test_a_worker_without_a_bound_has_no_slots() -> None:
    """Nothing is waited for where nothing is bounded."""
    pool = Pool([ScriptedWorker("a", "a"), ScriptedWorker(Card(name="b", concurrency=1), "b")])
    assert pool.states[0].slot is None
    assert pool.states[1].slot is not None


async def test_slots_are_the_same_for_all_runs_of_a_loop() -> None:
    """A bound is the worker's, not the run's."""
    pool = Pool([ScriptedWorker(Card(name="b", concurrency=1), "b")])
    assert pool.states[0].slot is pool.states[0].slot


def test_loops_one_after_the_other_have_slots_of_their_own() -> None:
    """A pool outlives the loop it was first used in."""
    pool = Pool([ScriptedWorker(Card(name="b", concurrency=1), "b")])

    async def take() -> None:
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
    """What was opened first is closed last."""
    notes: list[str] = []
    async with Pool([_Noting("a", notes), _Noting("b", notes)]):
        notes.append("work")
    assert notes == ["open a", "open b", "work", "close b", "close a"]


async def test_a_pool_that_fails_to_open_closes_what_it_opened() -> None:
    """Half a pool is no pool."""
    notes: list[str] = []
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
