"""Calls counted where they arrive: a server sees as many as were configured, and none after a cancel."""

import asyncio
import socket

import anyio
import pytest
from core.actors import plan_of, problem_of
from servers.chat_server import CUT, RESET, STALL, Call, ChatServer, Reply, chunk, events, says, whole

from podium.budget import Limits
from podium.conductor import Conductor
from podium.errors import PlannerError
from podium.execution import Retry
from podium.planners import ChatPlanner, FixedPlanner
from podium.types import Plan, Result, Sampling, Step
from podium.workers import Card, ChatWorker, Endpoint, Price, ScriptedWorker, Worker

pytestmark = pytest.mark.anyio

PLAN = plan_of((0, "do it", ()))
PRICE = Price(input=1.0, output=1.0)


def _status(status: int, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return whole({"error": {"message": "no"}}, status=status, headers=named)


FAULTS = {
    "503": (_status(503, Retry_After="0"), "worker_unavailable", True),
    "429": (_status(429), "worker_unavailable", False),
    "hangs": (Reply((STALL,)), "worker_timeout", True),
    "hangs in mid-body": (events(chunk({"content": "half"}), STALL), "worker_timeout", True),
    "reset": (Reply((RESET,)), "worker_unavailable", True),
    "cut": (events(chunk({"content": "half"}), CUT), "worker_broken", True),
    "no end": (whole({"choices": [{"message": {"content": "x"}}]}), "worker_broken", True),
}


def _worker(name: str, server: ChatServer, *, free_errors: bool = False, **options: Sampling) -> ChatWorker:
    card = Card(name=name, price=PRICE, free_errors=free_errors)
    return ChatWorker(name, endpoint=Endpoint(server.url), card=card, **options)


async def _run(workers: list[ChatWorker], retry: Retry) -> Result:
    limits = Limits(attempt_seconds=0.2)
    async with Conductor(FixedPlanner(PLAN), workers, retry=retry, limits=limits) as conductor:
        return await conductor.run(PLAN)


async def _until_clean(server: ChatServer, tasks: set[asyncio.Task[object]]) -> None:
    """Wait until no connection is open, and no other tasks run than `tasks`."""
    with anyio.fail_after(5):
        while server.open_connections or asyncio.all_tasks() - tasks - server.tasks:  # noqa: ASYNC110
            await anyio.sleep(0.001)


@pytest.mark.parametrize(("reply", "code", "maybe_paid"), FAULTS.values(), ids=FAULTS)
async def test_a_server_that_fails_sees_the_configured_number_of_calls(
    reply: Reply, code: str, *, maybe_paid: bool
) -> None:
    async with ChatServer(lambda call: reply) as server:
        tasks = asyncio.all_tasks()
        workers = [_worker(name, server) for name in "ab"]
        result = await _run(workers, Retry(attempts=3, first_wait=0.01, fallbacks={"a": ["b"]}))
        assert [call.body["model"] for call in server.calls] == ["a", "a", "b"]
        await _until_clean(server, tasks)
    (outcome,) = result.outcomes
    assert (outcome.attempts, outcome.maybe_paid, outcome.cost != 0) == (3, maybe_paid, maybe_paid)
    assert problem_of(outcome).code == code


@pytest.mark.parametrize("free", [False, True])
async def test_a_server_that_recovers_is_paid_for_what_it_did(*, free: bool) -> None:
    """Two calls that failed may have cost their prompts, unless the card says no; the third one answers."""

    def reply(call: Call) -> Reply:
        return _status(500) if len(server.calls) < 3 else says(call, "hello")

    async with ChatServer(reply) as server:
        result = await _run([_worker("a", server, free_errors=free)], Retry(first_wait=0.01))
    assert result.answer == "hello"
    first, second, last = result.outcomes[0].calls
    assert last.cost == pytest.approx(218e-6)
    assert first.cost == second.cost
    assert (first.cost > 0, first.maybe_paid, first.charged == "received") == (not free,) * 3
    assert first.cost < 1e-3


@pytest.mark.parametrize("script", [Reply((STALL,)), _status(503, Retry_After="20")], ids=["call", "wait"])
async def test_nothing_is_called_after_a_cancel(script: Reply) -> None:
    """A cancel closes the socket of a call, ends a wait, and begins no other call."""
    async with ChatServer(lambda call: script) as server:
        tasks = asyncio.all_tasks()
        conductor = Conductor(FixedPlanner(PLAN), [_worker("a", server)], retry=Retry())
        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(conductor.run, PLAN)
                while not server.calls:  # noqa: ASYNC110  (the server announces nothing)
                    await anyio.sleep(0.001)
                await anyio.sleep(0.05)
                group.cancel_scope.cancel()
        await _until_clean(server, tasks)
        await anyio.sleep(0.05)
        assert len(server.calls) == 1


async def test_a_server_that_is_down_is_not_waited_for() -> None:
    """Its circuit breaker opens, and further runs and plans fail at once, with the name of the worker."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    endpoint = Endpoint(f"http://127.0.0.1:{port}/v1")
    worker = ChatWorker("m", endpoint=endpoint, card=Card(name="only", price=PRICE))
    retry, results = Retry(first_wait=0.01, break_after=2, break_seconds=29.0), list[Result]()
    with anyio.fail_after(10):
        async with Conductor(FixedPlanner(PLAN), [worker], retry=retry) as conductor:
            results += [await conductor.run("Why?") for _ in range(2)]
        with pytest.raises(PlannerError, match="the run does not wait"):
            await Conductor(ChatPlanner(worker), [worker], retry=retry).run("Why?")
    problems = [result.outcomes[0].problem for result in results]
    assert [problem and problem.code for problem in problems] == ["worker_unavailable"] * 2
    assert [len(result.outcomes[0].calls) for result in results] == [2, 0]
    assert "Connection refused; it gets no calls for another" in str(problems[0])
    assert "worker 'only' failed 2 times in a row (no connection to its server)" in str(problems[1])


BRANCHES = plan_of((0, "left", ()), (0, "right", ()), (0, "join", (0, 1)))


def _hangs(call: Call) -> Reply:
    return events(chunk({"content": "half"}), STALL) if call.body.get("stream") else Reply((STALL,))


def _conductor(server: ChatServer, plan: Plan, *others: Worker, **options: object) -> Conductor:
    worker = ChatWorker("a", endpoint=Endpoint(server.url))
    return Conductor(FixedPlanner(plan), [worker, *others], **options)  # type: ignore[arg-type]  # named right


async def test_the_deadline_closes_every_socket_too() -> None:
    async with ChatServer(_hangs) as server:
        tasks = asyncio.all_tasks()
        async with _conductor(server, BRANCHES, limits=Limits(seconds=0.3)) as conductor:
            result = await conductor.run("Why?")
        await _until_clean(server, tasks)
        assert (result.status, len(server.calls)) == ("failed", 2)
        assert [outcome.maybe_paid for outcome in result.outcomes] == [True, True, False]


async def test_the_slower_of_two_is_hung_up_on() -> None:
    plan = Plan((Step(0, "slow"), Step(1, "quick"), Step(1, "answer", (0, 1), 1)))
    quick = ScriptedWorker("quick", "Q", latency=0.1)
    async with ChatServer(_hangs) as server, _conductor(server, plan, quick) as conductor:
        result = await conductor.run("Why?")
        with anyio.fail_after(5):
            await server.calls[0].hung_up.wait()
        assert (result.answer, len(server.calls)) == ("Q", 1)
        assert result.outcomes[0].maybe_paid
