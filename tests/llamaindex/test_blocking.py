"""What blocks in its async methods is run in threads, so that steps side by side stay so."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import NodeWithScore, QueryBundle
from llamaindex.library import Shelf
from llamaindex.speaking import Blocking

from llama_index_podium import as_worker
from podium import Conductor, Plan, Step
from podium.planners import FixedPlanner
from podium.workers import Gather

pytestmark = pytest.mark.anyio

SIDE_BY_SIDE = Plan((Step(0, "Acme"), Step(1, "Bolt"), Step(2, "join", (0, 1))))


def _llm(meet: Callable[[], None], name: str) -> Any:
    def say(prompt: str) -> str:
        meet()
        return name

    return Blocking(say, name=name)


def _shelf(meet: Callable[[], None]) -> Shelf:
    class Waiting(Shelf):
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            meet()
            return super()._retrieve(query_bundle)

    return Waiting("contracts")


def _reading(retriever: Shelf) -> Any:
    return RetrieverQueryEngine(retriever, get_response_synthesizer(llm=Blocking("read")))


KINDS: dict[str, Callable[[Callable[[], None], str], Any]] = {
    "llm": _llm,
    "engine over a retriever": lambda meet, name: as_worker(_reading(_shelf(meet)), name=name),
}


@pytest.mark.parametrize(("kind", "stream"), [(kind, at % 2 == 0) for at, kind in enumerate(KINDS)])
async def test_steps_that_block_meet(kind: str, *, stream: bool) -> None:
    barrier = threading.Barrier(2)

    def meet() -> None:
        barrier.wait(20)

    workers = [*(as_worker(KINDS[kind](meet, name)) for name in ("left", "right")), Gather()]
    conductor = Conductor(FixedPlanner("x"), workers)
    listen = (lambda event: None) if stream else None
    result = await conductor.run(SIDE_BY_SIDE, on_event=listen)
    assert [outcome.status for outcome in result.outcomes] == ["ok", "ok", "ok"], result.explain()


async def test_a_cancel_leaves_a_thread_behind_and_comes_back_at_once() -> None:
    begun, go = threading.Event(), threading.Event()

    def hang(prompt: str) -> str:
        begun.set()
        go.wait(30)
        return "late"

    conductor = Conductor(FixedPlanner("x"), [as_worker(Blocking(hang))])
    task = asyncio.create_task(conductor.run(Plan((Step(0, "x"),))))
    try:
        with anyio.fail_after(10):
            while not begun.is_set():  # noqa: ASYNC110 - set in a thread
                await anyio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert not go.is_set()
    finally:
        go.set()
