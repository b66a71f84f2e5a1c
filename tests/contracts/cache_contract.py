"""The contract of every cache. Subclass it as `Test…`, with the fixture.

class TestMine(CacheContract):
    @pytest.fixture
    async def cache(self) -> AsyncIterator[Cache]: ...  # an entered, empty cache for at least 100 answers
"""

import anyio
import pytest

from podium.journal import Cache
from podium.types import Completion
from podium.usage import Usage

WHOLE = Completion(
    "Ünïcode \N{GRINNING FACE}\n",
    finish_reason="stop",
    usage=Usage(7, 5, cached_tokens=3, reasoning_tokens=2, estimated=True),
    model="m-1",
    tool_calls=({"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}},),
    cost=0.25,
)
"""An answer with a value in every field."""


@pytest.mark.anyio
class CacheContract:
    async def test_an_answer_comes_back_as_it_was_put(self, cache: Cache) -> None:
        """All of it; one that is put again replaces the earlier one, and an unknown key has none."""
        await cache.put("a", Completion("old"))
        await cache.put("a", WHOLE)
        await cache.put("b", Completion("plain"))
        for _ in range(2):  # entered again, inside or afterwards
            async with cache, cache:
                assert (await cache.get("a"), await cache.get("b")) == (WHOLE, Completion("plain"))
                assert await cache.get("nothing") is None

    async def test_many_at_once_do_not_mix(self, cache: Cache) -> None:
        """Each key has its own answer, whoever reads and writes beside it."""
        found: dict[int, Completion | None] = {}

        async def use(number: int) -> None:
            await cache.put(f"key-{number}", Completion(f"answer {number}"))
            found[number] = await cache.get(f"key-{number}")

        async with anyio.create_task_group() as group:
            for number in range(50):
                group.start_soon(use, number)
        assert found == {number: Completion(f"answer {number}") for number in range(50)}
