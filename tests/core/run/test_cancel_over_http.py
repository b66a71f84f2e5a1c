"""Stopping a run, or a step of it, reaches the socket, and nothing is sent afterwards."""

from collections.abc import Awaitable, Callable

import anyio
import pytest
from core.actors import plan_of
from servers.chat_server import STALL, Call, ChatServer, Reply, chunk, events

from podium.budget import Limits
from podium.conductor import Conductor
from podium.planners import FixedPlanner
from podium.types import Plan, Step
from podium.workers import ChatWorker, Endpoint, ScriptedWorker, Worker

pytestmark = pytest.mark.anyio

BRANCHES = plan_of((0, "left", ()), (0, "right", ()), (0, "join", (0, 1)))
SOON = 0.2
"""Seconds within which a socket is to be closed."""


def _hangs(call: Call) -> Reply:
    return events(chunk({"content": "half"}), STALL) if call.body.get("stream") else Reply((STALL,))


async def _until(met: Callable[[], bool], seconds: float = 5.0) -> None:
    with anyio.fail_after(seconds):
        while not met():  # noqa: ASYNC110  (what is waited for is another thread of events)
            await anyio.sleep(0.001)


async def _until_closed(server: ChatServer) -> None:
    """Wait until every call was hung up on, and see that no other follows."""
    await _until(lambda: all(call.hung_up.is_set() or call.answered.is_set() for call in server.calls), SOON)
    calls = len(server.calls)
    await anyio.sleep(SOON)
    assert len(server.calls) == calls


def _conductor(server: ChatServer, plan: Plan, *others: Worker, **options: object) -> Conductor:
    worker = ChatWorker("a", endpoint=Endpoint(server.url))
    return Conductor(FixedPlanner(plan), [worker, *others], **options)  # type: ignore[arg-type]  # named right


async def _run(conductor: Conductor) -> None:
    await conductor.run("Why?")


async def _stream(conductor: Conductor) -> None:
    async for _ in conductor.stream("Why?"):
        pass


@pytest.mark.parametrize("way", [_run, _stream])
async def test_a_cancel_closes_every_socket_and_starts_nothing(
    way: Callable[[Conductor], Awaitable[None]],
) -> None:
    async with ChatServer(_hangs) as server, _conductor(server, BRANCHES) as conductor:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(way, conductor)
            await _until(lambda: len(server.calls) == 2)
            tasks.cancel_scope.cancel()
        await _until_closed(server)
        assert len(server.calls) == 2


async def test_the_deadline_closes_every_socket_too() -> None:
    async with ChatServer(_hangs) as server:
        async with _conductor(server, BRANCHES, limits=Limits(seconds=0.3)) as conductor:
            result = await conductor.run("Why?")
            await _until_closed(server)
        assert (result.status, len(server.calls)) == ("failed", 2)
        assert [outcome.maybe_paid for outcome in result.outcomes] == [True, True, False]


async def test_the_slower_of_two_is_hung_up_on() -> None:
    plan = Plan((Step(0, "slow"), Step(1, "quick"), Step(1, "answer", (0, 1), 1)))
    quick = ScriptedWorker("quick", "Q", latency=0.1)
    async with ChatServer(_hangs) as server, _conductor(server, plan, quick) as conductor:
        result = await conductor.run("Why?")
        await _until_closed(server)
        assert (result.answer, len(server.calls)) == ("Q", 1)
        assert result.outcomes[0].maybe_paid
