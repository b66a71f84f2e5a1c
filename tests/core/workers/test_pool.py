"""A pool numbers its workers, keeps them open, bounds their calls, and remembers what they took."""

from typing import Any, Self

import anyio
import pytest
from anyio.lowlevel import checkpoint

from podium.errors import ConfigError
from podium.workers import Card, Pool, ScriptedWorker

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
