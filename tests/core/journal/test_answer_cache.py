"""An answer that was had before is used again, whatever the order it was had in."""

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from contracts.cache_contract import CacheContract
from core.actors import Actor, boss, plan_of, yielding
from core.virtual_clock import anyio_backend  # noqa: F401 - a fixture

from podium import Conductor, FunctionWorker, Limits, Plan, Sampling
from podium.errors import ConfigError
from podium.journal import Cache, MemoryCache
from podium.types import Completion, Outcome, StepStarted
from podium.usage import Usage
from podium.workers import Card, ChatWorker, Endpoint, Price, Request, ScriptedWorker, StepInput, Worker

pytestmark = pytest.mark.anyio

PLAN = plan_of((0, "do it", ()))


class TestMemoryCache(CacheContract):
    @pytest.fixture
    async def cache(self) -> AsyncIterator[Cache]:
        async with MemoryCache() as cache:
            yield cache


async def test_the_answer_used_longest_ago_goes_first() -> None:
    cache = MemoryCache(2)
    for key in "ab":
        await cache.put(key, Completion(key))
    await cache.get("a")
    await cache.put("c", Completion("c"))
    assert [await cache.get(key) for key in "abc"] == [Completion("a"), None, Completion("c")]
    assert len(cache) == 2
    with pytest.raises(ConfigError, match="size is 0"):
        MemoryCache(0)


def counting(name: str = "a", *, latency: float = 0.0, version: str = "1", **card: Any) -> Actor:
    """Return a worker that never says the same twice."""
    said = iter(range(1000))

    async def act(request: Request) -> Any:
        await anyio.sleep(latency)
        yield Completion(f"{name} says {next(said)}", usage=Usage(10, 5))

    return Actor(Card(name=name, version=version, price=Price(input=1.0, output=1.0), **card), act)


async def run(workers: list[Worker], cache: Cache, plan: Plan = PLAN) -> tuple[Outcome, ...]:
    return (await Conductor(boss(""), workers, cache=cache).run(plan)).outcomes


async def test_a_hit_costs_nothing() -> None:
    """Nobody is called, nothing is reserved or billed, and the outcome says so."""
    worker, cache = counting(), MemoryCache()
    (first,) = await run([worker], cache)
    conductor = Conductor(boss(""), [worker], cache=cache, limits=Limits(cost=1e-12))
    events = [event async for event in conductor.stream(PLAN)]
    (again,) = events[-1].result.outcomes
    assert len(worker.requests) == 1
    assert not any(isinstance(event, StepStarted) for event in events)
    assert (again.status, again.text, again.reused) == ("ok", first.text, True)
    assert (again.usage, again.cost, again.attempts, again.calls) == (Usage(), 0.0, 0, ())
    assert (again.started, again.seconds, again.maybe_paid) == (again.ended, 0.0, False)
    assert (first.reused, first.usage) == (False, Usage(10, 5))


@pytest.mark.parametrize(
    ("worker", "plan"),
    [(counting(version="2"), PLAN), (counting("b"), PLAN), (counting(), plan_of((0, "do other things", ())))],
    ids=["version", "name", "subtask"],
)
async def test_another_question_is_asked(worker: Actor, plan: Plan) -> None:
    cache = MemoryCache()
    await run([counting()], cache)
    (outcome,) = await run([worker], cache, plan)
    assert not outcome.reused


async def test_code_without_a_version_is_asked_every_time() -> None:
    """A function may read the time; one whose card has a version is taken at its word."""
    said: list[int] = []

    async def count(step_input: StepInput) -> str:
        said.append(1)
        return str(len(said))

    cache = MemoryCache()
    assert [(await run([FunctionWorker(count)], cache))[0].text for _ in "12"] == ["1", "2"]
    versioned = FunctionWorker(count, card=Card(name="count", version="1"))
    assert [(await run([versioned], cache))[0].text for _ in "12"] == ["3", "3"]


@pytest.mark.parametrize(
    "answer",
    [Completion("cut", finish_reason="length"), Completion("part", missing="the rest")],
    ids=["cut", "partial"],
)
async def test_an_answer_that_lacks_something_is_not_kept(answer: Completion) -> None:
    """The next run may get all of it."""
    worker, cache = Actor(Card(name="a", version="1"), yielding(answer)), MemoryCache()
    await run([worker], cache)
    await run([worker], cache)
    assert (len(worker.requests), len(cache)) == (2, 0)


def test_what_is_no_cache_is_refused() -> None:
    cache: Any = "process"
    with pytest.raises(ConfigError, match=r"cache is 'process': write 'run', or .*MemoryCache\(\)"):
        Conductor(boss(""), [ScriptedWorker("w", "x")], cache=cache)


class _Broken(Cache):
    async def get(self, key: str) -> Completion | None:
        raise OSError("disk on fire")

    async def put(self, key: str, answer: Completion) -> None:
        raise OSError("disk on fire")


async def test_a_cache_that_fails_costs_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    (outcome,) = await run([counting()], _Broken())
    assert (outcome.status, outcome.text) == ("ok", "a says 0")
    assert [record.name for record in caplog.records].count("podium.journal.cache") == 2


async def test_two_steps_that_ask_the_same_at_once_ask_once() -> None:
    worker = counting(latency=3.0)
    plan = plan_of((0, "do it", ()), (0, "do it", ()), (0, "join", (0, 1)))
    outcomes = await run([worker], MemoryCache(), plan)
    assert [outcome.text for outcome in outcomes] == ["a says 0", "a says 0", "a says 1"]
    assert [outcome.reused for outcome in outcomes] == [False, True, False]


async def test_a_model_is_the_same_at_the_same_server_only() -> None:
    endpoint = Endpoint("http://127.0.0.1:1/v1")
    card = Card(name="a")
    workers = [
        ChatWorker("m", endpoint=endpoint, card=card),
        ChatWorker("m2", endpoint=endpoint, card=card),
        ChatWorker("m", endpoint=Endpoint("http://127.0.0.1:2/v1"), card=card),
        ChatWorker("m", endpoint=endpoint, card=card, sampling=Sampling(temperature=1.0)),
        ChatWorker("m", endpoint=endpoint, card=Card(name="a", version="2")),
    ]
    assert len({worker.identity for worker in workers}) == 5
    again = ChatWorker("m", endpoint=Endpoint("http://127.0.0.1:1/v1/", api_key="another-key"), card=card)
    assert again.identity == workers[0].identity
