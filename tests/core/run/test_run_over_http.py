"""Whole runs over real connections: what a server does wrong costs its own step, and nothing stays open."""

import asyncio
import socket
from dataclasses import dataclass

import anyio
import pytest
from core.actors import plan_of
from servers.chat_server import CUT, STALL, Call, ChatServer, Reply, chunk, events, says, whole

from podium.budget import Limits
from podium.conductor import Conductor
from podium.planners import FixedPlanner
from podium.types import Result, RunEnded
from podium.workers import ChatWorker, Endpoint

pytestmark = pytest.mark.anyio

SIBLINGS = FixedPlanner(plan_of((0, "find", ()), (1, "check", ()), (0, "tell", (0, 1))))
"""A step of the good worker beside one of the bad worker, and one that needs both."""
ALONE = FixedPlanner(plan_of((1, "check", ())))


@dataclass(frozen=True)
class Fault:
    """What the bad worker's server does."""

    code: str
    """Of the problem this comes to."""
    reply: Reply | None = None
    """`None`: it is down."""
    stream: bool = False
    step_seconds: float = 30.0


FAULTS = {
    "down": Fault("worker_unavailable"),
    "slow": Fault("worker_timeout", Reply((STALL,)), step_seconds=0.3),
    "slow in mid-stream": Fault(
        "worker_timeout", events(chunk({"content": "half"}), STALL), stream=True, step_seconds=0.3
    ),
    "garbage": Fault("worker_broken", whole(b"\x00\xff no answer")),
    "cut in mid-stream": Fault("worker_broken", events(chunk({"content": "half"}), CUT), stream=True),
    "ended in mid-stream": Fault(
        "worker_broken", events(chunk({"content": "half"}), done=False), stream=True
    ),
    "500": Fault("worker_unavailable", whole({"error": {"message": "on fire"}}, status=500)),
    "no choices": Fault("worker_broken", whole({"object": "chat.completion", "choices": []})),
}


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


async def _run(server: ChatServer, planner: FixedPlanner, fault: Fault) -> Result:
    url = server.url if fault.reply is not None else f"http://127.0.0.1:{_free_port()}/v1"
    pool = [
        ChatWorker("good", endpoint=Endpoint(server.url)),
        ChatWorker("bad", endpoint=Endpoint(url)),
    ]
    async with Conductor(planner, pool, limits=Limits(step_seconds=fault.step_seconds)) as conductor:
        if not fault.stream:
            return await conductor.run("Why?")
        *_, last = [event async for event in conductor.stream("Why?")]
        assert isinstance(last, RunEnded)
        return last.result


async def _until_clean(server: ChatServer, tasks: set[asyncio.Task[object]]) -> None:
    """Wait until no connection is open, and no other tasks run than `tasks`."""
    with anyio.fail_after(5):
        while server.open_connections or asyncio.all_tasks() - tasks - server.tasks:  # noqa: ASYNC110
            await anyio.sleep(0.001)


@pytest.mark.parametrize("planner", [SIBLINGS, ALONE], ids=["partial", "failed"])
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_a_fault_costs_its_step_alone(fault: Fault, planner: FixedPlanner) -> None:
    """The run says what went wrong, goes on with what there is, and leaves no task and no connection."""

    def reply(call: Call) -> Reply:
        if call.body["model"] == "good":
            return says(call, "found it", delay=0.02)  # the sibling's fault comes while this is under way
        return fault.reply or Reply(())

    async with ChatServer(reply) as server:
        tasks = asyncio.all_tasks()
        with anyio.fail_after(20):
            result = await _run(server, planner, fault)
        await _until_clean(server, tasks)
    expected = ("partial", "found it") if planner is SIBLINGS else ("failed", "")
    assert (result.status, result.answer) == expected
    assert result.problem is not None
    assert result.problem.code == fault.code
    statuses = ["ok", "failed", "ok"] if planner is SIBLINGS else ["failed"]
    assert [outcome.status for outcome in result.outcomes] == statuses
