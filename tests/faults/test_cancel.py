"""A run that is cancelled or out of time closes its sockets at once, and starts nothing more.

How long that takes is measured by `python -m benchmarks.durability`.
"""

import asyncio
from random import Random

import anyio
import pytest
from core.actors import plan_of
from faults.leftovers import until
from servers.chat_server import STALL, Call, ChatServer, Part, Reply, chunk, events, says

from podium import ChatWorker, Conductor, Endpoint, Limits, Retry
from podium.planners import FixedPlanner

pytestmark = pytest.mark.anyio

CANCELS = 100
PLAN = FixedPlanner(plan_of((0, "a", ()), (0, "b", (0,)), (0, "c", (0,)), (0, "d", (1, 2))))
STALLED: dict[str, tuple[Part, ...]] = {
    "before the answer": (),
    "in the headers": (b"HTTP/1.1 200 OK\r\nContent-Type: text",),
    "in the body": tuple(events(chunk({"content": "half"}), STALL).parts),
}


async def _settled(server: ChatServer, tasks: set[asyncio.Task[object]]) -> None:
    """Wait until nothing is open, and then long enough for a call that should not come."""
    await until(lambda: not server.open_connections)
    await until(lambda: not asyncio.all_tasks() - tasks - server.tasks)
    await anyio.sleep(0.05)


@pytest.mark.parametrize(
    ("stalled", "stream"), [("before the answer", False), ("in the headers", True), ("in the body", True)]
)
async def test_cancel_closes_what_is_under_way(stalled: str, *, stream: bool) -> None:
    """Every server sees its client leave, and no retry, stand-in or later step is called."""

    def reply(call: Call) -> Reply:
        return says(call, "first") if len(server.calls) == 1 else Reply((*STALLED[stalled], STALL))

    async with ChatServer(reply) as server:
        tasks = asyncio.all_tasks()
        pool = [ChatWorker("m", endpoint=Endpoint(server.url))]
        async with Conductor(PLAN, pool, retry=Retry(attempts=3, first_wait=0.01)) as conductor:

            async def go() -> None:
                if not stream:
                    await conductor.run("Why?")
                else:
                    async for _ in conductor.stream("Why?"):
                        pass

            async with anyio.create_task_group() as runs:
                runs.start_soon(go)
                await until(lambda: len(server.calls) == 3)
                runs.cancel_scope.cancel()
            await until(lambda: all(call.hung_up.is_set() for call in server.calls[1:]))
        await _settled(server, tasks)
    assert len(server.calls) == 3


@pytest.mark.long
async def test_many_cancels_at_random_moments() -> None:
    """Whenever the cancel comes, the calls under way are hung up on and none comes after."""
    moments = Random(3)  # noqa: S311

    async with ChatServer(lambda call: says(call, "fine", delay=0.01)) as server:
        tasks = asyncio.all_tasks()
        pool = [ChatWorker("m", endpoint=Endpoint(server.url))]
        async with Conductor(PLAN, pool) as conductor:
            for _ in range(CANCELS):
                with anyio.move_on_after(moments.uniform(0.0, 0.03)) as scope:
                    await conductor.run("Why?")
                assert scope.cancelled_caught
                seen = len(server.calls)
                await until(lambda: all(c.answered.is_set() or c.hung_up.is_set() for c in server.calls))
                assert (
                    len(server.calls) <= seen + 2
                )  # sent before the cancel, and read by the server after it
        await _settled(server, tasks)
    assert any(call.hung_up.is_set() for call in server.calls)


async def test_deadline_closes_what_is_under_way() -> None:
    """A run out of time ends with what it has, and its server sees the client leave."""
    async with ChatServer(lambda _: Reply((STALL,))) as server:
        tasks = asyncio.all_tasks()
        pool = [ChatWorker("m", endpoint=Endpoint(server.url))]
        retry = Retry(attempts=3, first_wait=0.01)
        async with Conductor(PLAN, pool, limits=Limits(seconds=0.2), retry=retry) as conductor:
            result = await conductor.run("Why?")
            await until(server.calls[0].hung_up.is_set)
        await _settled(server, tasks)
    assert result.status == "failed"
    assert [outcome.maybe_paid for outcome in result.outcomes] == [True, False, False, False]
    assert len(server.calls) == 1
